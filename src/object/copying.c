/* Copies between objects. The locks are released for each wait. */
#include "object/copying.h"

#include "base/status.h"
#include "object/host_only.h"
#include "object/move_stream.h"
#include "object/overlap.h"
#include "object/pair_list.h"
#include "object/reclaim.h"
#include "object/renew.h"
#include "object/several.h"
#include "object/shareable.h"
#include "object/span.h"
#include "object/user_allocator.h"
#include "stream/shared_ends.h"

#include <stdlib.h>

/* The bytes of an owner's that one object of the call has. */
struct name {
    struct synced_mem *owner;
    size_t begin;
    size_t end;
    struct synced_mem *object;
    bool written;
};

/* A record of the pairs, and its state when the round began. */
struct named_record {
    struct sm_record *record;
    struct sm_before before;
};

struct batch {
    struct sm_pairs common;
    struct sm_pair_list list;
    struct sm_owners owners;
    struct name *names;           /* room */
    struct named_record *records; /* of the pairs, each once, ordered by address */
    size_t record_count;
    struct sm_transfer *transfers; /* queued on the caller's stream, one for each pair */
    size_t queued;
    struct sm_range *ranges; /* room */
    size_t room;             /* pairs that the arrays have room for */
    void *block;             /* the memory of the arrays; NULL: the caller has them */
    struct synced_mem *failed;
    struct sm_shared_ends ends;
    struct sm_host_collection by_host;
    /* Found in one round, for the time when nothing is locked. */
    struct sm_pair_waits waits;
    struct sm_pair *without;     /* a pair whose target needs memory that is obtained alone; NULL: none */
    struct sm_stream *allocates; /* memory from an allocator is usable in this stream's order; NULL: host memory */
};

/* ---- Room ---- */

/* The records of one pair. */
struct row {
    struct named_record records[2];
    struct sm_transfer transfer;
    struct sm_range ranges[SM_RANGES_OF_PAIR];
};

static void lay_out(struct batch *batch, void *block, size_t room)
{
    batch->room = room;
    batch->transfers = block;
    batch->records = (struct named_record *)(void *)(batch->transfers + room);
    batch->ranges = (struct sm_range *)(void *)(batch->records + 2 * room);
}

/* Nothing is in the arrays. */
static synced_mem_status make_room(struct batch *batch, size_t pairs)
{
    if (pairs <= batch->room)
        return SYNCED_MEM_OK;
    void *const block = calloc(pairs, sizeof(struct row));
    if (!block)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu copies", pairs);
    free(batch->block);
    batch->block = block;
    lay_out(batch, block, pairs);
    return SYNCED_MEM_OK;
}

/* ---- Objects and locks ---- */

static void list_owners(struct batch *batch)
{
    for (size_t i = 0; i < batch->list.count; i++) {
        batch->owners.list[2 * i] = sm_root(batch->list.to[i]);
        batch->owners.list[2 * i + 1] = sm_root(batch->list.from[i]);
    }
    sm_owners_sort(&batch->owners, 2 * batch->list.count);
}

static int compare_records(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct named_record *)a)->record;
    const uintptr_t second = (uintptr_t)((const struct named_record *)b)->record;
    return (first > second) - (first < second);
}

/* Takes lost contents out of the heads of the pairs' records, and notes the state of each. */
static void begin_records(struct batch *batch)
{
    const size_t listed = 2 * batch->list.length;
    struct named_record *const list = batch->records;
    size_t count = 0;
    for (size_t i = 0; i < batch->list.length; i++) {
        list[2 * i].record = batch->list.pairs[i].to;
        list[2 * i + 1].record = batch->list.pairs[i].from;
    }
    sm_sort_unless_sorted(list, listed, sizeof *list, compare_records);
    for (size_t i = 0; i < listed; i++) {
        struct sm_record *const record = list[i].record;
        if (count > 0 && record == list[count - 1].record)
            continue;
        sm_drop_lost(record);
        list[count++] = (struct named_record){.record = record, .before = sm_state_of(record)};
    }
    batch->record_count = count;
}

/* Publishes for all objects of the call, and releases the locks. */
static void unlock_objects(struct batch *batch)
{
    for (size_t i = 0; i < batch->list.count; i++) {
        sm_publish_object(batch->list.to[i]);
        sm_publish_object(batch->list.from[i]);
    }
    sm_owners_unlock(&batch->owners);
}

static void leave_objects(struct batch *batch, synced_mem_status status)
{
    for (size_t i = 0; i < batch->record_count && status != SYNCED_MEM_OK && status != SM_AGAIN; i++)
        sm_restore_record(batch->records[i].record, &batch->records[i].before);
    unlock_objects(batch);
}

/* Reopens the uses that any round has settled, after a failure with nothing locked. Views may have cut the records
 * meanwhile, and the last round may not have listed them. So all records of the objects are visited. */
static synced_mem_status reopen_objects(const struct batch *batch, synced_mem_status status)
{
    for (size_t i = 0; i < batch->list.count; i++) {
        sm_reopen_object(batch->list.to[i]);
        sm_reopen_object(batch->list.from[i]);
    }
    return status;
}

/* ---- Checks ---- */

static synced_mem_status check_sizes(struct batch *batch)
{
    for (size_t i = 0; i < batch->list.count; i++) {
        const struct synced_mem *const from = batch->list.from[i];
        batch->failed = batch->list.to[i];
        if (sm_size(batch->failed) != sm_size(from))
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                           "the object to copy has %zu bytes, but this object has %zu bytes", sm_size(from),
                           sm_size(batch->failed));
    }
    return SYNCED_MEM_OK;
}

/* An object of 0 bytes counts as one byte, so that it overlaps itself. */
static struct name get_name(struct synced_mem *object, bool written)
{
    const size_t begin = sm_object_begin(object);
    const size_t size = sm_size(object) > 0 ? sm_size(object) : 1;
    return (struct name){
        .owner = sm_owner(object), .begin = begin, .end = begin + size, .object = object, .written = written};
}

static int compare_names(const void *a, const void *b)
{
    const struct name *const one = a;
    const struct name *const other = b;
    const uintptr_t first = (uintptr_t)one->owner;
    const uintptr_t second = (uintptr_t)other->owner;
    if (first != second)
        return (first > second) - (first < second);
    return (one->begin > other->begin) - (one->begin < other->begin);
}

static bool overlaps(const struct name *before, const struct name *name)
{
    return before && before->owner == name->owner && before->end > name->begin;
}

/* Of the names that begin earlier, the one that reaches furthest is enough to compare with. */
static synced_mem_status check_names(struct batch *batch)
{
    struct name *const names = batch->names;
    const struct name *furthest = NULL;
    const struct name *furthest_written = NULL;
    for (size_t i = 0; i < batch->list.count; i++) {
        names[2 * i] = get_name(batch->list.to[i], true);
        names[2 * i + 1] = get_name(batch->list.from[i], false);
    }
    qsort(names, 2 * batch->list.count, sizeof *names, compare_names);
    for (const struct name *at = names; at < names + 2 * batch->list.count; at++) {
        if (overlaps(at->written ? furthest : furthest_written, at)) {
            batch->failed = at->object;
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                           "the call writes the object, or a part of it, and names it a second time");
        }
        if (!furthest || furthest->owner != at->owner || at->end > furthest->end)
            furthest = at;
        if (at->written &&
            (!furthest_written || furthest_written->owner != at->owner || at->end > furthest_written->end))
            furthest_written = at;
    }
    return SYNCED_MEM_OK;
}

static bool is_default_stream(synced_mem_stream handle)
{
    return !handle || handle == SM_HANDLE_LEGACY || handle == SM_HANDLE_PER_THREAD;
}

/* A default stream belongs to the first target's device. If that object has none, it belongs to its source's. */
static int get_default_device(const struct batch *batch)
{
    const int device = sm_device(batch->list.to[0]);
    return device >= 0 ? device : sm_device(batch->list.from[0]);
}

/* Copies may come after a caller's work. */
static synced_mem_status find_internal_stream(struct batch *batch)
{
    int device;
    SM_TRY(sm_device_resolve(get_default_device(batch), &device));
    return sm_transfer_stream(device, SM_H2D, true, &batch->common.stream);
}

static synced_mem_status find_stream(struct batch *batch, synced_mem_stream handle)
{
    const int device = is_default_stream(handle) ? get_default_device(batch) : SYNCED_MEM_DEVICE_CURRENT;
    batch->failed = batch->list.to[0];
    SM_TRY(handle == SM_HANDLE_OF_LIBRARY ? find_internal_stream(batch)
                                          : sm_stream_find(device, handle, &batch->common.stream));
    if (!batch->common.stream)
        return sm_fail(
            SYNCED_MEM_ERR_CAPTURING,
            "the stream is capturing, and the transfer would become part of the graph: call before the capture");
    const int its = batch->common.stream->device;
    for (size_t i = 0; i < batch->list.count; i++) {
        const int to = sm_device(batch->list.to[i]);
        batch->failed = batch->list.to[i];
        if (to >= 0 && to != its && sm_device(batch->list.from[i]) != its)
            return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                           "the stream is used on device %d, but the objects are on devices %d and %d", its, to,
                           sm_device(batch->list.from[i]));
    }
    return SYNCED_MEM_OK;
}

/* Lists the pairs after the first checks, and does the others. */
static synced_mem_status check_and_list(struct batch *batch, synced_mem_stream handle)
{
    SM_TRY(check_sizes(batch));
    SM_TRY(check_names(batch));
    SM_TRY(sm_pair_list_fill(&batch->list));
    batch->common.unlocked = sm_owners_have_parts(&batch->owners);
    batch->common.by_host = &batch->by_host;
    batch->by_host.room = batch->list.length;
    SM_TRY(make_room(batch, batch->list.length));
    begin_records(batch);
    SM_TRY(sm_check_overlaps(&batch->common, batch->list.pairs, batch->list.length, batch->ranges, &batch->failed));
    return batch->common.side == SM_GPU ? find_stream(batch, handle) : SYNCED_MEM_OK;
}

/* Notes that a failure is about a pair. */
static struct sm_pair *name_pair(struct batch *batch, struct sm_pair *pair)
{
    batch->failed = batch->list.to[pair->of];
    return pair;
}

/* ---- One round, with all objects locked ---- */

static synced_mem_status obtain_targets(struct batch *batch)
{
    for (size_t i = 0; i < batch->list.length; i++) {
        struct sm_pair *const pair = name_pair(batch, &batch->list.pairs[i]);
        sm_note_object(batch->failed);
        const synced_mem_status status = sm_pair_obtain(&batch->common, pair);
        if (status == SM_AGAIN) {
            batch->without = pair;
            SM_TRY(sm_pair_allocation_stream(&batch->common, pair, &batch->allocates));
        }
        if (status != SYNCED_MEM_OK)
            return status;
    }
    return SYNCED_MEM_OK;
}

static struct sm_waits *get_waits(struct batch *batch, int kind)
{
    return &batch->waits.of[kind / 2][kind % 2];
}

/* Collects the next wait of each pair, until one of the lists is full. */
static synced_mem_status find_waits(struct batch *batch)
{
    bool again = false;
    bool full = false;
    for (size_t i = 0; i < batch->list.length && !full; i++) {
        struct sm_pair *const pair = name_pair(batch, &batch->list.pairs[i]);
        const synced_mem_status status = sm_pair_find_wait(&batch->common, pair, &batch->waits);
        if (status != SYNCED_MEM_OK && status != SM_AGAIN)
            return status;
        again = again || status == SM_AGAIN;
        for (int kind = 0; kind < 4; kind++)
            full = full || get_waits(batch, kind)->full;
    }
    return again ? SM_AGAIN : SYNCED_MEM_OK;
}

static synced_mem_status copy_pairs(struct batch *batch)
{
    for (size_t i = 0; i < batch->list.length; i++) {
        struct sm_pair *const pair = &batch->list.pairs[i];
        if (pair->done)
            continue;
        (void)name_pair(batch, pair);
        sm_note_object(batch->failed);
        SM_TRY(sm_pair_copy(&batch->common, pair, &batch->transfers[batch->queued]));
        batch->queued += pair->queued;
    }
    return SYNCED_MEM_OK;
}

/* Enters the queued transfers. They run even after a failure. */
static synced_mem_status enter_queued_transfers(struct batch *batch, synced_mem_status before)
{
    if (batch->queued == 0)
        return before;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status status = sm_transfer_enter(batch->transfers, batch->queued, batch->common.stream);
    for (size_t i = 0; i < batch->list.length; i++)
        if (batch->list.pairs[i].queued)
            sm_pair_set_heads(&batch->common, &batch->list.pairs[i], status);
    batch->queued = 0;
    if (before != SYNCED_MEM_OK)
        sm_detail_set(&first);
    return before != SYNCED_MEM_OK ? before : status;
}

static void keep_fresh_copies(struct batch *batch)
{
    for (size_t i = 0; i < batch->list.length; i++)
        if (batch->list.pairs[i].fresh)
            sm_pair_keep_fresh(&batch->common, &batch->list.pairs[i]);
}

static bool is_complete(const struct batch *batch)
{
    size_t i = 0;
    while (i < batch->list.length && batch->list.pairs[i].done)
        i++;
    return i == batch->list.length;
}

static void end_source_writes(const struct batch *batch)
{
    for (size_t i = 0; i < batch->list.length; i++)
        sm_pair_end_source_write(&batch->common, &batch->list.pairs[i]);
}

/* Copies nothing until all checks have passed, all memory is obtained, and the host need not wait. Open writes end only
 * after the last pair has succeeded: pointers stay valid if the call fails. */
static synced_mem_status run_locked_round(struct batch *batch, synced_mem_stream handle)
{
    synced_mem_status status = check_and_list(batch, handle);
    if (status == SYNCED_MEM_OK)
        status = obtain_targets(batch);
    if (status == SYNCED_MEM_OK)
        status = find_waits(batch);
    if (status == SYNCED_MEM_OK)
        status = enter_queued_transfers(batch, copy_pairs(batch));
    if (status == SYNCED_MEM_OK && is_complete(batch))
        end_source_writes(batch);
    keep_fresh_copies(batch);
    return status;
}

/* ---- Between the rounds ---- */

/* A failure of the work that brings a target's old contents is no error. */
static synced_mem_status wait_for_fences(struct batch *batch)
{
    for (int kind = 0; kind < 4; kind++) {
        bool over;
        const bool until_queued = kind / 2, of_source = kind % 2;
        const synced_mem_status status = sm_waits_wait(get_waits(batch, kind), until_queued, &over);
        if (status != SYNCED_MEM_OK && (of_source || !over))
            return status;
    }
    return SYNCED_MEM_OK;
}

static void end_waits(struct batch *batch)
{
    for (int kind = 0; kind < 4; kind++)
        sm_waits_end(get_waits(batch, kind));
}

/* Makes the stream come after a staged transfer, or waits for it. Without a stream the host waits for the contents. */
static synced_mem_status follow_arrival(const struct batch *batch, struct sm_fence *arrival)
{
    struct sm_stream *const stream = batch->common.stream;
    if (!stream)
        return sm_fence_wait(arrival);
    const synced_mem_status status = sm_fence_wait_queued(arrival);
    if (status != SYNCED_MEM_OK || sm_is_internal(stream) || sm_stream_hold_back(stream, arrival))
        return status;
    return sm_fence_wait(arrival);
}

/* Waits for all transfers that have begun, even after a failure. Returns the first failure. */
static synced_mem_status follow_arrivals(struct batch *batch, synced_mem_status first)
{
    struct sm_outcome outcome;
    sm_outcome_set(&outcome, first);
    for (size_t i = 0; i < batch->list.length; i++) {
        struct sm_pair *const pair = &batch->list.pairs[i];
        if (!pair->arrival)
            continue;
        const synced_mem_status status = follow_arrival(batch, pair->arrival);
        if (status != SYNCED_MEM_OK && outcome.status == SYNCED_MEM_OK) {
            sm_outcome_set(&outcome, status);
            (void)name_pair(batch, pair);
        }
        sm_pair_finish(&batch->common, pair, status);
    }
    return sm_outcome_end(&outcome);
}

/* The same as end_source_writes(), with nothing locked. Locking cannot fail, as all objects were locked before. */
static void enter_and_end_source_writes(const struct batch *batch)
{
    for (size_t i = 0; i < batch->list.length; i++) {
        struct sm_record *const from = batch->list.pairs[i].from;
        (void)sm_lock_record(from);
        sm_pair_end_source_write(&batch->common, &batch->list.pairs[i]);
        sm_unlock_record(from);
    }
}

/* Finds the stream again in each round, since it may begin to capture while nothing is locked. */
static synced_mem_status run_round(struct batch *batch, synced_mem_stream handle)
{
    batch->without = NULL;
    batch->record_count = 0;
    batch->by_host.fence = NULL;
    SM_TRY(sm_owners_lock(&batch->owners, &batch->failed));
    sm_share_ends(&batch->ends);
    synced_mem_status status = run_locked_round(batch, handle);
    sm_share_no_ends();
    const bool was_complete = is_complete(batch);
    leave_objects(batch, status);
    if (status == SM_AGAIN && !batch->without)
        status = wait_for_fences(batch);
    else if (status == SM_AGAIN)
        status = sm_obtain_alone(sm_owner_of(batch->without->to), batch->common.side, batch->allocates);
    end_waits(batch);
    status = follow_arrivals(batch, status);
    sm_fence_drop(batch->by_host.fence);
    if (status == SYNCED_MEM_OK && !was_complete && is_complete(batch))
        enter_and_end_source_writes(batch);
    sm_stream_drop(batch->common.stream);
    batch->common.stream = NULL;
    return status == SYNCED_MEM_OK ? status : reopen_objects(batch, status);
}

static synced_mem_status run_batch(struct batch *batch, synced_mem_stream handle)
{
    list_owners(batch);
    do
        SM_TRY(run_round(batch, handle));
    while (!is_complete(batch));
    return SYNCED_MEM_OK;
}

/* ---- All ---- */

/* The memory that the call needs for each of the caller's pairs before anything is locked. */
struct mention {
    struct synced_mem *owners[2];
    struct name names[2];
};

static synced_mem_status copy_batch(struct batch *batch, struct mention *mentions, synced_mem_stream handle,
                                    struct synced_mem **failed)
{
    batch->names = (struct name *)(void *)mentions;
    batch->owners.list = (struct synced_mem **)(void *)(batch->names + 2 * batch->list.count);
    const synced_mem_status status = run_batch(batch, handle);
    sm_pair_list_end(&batch->list);
    free(batch->block);
    *failed = batch->failed;
    return sm_reap_after(status, batch->common.side == SM_CPU);
}

static synced_mem_status copy_once(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                   enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct row one;
    struct mention mention;
    struct batch batch = {.common.side = side, .list = {.to = to, .from = from, .count = count}};
    if (count == 0)
        return SYNCED_MEM_OK;
    lay_out(&batch, &one, 1);
    struct mention *const mentions = count > 1 ? calloc(count, sizeof *mentions) : NULL;
    if (count > 1 && !mentions)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu copies", count);
    const synced_mem_status status = copy_batch(&batch, mentions ? mentions : &mention, handle, failed);
    free(mentions);
    return status;
}

synced_mem_status sm_copy_objects(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                  enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    SM_TRY(sm_gates_begin(from, count, SM_SIDES, SM_READ, failed));
    synced_mem_status status = sm_gates_begin(to, count, side, SM_OVERWRITE, failed);
    if (status == SYNCED_MEM_OK) {
        do
            status = copy_once(to, from, count, side, handle, failed);
        while (sm_reclaim_helps(&reclaim, status));
        sm_gates_end(to, count);
    }
    sm_gates_end(from, count);
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
