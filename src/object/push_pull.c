/* Pushes and pulls. */
#include "object/push_pull.h"

#include "base/status.h"
#include "copy/staged.h"
#include "copy/transfers.h"
#include "object/fetch_parts.h"
#include "object/mentions.h"
#include "object/move_stream.h"
#include "object/publish.h"
#include "object/renew.h"
#include "object/several.h"
#include "object/span.h"
#include "object/unified.h"
#include "object/user_allocator.h"

#include <assert.h>
#include <stdlib.h>

struct call {
    struct synced_mem *const *mems; /* as given */
    size_t count;
    enum sm_side side; /* of the targets */
    synced_mem_stream handle;
    struct sm_stream *stream; /* found in each round, since it may begin to capture while nothing is locked */
    struct sm_round round;
    struct sm_mentions mentions;
    struct sm_transfers transfers;
    struct sm_file_reads reads;    /* of contents that are in files alone */
    void *block;                   /* the memory of the transfers if the caller's has too little room; else NULL */
    const struct sm_fence *polled; /* the fence that was polled last; never read */
    struct sm_mention *left;       /* the first mention whose record the round has not left */
    struct sm_expected expected;   /* the transfers that are planned */
    bool are_checked;              /* no object was refused, and all are of one device */
    bool are_direct;               /* all transfers that are planned */
    bool holds;                    /* the records are held while nothing is locked */
    bool arrives_alone;            /* of a pull: the contents arrive though the call does not wait for them */
};

static bool is_pull(const struct call *call)
{
    return call->side == SM_CPU;
}

/* ---- Records ---- */

static const struct sm_mention *get_end_of_list(const struct call *call)
{
    return call->mentions.list + call->mentions.count;
}

static synced_mem_status fail_without_room(size_t transfers)
{
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu transfers", transfers);
}

/* Returns whether each object is one record, and none is named twice. */
static bool are_all_apart(const struct call *call)
{
    return !call->round.has_parts && call->round.roots.count == call->count;
}

/* Lists the records of the call, unless they are listed when they are planned. On failure the heads may have changed, as
 * lost contents were taken out. */
static synced_mem_status list_records(struct call *call)
{
    struct sm_mentions *const mentions = &call->mentions;
    struct sm_transfers *const transfers = &call->transfers;
    call->left = mentions->list;
    call->expected = (struct sm_expected){.count = 0};
    transfers->batch.stages_all = call->round.roots.count > 1 && call->round.has_parts;
    if (are_all_apart(call)) {
        sm_mentions_clear(mentions);
        return SYNCED_MEM_OK;
    }
    SM_TRY(sm_mentions_list(mentions, call->mems, call->count, call->side));
    if (call->round.roots.count < call->count) /* only objects of one root have records in common */
        sm_mentions_remove_repeated(mentions);
    call->left = mentions->list;
    return SYNCED_MEM_OK;
}

/* Makes room for so many transfers. None is queued yet. */
static synced_mem_status make_room(struct call *call, size_t count)
{
    struct sm_transfers *const transfers = &call->transfers;
    if (count <= transfers->room)
        return SYNCED_MEM_OK;
    void *const block = malloc(count * sizeof(struct sm_transfers_row));
    if (!block)
        return fail_without_room(count);
    free(call->block);
    call->block = block;
    (void)sm_transfers_lay_out(transfers, block, count);
    return SYNCED_MEM_OK;
}

static synced_mem_status begin_round(struct call *call)
{
    sm_kernel_list_foresee(&call->transfers.batch.list, sm_device(call->mems[0]), call->count);
    SM_TRY(sm_round_begin(&call->round));
    const synced_mem_status status = list_records(call);
    if (status == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    for (size_t i = 0; i < call->count; i++)
        sm_publish_object(call->mems[i]);
    sm_round_end(&call->round);
    return status;
}

/* Sets the head, as all transfers are queued. A pull that the host waits for can still fail, and ends no open write
 * before it has succeeded. */
static void set_head(const struct call *call, struct sm_mention *mention)
{
    const enum sm_side side = call->side;
    struct sm_record *const record = mention->record;
    if (call->arrives_alone)
        sm_close_write(record);
    if (!mention->moves)
        return;
    if (is_pull(call) && sm_shared_copy(record))
        sm_unified_arrive(sm_shared_copy(record), NULL);
    sm_count_given(record, side);
    if (call->holds) {
        mention->writes = sm_slot_of(record, SM_GPU)->writes;
        mention->before.given[side] = sm_copy_of(record, side)->given;
    }
    sm_set_head(record, sm_head(record) | sm_bit(side));
}

/* After a failure, reopens the uses that the call has settled. Its head stays as it is: the call has changed it only to
 * take out lost contents. */
static void leave_record(const struct call *call, struct sm_mention *mention, synced_mem_status status)
{
    if (status != SYNCED_MEM_OK && status != SM_AGAIN) {
        const struct sm_state now = sm_state_of(mention->record);
        sm_restore_record(mention->record, &now);
    } else if (status == SYNCED_MEM_OK) {
        set_head(call, mention);
    }
    sm_publish(mention->record);
}

/* Records that are counted on later must stay, though nothing is locked. */
static void end_round(struct call *call, synced_mem_status status)
{
    const struct sm_roots *const roots = &call->round.roots;
    call->holds = call->round.waits.count > 0 || call->transfers.staged > 0;
    if (call->holds)
        sm_mentions_hold(&call->mentions);
    for (struct sm_mention *each = call->left; each < get_end_of_list(call); each++)
        leave_record(call, each, status);
    for (size_t i = 0; call->round.has_parts && i < call->count; i++)
        if (sm_is_divided(call->mems[i]))
            sm_publish_joined(call->mems[i]);
    for (size_t i = 0; call->round.has_parts && i < roots->count; i++)
        assert(sm_object_is_valid(call->count == 1 ? call->mems[0] : roots->list[i]));
    sm_round_end(&call->round);
}

static void drop_records(struct call *call)
{
    if (call->holds)
        sm_mentions_drop(&call->mentions);
    call->holds = false;
}

/* ---- One record ---- */

/* Reads the contents from a file. As with a staged transfer, other threads have yet to queue it. */
static __attribute__((noinline)) synced_mem_status queue_record_load(struct call *call, struct sm_record *record)
{
    struct sm_transfers *const transfers = &call->transfers;
    SM_TRY(sm_queue_load(record, call->side, call->stream, &call->reads, &call->round.waits));
    struct sm_fence *const arrival = sm_copy_of(record, call->side)->write;
    if (arrival)
        transfers->arrivals[transfers->staged++] = sm_fence_hold(arrival);
    return SYNCED_MEM_OK;
}

/* Moves a record whose transfer is not direct, such as the only one of a call. It is not inlined, so that the loop over
 * the direct transfers of a large call keeps its values in registers. */
static __attribute__((noinline)) synced_mem_status queue_record_move(struct call *call, struct sm_record *record)
{
    const enum sm_side side = call->side;
    struct sm_transfers *const transfers = &call->transfers;
    if (sm_shared_copy(record))
        return sm_unified_move(record, side, call->stream);
    if (sm_is_in_file_alone(record))
        return queue_record_load(call, record);
    struct sm_transfer *const transfer = sm_transfers_next(transfers);
    SM_TRY(sm_queue_move(record, side, call->stream, &transfers->batch, transfer, &call->round.waits));
    if (transfer->staged)
        transfers->arrivals[transfers->staged++] = sm_fence_hold(sm_copy_of(record, side)->write);
    else
        transfers->queued++;
    return SYNCED_MEM_OK;
}

/* Makes the stream wait until contents that need no transfer have arrived. Polls the fence, because only a poll lets a
 * piece come to rest, and once for all pieces that have the same one. */
static synced_mem_status follow_record(struct call *call, struct sm_record *record)
{
    struct sm_copy *const copy = sm_copy_of(record, call->side);
    if (record->kind == SM_PIECE && copy->write && copy->write != call->polled)
        (void)sm_fence_poll(copy->write);
    call->polled = copy->write;
    if (sm_is_internal(call->stream))
        return SYNCED_MEM_OK;
    return sm_inflight_order(copy, false, call->stream);
}

/* A SYNCED record whose copy is still queueing needs nothing: no stream can come after a staged pull. */
static synced_mem_status move_any_record(struct call *call, struct sm_mention *mention)
{
    const enum sm_side side = call->side;
    struct sm_record *const record = mention->record;
    if (sm_head(record) == SYNCED_MEM_SYNCED && !sm_inflight_queueing(sm_copy_of(record, side), false))
        return follow_record(call, record);
    if (!sm_is_to_be_moved(record, side))
        return SYNCED_MEM_OK;
    mention->moves = true;
    sm_note_object(mention->object);
    return queue_record_move(call, record);
}

static synced_mem_status move_record(struct call *call, struct sm_mention *mention)
{
    struct sm_transfers *const transfers = &call->transfers;
    if (!mention->direct)
        return move_any_record(call, mention);
    mention->moves = true;
    if (sm_caller_is_wanted()) {
        sm_note_object(mention->object);
        sm_note_record(mention->record);
    }
    SM_TRY(sm_queue_direct_move(mention->record, call->side, call->stream, &transfers->batch,
                                sm_transfers_next(transfers), false));
    transfers->queued++;
    return SYNCED_MEM_OK;
}

/* ---- All ---- */

/* Prepares the memory of the record's side, if the record moves. Gives up a copy that is unusable. A divided owner gets
 * memory here; an undivided one when its transfer is queued, in the order of the stream. SM_AGAIN: the owner gets its
 * memory with nothing locked. */
static synced_mem_status prepare_target(struct call *call, struct sm_mention *mention)
{
    const enum sm_side side = call->side;
    struct sm_record *const record = mention->record;
    const struct sm_copy *const copy = sm_copy_of(record, side);
    if (!sm_is_to_be_moved(record, side) || (copy && !copy->untracked && !copy->read_only))
        return SYNCED_MEM_OK;
    struct synced_mem *const owner = sm_owner_of(record);
    sm_note_object(mention->object);
    SM_TRY(sm_make_usable(record, side));
    const bool is_alone = sm_is_read_only(owner, side) || sm_user_allocator_wanted(owner, side);
    if (!is_alone)
        return sm_fetch_memory(owner, side, call->stream, false);
    call->round.alone = owner;
    call->round.alone_stream = call->stream;
    return SM_AGAIN;
}

/* Finds what the host waits for before the record can be moved, or the stream can come after its contents: another
 * thread's push may still be queueing. The move of a single record finds its own wait before it queues anything, but
 * not if both sides use one copy. */
static synced_mem_status plan_record_move(struct call *call, struct sm_mention *mention)
{
    const enum sm_side side = call->side;
    struct sm_waits *const waits = &call->round.waits;
    struct sm_record *const record = mention->record;
    if (!sm_is_to_be_moved(record, side)) {
        const bool follows = sm_head(record) == SYNCED_MEM_SYNCED && !is_pull(call);
        return follows ? sm_waits_add_for(waits, sm_inflight_queueing(sm_copy_of(record, side), false), SM_UNTIL_QUEUED)
                       : SYNCED_MEM_OK;
    }
    if (call->mentions.count == 1 && !sm_shared_copy(record))
        return SYNCED_MEM_OK;
    if (sm_is_in_file_alone(record))
        return sm_plan_load(record, side, waits);
    bool staged;
    SM_TRY(sm_plan_move(record, side, &call->transfers.batch, waits, &staged));
    mention->direct = !staged && sm_has_memory_to_write(record, side);
    if (mention->direct)
        sm_transfer_expect(&call->expected, sm_slot_of(record, side), sm_slot_of(record, sm_other(side)),
                           sm_size_of(record));
    return SYNCED_MEM_OK;
}

/* Loads the records that come soon, and the copies of those that come next. */
static void prefetch_record(const struct sm_mention *mention, const struct sm_mention *end)
{
    if (end - mention > 2 * SM_AHEAD)
        sm_prefetch_record(mention[2 * SM_AHEAD].record);
    if (end - mention > SM_AHEAD)
        sm_prefetch_copies(mention[SM_AHEAD].record, SM_BOTH_SIDES);
}

static synced_mem_status plan_from(struct call *call, struct sm_mention *first)
{
    for (struct sm_mention *each = first; each < get_end_of_list(call); each++) {
        prefetch_record(each, get_end_of_list(call));
        SM_TRY(sm_waits_go_on(&call->round.waits, plan_record_move(call, each)));
        call->are_direct = call->are_direct && each->direct;
    }
    return SYNCED_MEM_OK;
}

/* Plans all moves. Objects that are apart are listed and planned in blocks, which the processor's cache has in
 * between. */
static synced_mem_status plan_all(struct call *call)
{
    enum { BLOCK = 64 };
    struct sm_mentions *const mentions = &call->mentions;
    call->are_checked = false;
    call->are_direct = true;
    if (!are_all_apart(call))
        return plan_from(call, mentions->list);
    bool are_on_one_device = true;
    for (size_t i = 0; i < call->count; i += BLOCK) {
        const size_t end = call->count - i > BLOCK ? i + BLOCK : call->count;
        SM_TRY(sm_mentions_add(mentions, call->mems, i, end, call->side));
        SM_TRY(plan_from(call, mentions->list + i));
        for (size_t j = i; j < end; j++)
            are_on_one_device = are_on_one_device && sm_device(call->mems[j]) == sm_device(call->mems[0]);
    }
    call->are_checked = are_on_one_device && mentions->refused == SM_NONE_REFUSED;
    return SYNCED_MEM_OK;
}

/* Checks everything that can be checked before a transfer is queued, and finds and holds the stream. */
static synced_mem_status check_and_find_stream(struct call *call)
{
    const enum sm_side side = call->side;
    const size_t unchecked = call->are_checked ? 1 : call->count;
    for (size_t i = 0; i < unchecked; i++) {
        call->round.failed = call->mems[i];
        if (i == call->mentions.refused)
            return sm_mentions_refuse(&call->mentions, side);
        if (!call->stream || sm_device(call->mems[i]) != call->stream->device)
            SM_TRY(sm_move_stream(call->mems, call->count, i, side, call->handle, &call->stream));
    }
    return SYNCED_MEM_OK;
}

/* Queues the moves of some records, and enters them with one event. */
static synced_mem_status move_records(struct call *call, struct sm_mention *begin, const struct sm_mention *end)
{
    struct sm_batch *const batch = &call->transfers.batch;
    synced_mem_status status = SYNCED_MEM_OK;
    batch->reads = call->mentions.count > 1 ? sm_inflight_reserve_many((size_t)(end - begin)) : NULL;
    for (struct sm_mention *each = begin; each < end && status == SYNCED_MEM_OK && call->round.waits.count == 0;
         each++) {
        prefetch_record(each, end);
        call->round.failed = each->object;
        status = move_record(call, each);
    }
    sm_inflight_unreserve_many(batch->reads); /* a record that is not moved, or is staged, needs none */
    batch->reads = NULL;
    if (batch->has_failed)
        call->round.failed = NULL; /* it may be because of any of the objects */
    if (call->reads.job)
        sm_file_reads_begin(&call->reads);
    if (status != SYNCED_MEM_OK)
        return sm_transfers_enter_unsent(&call->transfers, call->stream, status);
    status = sm_transfers_enter(&call->transfers, call->stream);
    if (status != SYNCED_MEM_OK)
        call->round.failed = NULL;
    return status;
}

/* Moves records that need nothing but their transfers, each block while the processor's cache has it. */
static synced_mem_status move_in_blocks(struct call *call)
{
    const struct sm_mention *const end = get_end_of_list(call);
    synced_mem_status status = SYNCED_MEM_OK;
    call->arrives_alone = is_pull(call);
    while (call->left < end && status == SYNCED_MEM_OK) {
        const struct sm_mention *const behind =
            end - call->left > SM_KERNEL_AT_ONCE ? call->left + SM_KERNEL_AT_ONCE : end;
        status = move_records(call, call->left, behind);
        for (; call->left < behind && status == SYNCED_MEM_OK; call->left++) {
            prefetch_record(call->left, behind);
            if (behind - call->left > SM_AHEAD)
                sm_prefetch_hot(call->left[SM_AHEAD].record);
            leave_record(call, call->left, SYNCED_MEM_OK);
        }
    }
    return status;
}

/* Queues nothing until all checks have passed, all waits are over, and all memory that is obtained alone is there. */
static synced_mem_status move_all_records(struct call *call)
{
    struct sm_batch *const batch = &call->transfers.batch;
    SM_TRY(plan_all(call));
    SM_TRY(sm_waits_status(&call->round.waits));
    SM_TRY(check_and_find_stream(call));
    const size_t count = call->mentions.count;
    const bool moves_in_blocks = call->are_direct && count > 1;
    SM_TRY(make_room(call, moves_in_blocks && count > SM_KERNEL_AT_ONCE ? SM_KERNEL_AT_ONCE : count));
    const struct sm_mention *const end = get_end_of_list(call);
    sm_batch_begin(batch, call->stream);
    sm_batch_expect(batch, &call->expected);
    call->reads = (struct sm_file_reads){.room = count, .by_kernel = true};
    if (moves_in_blocks)
        return move_in_blocks(call);
    synced_mem_status status = SYNCED_MEM_OK;
    for (struct sm_mention *each = call->mentions.list; each < end && status == SYNCED_MEM_OK; each++) {
        if (each->direct)
            continue;
        call->round.failed = each->object;
        status = prepare_target(call, each);
    }
    if (status != SYNCED_MEM_OK)
        return status;
    status = move_records(call, call->mentions.list, end);
    call->arrives_alone = is_pull(call) && (call->transfers.staged == 0 || sm_staged_has_threads());
    return status;
}

/* ---- After the round ---- */

/* Returns whether the contents have arrived. An open write that has begun meanwhile is not the pull's to end. */
static bool has_arrived(const struct call *call, const struct sm_mention *mention, const struct sm_record *record)
{
    const struct sm_copy *const gpu = sm_copy_of(record, SM_GPU);
    return mention->moves && (sm_head(record) & sm_bit(call->side)) && gpu && gpu->writes == mention->writes;
}

/* If a part of a single object has failed, the others are taken back too. The head of a record that has more bytes by
 * now stays: another call has joined them. */
static void leave_again(const struct call *call, const struct sm_mention *mention, struct sm_record *record,
                        synced_mem_status status)
{
    const bool is_taken_back = status != SYNCED_MEM_OK && call->count == 1;
    sm_drop_lost(record);
    const struct sm_state now = sm_state_of(record);
    const bool arrived = !is_taken_back && has_arrived(call, mention, record);
    if (arrived && is_pull(call))
        sm_close_write(record);
    if (!arrived && status != SYNCED_MEM_OK)
        sm_restore_record(record, is_taken_back && sm_mention_has(mention, record) ? &mention->before : &now);
    sm_publish(record);
}

/* Visits each record once more, so that its head loses failed contents. A pull ends or reopens the open writes that it
 * has settled, each by the result of its own transfer. */
static void revisit_records(const struct call *call, synced_mem_status status)
{
    for (const struct sm_mention *mention = call->mentions.list; mention < get_end_of_list(call); mention++) {
        struct sm_record *const record = mention->record;
        if (sm_lock_record(record) == SYNCED_MEM_OK) {
            for (struct sm_record *each = sm_first_of(record); each; each = sm_mention_next(mention, each))
                leave_again(call, mention, each, status);
            sm_unlock_root(sm_root_of(record));
        }
    }
}

static synced_mem_status run_rounds(struct call *call)
{
    for (;;) {
        synced_mem_status status = begin_round(call);
        if (status != SYNCED_MEM_OK)
            return status;
        status = move_all_records(call);
        end_round(call, status);
        const bool waits = call->round.waits.count > 0;
        if (status != SM_AGAIN && !waits)
            return status;
        status = sm_round_wait(&call->round, call->side, status);
        if (waits && status != SYNCED_MEM_OK)
            revisit_records(call, status);
        if (status != SYNCED_MEM_OK)
            return status;
        sm_transfers_drop_staged(&call->transfers, true); /* without copy threads nobody would work on them */
        drop_records(call);
        sm_stream_drop(call->stream);
        call->stream = NULL;
    }
}

/* Makes the stream come after the staged pushes. Without copy threads the host waits for staged pulls. */
static synced_mem_status follow_staged_transfers(struct call *call, synced_mem_status status)
{
    const bool follows = status == SYNCED_MEM_OK && call->transfers.staged > 0 && !call->arrives_alone;
    if (follows) {
        status = sm_transfers_follow(&call->transfers, is_pull(call) ? NULL : call->stream);
        if (status != SYNCED_MEM_OK || is_pull(call))
            revisit_records(call, status);
        if (status != SYNCED_MEM_OK)
            call->round.failed = NULL; /* any of the objects may have failed */
    }
    sm_transfers_drop_staged(&call->transfers, !follows && status != SYNCED_MEM_OK);
    return status;
}

/* As much memory as the call needs for one object. The arrays lie one behind the other. */
struct share {
    struct sm_mention mention;
    struct synced_mem *roots[SM_ROOTS_ROOM];
};

/* With as much as it needs for one transfer. */
struct shares_of_one {
    struct sm_transfers_row row;
    struct share share;
};

/* One object needs no memory from the system, unless it is in parts. The arrays of many need no zeros, which a large
 * call would take long to write. */
synced_mem_status sm_move_once(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                               synced_mem_stream handle, struct synced_mem **failed)
{
    struct shares_of_one one;
    struct call call = {.mems = mems, .count = count, .handle = handle, .side = side};
    call.transfers.batch.direction = side == SM_GPU ? SM_H2D : SM_D2H;
    call.transfers.batch.is_async = true;
    call.transfers.batch.is_urgent = is_urgent;
    if (count == 0)
        return SYNCED_MEM_OK;
    const size_t room = count > SM_KERNEL_AT_ONCE ? SM_KERNEL_AT_ONCE : count;
    void *const shares = count > 1 ? malloc(room * sizeof one.row + count * sizeof one.share) : &one;
    if (!shares)
        return fail_without_room(count);
    struct sm_mention *const mentions = sm_transfers_lay_out(&call.transfers, shares, room);
    sm_mentions_begin(&call.mentions, mentions, count);
    call.round.roots.list = (struct synced_mem **)(void *)(mentions + count);
    sm_roots_list(&call.round.roots, mems, count);
    synced_mem_status status = follow_staged_transfers(&call, run_rounds(&call));
    drop_records(&call);
    sm_stream_drop(call.stream);
    if (status != SYNCED_MEM_OK)
        status = sm_reap_after(status, false);
    *failed = count == 1 ? mems[0] : call.round.failed;
    free(call.block);
    sm_mentions_end(&call.mentions);
    if (count > 1)
        free(shares);
    return status;
}
