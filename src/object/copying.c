/* Copies between objects. The locks are released for each wait. */
#include "object/copying.h"

#include "base/status.h"
#include "copy/transfers.h"
#include "memory/guard.h"
#include "object/fetch_parts.h"
#include "object/host_only.h"
#include "object/move_stream.h"
#include "object/overlap.h"
#include "object/pair_list.h"
#include "object/publish.h"
#include "object/reclaim.h"
#include "object/several.h"
#include "object/gate.h"
#include "object/span.h"
#include "object/user_allocator.h"

#include <stdlib.h>

struct call {
    synced_mem_stream handle;
    struct sm_pairs common; /* stream: found in each round, since it may begin to capture while nothing is locked */
    struct sm_pair_list list;
    struct sm_round round;
    struct sm_transfers transfers; /* queued on the caller's stream, at most one for each pair */
    void *block;                   /* the memory of the transfers; NULL: the caller has it */
    struct sm_host_collection by_host;
    size_t settled; /* pairs whose source's open write the call has settled, and ends after the last pair */
    bool is_complete;
};

static bool are_all_direct(const struct call *call)
{
    return call->list.direct == call->list.length;
}

/* Returns whether the call's pairs are those of the list, and direct. Then a target is published when it is copied, and
 * a source only if its open write ends: to be read in a stream's order withdraws no pointer, as a stream that may write
 * is the same or is settled. */
static bool is_call_plain(const struct call *call)
{
    return are_all_direct(call) && !call->list.has_pieces;
}

/* Nobody has the pointer to a copy that was just written. In debug mode the memory is protected. A call that fails
 * publishes all of its objects when the round ends. */
static void publish_target(struct synced_mem *target)
{
    if (sm_guard_on())
        sm_publish_object(target);
    else
        sm_publish_nothing(target);
}

/* Direct pairs are copied in blocks, each while the processor's cache has it. */
static size_t count_at_once(const struct call *call)
{
    const size_t length = call->list.length;
    return are_all_direct(call) && length > SM_KERNEL_AT_ONCE ? SM_KERNEL_AT_ONCE : length;
}

/* The list of transfers is empty. */
static synced_mem_status make_room(struct call *call, size_t pairs)
{
    if (pairs <= call->transfers.room)
        return SYNCED_MEM_OK;
    void *const block = malloc(pairs * sizeof(struct sm_transfers_row));
    if (!block)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu copies", pairs);
    free(call->block);
    call->block = block;
    (void)sm_transfers_lay_out(&call->transfers, block, pairs);
    return SYNCED_MEM_OK;
}

/* ---- Objects and locks ---- */

/* Loads the records of pairs that come soon, and the copies of those that come next. */
static void prefetch_pair(const struct sm_pair *pair, const struct sm_pair *end)
{
    if (end - pair > 2 * SM_AHEAD) {
        sm_prefetch_record(pair[2 * SM_AHEAD].to);
        sm_prefetch_record(pair[2 * SM_AHEAD].from);
    }
    if (end - pair > SM_AHEAD) {
        sm_prefetch_copies(pair[SM_AHEAD].to, SM_BOTH_SIDES);
        sm_prefetch_copies(pair[SM_AHEAD].from, sm_raw_head(pair[SM_AHEAD].from));
    }
}

static bool is_source_settled(const struct sm_pair *pair)
{
    return pair->source && pair->source->writer_fence;
}

/* For a plain call. */
static void end_settled_writes(const struct call *call)
{
    const struct sm_pair *const end = call->list.pairs + call->list.length;
    for (const struct sm_pair *pair = call->list.pairs; pair < end; pair++) {
        prefetch_pair(pair, end);
        if (!is_source_settled(pair))
            continue;
        sm_pair_end_source_write(&call->common, pair);
        sm_publish_object(call->list.from[pair->of]);
    }
}

static void end_round(struct call *call)
{
    if (call->is_complete && is_call_plain(call)) {
        if (call->settled > 0)
            end_settled_writes(call);
    } else {
        for (size_t i = 0; i < call->list.count; i++) {
            sm_publish_object(call->list.to[i]);
            sm_publish_object(call->list.from[i]);
        }
    }
    sm_round_end(&call->round);
}

/* Reopens the uses that any round has settled, after a failure with nothing locked. Views may have cut the records
 * meanwhile, and the last round may not have listed them. So all records of the objects are visited. */
static synced_mem_status reopen_objects(const struct call *call, synced_mem_status status)
{
    for (size_t i = 0; i < call->list.count; i++) {
        sm_reopen_object(call->list.to[i]);
        sm_reopen_object(call->list.from[i]);
    }
    return status;
}

/* ---- Checks ---- */

/* A default stream, and the library's, belongs to the first target's device. If that object has none, it belongs to its
 * source's. Copies on the library's may come after a caller's work. */
static synced_mem_status find_stream(struct call *call)
{
    const synced_mem_stream handle = call->handle;
    const bool is_default = !handle || handle == SM_HANDLE_LEGACY || handle == SM_HANDLE_PER_THREAD;
    const int device = sm_device(call->list.to[0]) >= 0 ? sm_device(call->list.to[0]) : sm_device(call->list.from[0]);
    call->round.failed = call->list.to[0];
    if (handle == SM_HANDLE_OF_LIBRARY) {
        int resolved;
        SM_TRY(sm_device_resolve(device, &resolved));
        SM_TRY(sm_transfer_stream(resolved, SM_H2D, true, &call->common.stream));
    } else {
        SM_TRY(sm_callers_stream(is_default ? device : SYNCED_MEM_DEVICE_CURRENT, handle, &call->common.stream));
    }
    call->round.failed = NULL;
    return SYNCED_MEM_OK;
}

/* Checks that the stream is of the device of one of the objects. Both objects of a direct pair are on its device. */
static synced_mem_status check_devices(struct call *call)
{
    for (size_t i = 0; i < call->list.length; i++) {
        const size_t of = call->list.pairs[i].of;
        const int its = call->common.stream->device;
        const int to = sm_device(call->list.to[of]);
        const int from = sm_device(call->list.from[of]);
        if (to < 0 || to == its || from == its)
            continue;
        call->round.failed = call->list.to[of];
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                       "the stream is used on device %d, but the objects are on devices %d and %d", its, to, from);
    }
    return SYNCED_MEM_OK;
}

/* The stream is found before the pairs are listed, but sizes that differ are the failure that comes first. */
static synced_mem_status find_stream_or_sizes(struct call *call)
{
    const synced_mem_status status = find_stream(call);
    if (status != SYNCED_MEM_OK)
        SM_TRY(sm_pair_list_check_sizes(&call->list, &call->round.failed));
    return status;
}

/* Lists the pairs after the first checks, and does the others. */
static synced_mem_status check_and_list(struct call *call)
{
    const bool has_parts = call->list.has_pieces || call->round.has_parts;
    if (call->round.roots.count < 2 * call->list.count) /* a root has several of the objects */
        SM_TRY(sm_check_names(call->list.to, call->list.from, call->list.count, &call->round.failed));
    if (call->common.side == SM_GPU)
        SM_TRY(find_stream_or_sizes(call));
    SM_TRY(sm_pair_list_fill(&call->list, &call->common, has_parts, &call->round.failed));
    call->common.unlocked = has_parts && sm_roots_have_parts(&call->round.roots);
    call->common.by_host = &call->by_host;
    call->by_host.room = call->list.length;
    if (call->common.stream && !are_all_direct(call))
        SM_TRY(check_devices(call));
    if (call->list.has_memory_of_user)
        SM_TRY(sm_check_overlaps(&call->common, call->list.pairs, call->list.length, &call->round.failed));
    return make_room(call, count_at_once(call));
}

/* Notes that a failure is about a pair. */
static struct sm_pair *name_pair(struct call *call, struct sm_pair *pair)
{
    call->round.failed = call->list.to[pair->of];
    return pair;
}

/* ---- One round, with all objects locked ---- */

/* The source may be on another device than the stream. SM_AGAIN without a wait: the memory must come from a user
 * allocator, with nothing locked. */
static synced_mem_status load_source(struct call *call, struct sm_record *from, struct sm_file_reads *reads)
{
    const enum sm_side side = call->common.side;
    struct synced_mem *const owner = sm_owner_of(from);
    struct sm_stream *stream = NULL;
    if (side == SM_GPU) {
        const int device = sm_device(owner) >= 0 ? sm_device(owner) : call->common.stream->device;
        SM_TRY(sm_internal_stream(device, SM_INTERNAL_ALLOC, &stream));
    }
    if (!sm_user_allocator_wanted(owner, side)) {
        SM_TRY(sm_fetch_memory(owner, side, stream, false));
        return sm_queue_load(from, side, stream, reads, &call->round.waits);
    }
    call->round.alone = owner;
    call->round.alone_stream = stream;
    return SM_AGAIN;
}

/* Reads sources that are in files alone, to the side of the targets. */
static __attribute__((noinline)) synced_mem_status load_sources(struct call *call)
{
    const enum sm_side side = call->common.side;
    struct sm_file_reads reads = {.room = call->list.length, .by_kernel = true};
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < call->list.length && status == SYNCED_MEM_OK; i++) {
        struct sm_record *const from = call->list.pairs[i].from;
        if (call->list.pairs[i].done || !sm_is_in_file_alone(from))
            continue;
        (void)name_pair(call, &call->list.pairs[i]);
        status = load_source(call, from, &reads);
        if (status == SYNCED_MEM_OK)
            sm_set_head(from, sm_head(from) | sm_bit(side));
        if (status == SM_AGAIN && call->round.waits.count > 0)
            status = sm_waits_go_on(&call->round.waits, status);
    }
    sm_file_reads_begin(&reads);
    return status == SYNCED_MEM_OK ? sm_waits_status(&call->round.waits) : status;
}

static synced_mem_status obtain_targets(struct call *call)
{
    for (size_t i = 0; i < call->list.length; i++) {
        if (call->list.pairs[i].direct)
            continue;
        if (sm_is_in_file_alone(call->list.pairs[i].from))
            SM_TRY(load_sources(call));
        struct sm_pair *const pair = name_pair(call, &call->list.pairs[i]);
        sm_note_object(call->round.failed);
        const synced_mem_status status = sm_pair_obtain(&call->common, pair);
        if (status == SM_AGAIN) {
            call->round.alone = sm_owner_of(pair->to);
            SM_TRY(sm_pair_allocation_stream(&call->common, pair, &call->round.alone_stream));
        }
        if (status != SYNCED_MEM_OK)
            return status;
    }
    return SYNCED_MEM_OK;
}

/* Collects the next wait of each pair, until the list is full. */
static synced_mem_status find_waits(struct call *call)
{
    struct sm_waits *const waits = &call->round.waits;
    for (size_t i = 0; i < call->list.length; i++) {
        if (call->list.pairs[i].direct)
            continue;
        struct sm_pair *const pair = name_pair(call, &call->list.pairs[i]);
        SM_TRY(sm_waits_go_on(waits, sm_pair_find_wait(&call->common, pair, waits)));
    }
    return sm_waits_status(waits);
}

/* Copies each of some pairs' contents, or queues or begins its transfer. Those that are queued run even after a
 * failure, so they are entered. */
static synced_mem_status copy_some_pairs(struct call *call, struct sm_pair *begin, const struct sm_pair *end)
{
    struct sm_transfers *const transfers = &call->transfers;
    struct sm_batch *const batch = &transfers->batch;
    synced_mem_status status = SYNCED_MEM_OK;
    const bool reserves = call->common.batch && call->list.direct > 0;
    batch->reads = reserves ? sm_inflight_reserve_many((size_t)(end - begin)) : NULL;
    for (struct sm_pair *pair = begin; pair < end && status == SYNCED_MEM_OK; pair++) {
        prefetch_pair(pair, end);
        if (pair->done)
            continue;
        (void)name_pair(call, pair);
        sm_note_object(call->round.failed);
        status = sm_pair_copy(&call->common, pair, sm_transfers_next(transfers));
        transfers->queued += pair->queued;
    }
    sm_inflight_unreserve_many(batch->reads); /* a pair that is not direct may need none */
    batch->reads = NULL;
    if (transfers->queued == 0)
        return status;
    const bool copied = status == SYNCED_MEM_OK;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status entered = sm_transfers_enter(transfers, call->common.stream);
    const bool are_sent = !batch->has_failed;
    for (struct sm_pair *pair = begin; pair < end; pair++) {
        prefetch_pair(pair, end);
        if (pair->queued)
            sm_pair_set_heads(&call->common, pair, are_sent ? entered : SYNCED_MEM_ERR_CUDA);
        if (is_call_plain(call))
            publish_target(call->list.to[pair->of]);
        call->settled += is_source_settled(pair);
    }
    if (!are_sent || (copied && entered != SYNCED_MEM_OK))
        call->round.failed = NULL; /* it may be because of any of the pairs */
    if (!copied)
        sm_detail_set(&first);
    return copied ? entered : status;
}

static synced_mem_status copy_pairs(struct call *call)
{
    const struct sm_expected *const expected = &call->list.expected;
    struct sm_batch *const batch = &call->transfers.batch;
    struct sm_pair *const end = call->list.pairs + call->list.length;
    const size_t most = count_at_once(call);
    synced_mem_status status = SYNCED_MEM_OK;
    if (call->common.stream) {
        sm_batch_begin(batch, call->common.stream);
        sm_batch_expect(batch, expected);
    }
    for (struct sm_pair *pair = call->list.pairs; pair < end && status == SYNCED_MEM_OK;) {
        struct sm_pair *const behind = (size_t)(end - pair) > most ? pair + most : end;
        status = copy_some_pairs(call, pair, behind);
        pair = behind;
    }
    return status;
}

/* The allocation of new memory that nothing was queued to is entered. */
static void keep_fresh_copies(struct call *call)
{
    for (size_t i = 0; i < call->list.length; i++)
        if (!call->list.pairs[i].direct && call->list.pairs[i].fresh)
            sm_pair_keep_fresh(&call->common, &call->list.pairs[i]);
}

static bool are_all_done(const struct call *call)
{
    size_t i = 0;
    while (i < call->list.length && call->list.pairs[i].done)
        i++;
    return i == call->list.length;
}

static void end_source_writes(const struct call *call)
{
    for (size_t i = 0; i < call->list.length; i++)
        sm_pair_end_source_write(&call->common, &call->list.pairs[i]);
}

/* Copies nothing until all checks have passed, all memory is obtained, and the host need not wait. Open writes end only
 * after the last pair has succeeded: pointers stay valid if the call fails. */
static synced_mem_status run_locked_round(struct call *call)
{
    synced_mem_status status = check_and_list(call);
    if (status == SYNCED_MEM_OK && !are_all_direct(call))
        status = obtain_targets(call);
    if (status == SYNCED_MEM_OK && !are_all_direct(call))
        status = find_waits(call);
    if (status == SYNCED_MEM_OK)
        status = copy_pairs(call);
    call->is_complete = status == SYNCED_MEM_OK && (are_all_direct(call) || are_all_done(call));
    if (call->is_complete && !is_call_plain(call))
        end_source_writes(call);
    if (!are_all_direct(call))
        keep_fresh_copies(call);
    return status;
}

/* ---- Between the rounds ---- */

/* Waits for all transfers that have begun, even after a failure. Returns the first failure. */
static synced_mem_status follow_arrivals(struct call *call, synced_mem_status first)
{
    struct sm_outcome outcome;
    sm_outcome_set(&outcome, first);
    for (size_t i = 0; i < call->list.length && !are_all_direct(call); i++) {
        struct sm_pair *const pair = &call->list.pairs[i];
        if (!sm_pair_arrival(pair))
            continue;
        const synced_mem_status status = sm_follow_staged(pair->arrival, call->common.stream);
        if (status != SYNCED_MEM_OK && outcome.status == SYNCED_MEM_OK) {
            sm_outcome_set(&outcome, status);
            (void)name_pair(call, pair);
        }
        sm_pair_finish(&call->common, pair, status);
    }
    return sm_outcome_end(&outcome);
}

/* The same as end_source_writes(), with nothing locked. Locking cannot fail, as all objects were locked before. */
static void enter_and_end_source_writes(const struct call *call)
{
    for (size_t i = 0; i < call->list.length; i++) {
        struct sm_record *const from = call->list.pairs[i].from;
        (void)sm_lock_record(from);
        sm_pair_end_source_write(&call->common, &call->list.pairs[i]);
        sm_unlock_record(from);
    }
}

static synced_mem_status run_round(struct call *call)
{
    call->by_host.fence = NULL;
    if (call->common.side == SM_GPU)
        sm_kernel_list_foresee(&call->transfers.batch.list, sm_device(call->list.to[0]), call->list.count);
    SM_TRY(sm_round_begin(&call->round));
    synced_mem_status status = run_locked_round(call);
    const bool was_complete = call->is_complete;
    end_round(call);
    status = follow_arrivals(call, sm_round_wait(&call->round, call->common.side, status));
    sm_fence_drop(call->by_host.fence);
    if (status == SYNCED_MEM_OK && !was_complete) {
        call->is_complete = are_all_done(call);
        if (call->is_complete)
            enter_and_end_source_writes(call);
    }
    sm_stream_drop(call->common.stream);
    call->common.stream = NULL;
    return status == SYNCED_MEM_OK ? status : reopen_objects(call, status);
}

/* ---- All ---- */

static synced_mem_status run_rounds(struct call *call)
{
    synced_mem_status status;
    sm_roots_list(&call->round.roots, call->list.to, call->list.count);
    sm_roots_list(&call->round.roots, call->list.from, call->list.count);
    do
        status = run_round(call);
    while (status == SYNCED_MEM_OK && !call->is_complete);
    sm_pair_list_end(&call->list);
    free(call->block);
    return sm_reap_after(status, call->common.side == SM_CPU);
}

static synced_mem_status copy_once(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                   enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_transfers_row one;
    struct synced_mem *roots_of_one[2 * SM_ROOTS_ROOM];
    struct call call = {.handle = handle, .common.side = side, .list = {.to = to, .from = from, .count = count}};
    if (count == 0)
        return SYNCED_MEM_OK;
    (void)sm_transfers_lay_out(&call.transfers, &one, 1);
    call.transfers.batch.direction = SM_D2D;
    call.transfers.batch.is_async = true;
    call.common.batch = count > 1 ? &call.transfers.batch : NULL;
    struct synced_mem **const list = count > 1 ? malloc(count * sizeof roots_of_one) : roots_of_one;
    if (!list)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu copies", count);
    call.round.roots.list = list;
    const synced_mem_status status = run_rounds(&call);
    *failed = call.round.failed || count > 1 ? call.round.failed : to[0];
    if (count > 1)
        free(list);
    return status;
}

synced_mem_status sm_copy_objects(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                  enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    struct sm_gates sources = {.mems = from, .count = count, .side = SM_SIDES};
    struct sm_gates targets = {.mems = to, .count = count, .side = side};
    SM_TRY(sm_gates_begin(&sources, SM_READ, failed));
    synced_mem_status status = sm_gates_begin(&targets, SM_OVERWRITE, failed);
    if (status == SYNCED_MEM_OK) {
        do
            status = copy_once(to, from, count, side, handle, failed);
        while (sm_reclaim_helps(&reclaim, status));
        sm_gates_end(&targets);
    }
    sm_gates_end(&sources);
    return status;
}

synced_mem_status sm_clear(struct synced_mem *mem)
{
    struct sm_transaction transaction;
    if (sm_host_only_clear(mem))
        return sm_reap_after(SYNCED_MEM_OK, false);
    SM_TRY(sm_gate_begin(mem, SM_SIDES, SM_OVERWRITE));
    synced_mem_status status = sm_enter(&transaction, mem);
    if (status == SYNCED_MEM_OK) {
        for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
            sm_give_up_contents(each);
        status = sm_leave_and_reap(&transaction, SYNCED_MEM_OK, false);
    }
    sm_gate_end(mem);
    return status;
}
