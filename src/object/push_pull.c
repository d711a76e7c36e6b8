/* Pushes and pulls. */
#include "object/push_pull.h"

#include "object/fetch_parts.h"
#include "object/mentions.h"
#include "object/move_stream.h"
#include "object/piece.h"
#include "object/publish.h"
#include "object/reclaim.h"
#include "object/renew.h"
#include "object/several.h"
#include "object/shareable.h"
#include "object/span.h"
#include "copy/staged.h"
#include "stream/shared_ends.h"
#include "base/status.h"
#include "object/user_allocator.h"
#include "object/unified.h"

#include <assert.h>
#include <stdlib.h>

struct batch {
    struct synced_mem *const *mems; /* as given */
    size_t count;
    struct sm_owners owners;
    struct sm_mentions mentions;
    struct sm_shared_ends ends;
    const struct sm_fence *polled; /* the fence that was polled last; never read */
    bool keeps;                    /* the records are kept while nothing is locked */
    bool has_parts;                /* one of the owners is divided */
    struct sm_transfer *transfers; /* queued */
    size_t queued;
    struct sm_batch copies;     /* the queued transfers that go to the runtime in one call */
    struct sm_fence **arrivals; /* the targets' fences of staged transfers, held */
    size_t staged;
    bool is_moving; /* all transfers are queued */
    bool goes_on;   /* staged pulls go on by themselves after the call */
    enum sm_side side;
    struct sm_stream *stream;
    struct synced_mem *failed;
    struct sm_waits waits; /* the host waits for them before all or the rest can be queued */
    /* An owner without memory for the contents, and with an allocator, or with read-only memory; NULL: none. It gets
     * its memory with nothing locked. */
    struct synced_mem *without;
    size_t room; /* mentions that the arrays have room for */
    void *block; /* the memory of the arrays if the caller's has too little room; else NULL */
};

static bool is_pull(const struct batch *batch)
{
    return batch->side == SM_CPU;
}

/* ---- Room ---- */

/* The memory of one mention in all arrays. */
struct row {
    struct sm_transfer transfer;
    struct sm_fence *arrival;
    void *to;
    const void *from;
    size_t size;
};

static void lay_out(struct batch *batch, void *block, size_t room)
{
    batch->room = room;
    batch->transfers = block;
    batch->arrivals = (struct sm_fence **)(void *)(batch->transfers + room);
    batch->copies.to = (void **)(void *)(batch->arrivals + room);
    batch->copies.from = (const void **)(void *)(batch->copies.to + room);
    batch->copies.sizes = (size_t *)(void *)(batch->copies.from + room);
    batch->copies.room = room > 1 ? room : 0;
}

static synced_mem_status fail_without_room(size_t transfers)
{
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu transfers", transfers);
}

/* Objects in parts may need more room than was there. Nothing is in the arrays yet. */
static synced_mem_status make_room(struct batch *batch, size_t mentions)
{
    if (mentions <= batch->room)
        return SYNCED_MEM_OK;
    void *const block = calloc(mentions, sizeof(struct row));
    if (!block)
        return fail_without_room(mentions);
    free(batch->block);
    batch->block = block;
    lay_out(batch, block, mentions);
    return SYNCED_MEM_OK;
}

/* ---- Records ---- */

static const struct sm_mention *get_end_of_list(const struct batch *batch)
{
    return batch->mentions.list + batch->mentions.count;
}

/* On failure the heads may have changed, as lost contents were taken out. */
static synced_mem_status list_records(struct batch *batch)
{
    SM_TRY(sm_mentions_list(&batch->mentions, batch->mems, batch->count, batch->side));
    if (batch->owners.count < batch->count) /* only objects of one owner have records in common */
        sm_mentions_remove_repeated(&batch->mentions);
    batch->has_parts = sm_owners_have_parts(&batch->owners);
    batch->copies.stages_all = batch->owners.count > 1 && batch->has_parts;
    return make_room(batch, batch->mentions.count);
}

static synced_mem_status enter_objects(struct batch *batch)
{
    SM_TRY(sm_owners_lock(&batch->owners, &batch->failed));
    const synced_mem_status status = list_records(batch);
    if (status == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    for (size_t i = 0; i < batch->count; i++)
        sm_publish_object(batch->mems[i]);
    sm_owners_unlock(&batch->owners);
    return status;
}

/* Sets the head, as all transfers are queued. A pull that the host waits for can still fail, and ends no open write
 * before it has succeeded. */
static void set_head(const struct batch *batch, struct sm_mention *mention)
{
    struct sm_record *const record = mention->record;
    if (batch->goes_on)
        sm_close_write(record);
    if (!mention->moves)
        return;
    if (is_pull(batch) && sm_shared_copy(record))
        sm_unified_arrive(sm_shared_copy(record), NULL);
    sm_count_given(record, batch->side);
    if (batch->keeps) {
        mention->writes = sm_copy_of(record, SM_GPU)->writes;
        mention->before.given[batch->side] = sm_copy_of(record, batch->side)->given;
    }
    sm_set_head(record, sm_head(record) | sm_bit(batch->side));
}

/* Reopens the uses that the call has settled. The head has not changed since the call took the lock. */
static void restore_record(struct sm_record *record)
{
    const struct sm_before now = sm_state_of(record);
    sm_restore_record(record, &now);
}

static void leave_record(const struct batch *batch, struct sm_mention *mention, synced_mem_status status)
{
    if (status != SYNCED_MEM_OK && status != SM_AGAIN)
        restore_record(mention->record);
    else if (batch->is_moving)
        set_head(batch, mention);
    sm_publish(mention->record);
}

/* Records that are counted on later must stay, though nothing is locked. */
static void leave_objects(struct batch *batch, synced_mem_status status)
{
    const struct sm_mention *const end = get_end_of_list(batch);
    batch->keeps = batch->waits.count > 0 || batch->staged > 0;
    if (batch->keeps)
        sm_mentions_keep(&batch->mentions);
    for (struct sm_mention *each = batch->mentions.list; each < end; each++)
        leave_record(batch, each, status);
    for (size_t i = 0; batch->has_parts && i < batch->count; i++)
        if (sm_is_divided(batch->mems[i]))
            sm_publish_joined(batch->mems[i]);
    for (size_t i = 0; batch->has_parts && i < batch->owners.count; i++)
        assert(sm_object_is_valid(batch->count == 1 ? batch->mems[0] : batch->owners.list[i]));
    sm_owners_unlock(&batch->owners);
}

static void release_records(struct batch *batch)
{
    if (batch->keeps)
        sm_mentions_release(&batch->mentions);
    batch->keeps = false;
}

/* ---- One object ---- */

/* Moves a record that is not ready, such as the only one of a call. It is not inlined, so that the loop over the ready
 * records of a large call keeps its values in registers. */
static __attribute__((noinline)) synced_mem_status queue_record_move(struct batch *batch, struct sm_record *record)
{
    struct sm_transfer *const transfer = &batch->transfers[batch->queued];
    if (sm_shared_copy(record))
        return sm_unified_move(record, batch->side, batch->stream);
    SM_TRY(sm_queue_move(record, batch->side, batch->stream, &batch->copies, transfer, &batch->waits));
    if (transfer->staged)
        batch->arrivals[batch->staged++] = sm_fence_hold(sm_copy_of(record, batch->side)->write);
    else
        batch->queued++;
    return SYNCED_MEM_OK;
}

/* Checks everything that can be checked before a transfer is queued. */
static synced_mem_status check_object_move(struct batch *batch, size_t which, synced_mem_stream handle)
{
    return which == batch->mentions.refused
               ? sm_mentions_refuse(&batch->mentions, batch->side)
               : sm_move_stream(batch->mems, batch->count, which, batch->side, handle, &batch->stream);
}

/* Makes the stream wait until contents that need no transfer have arrived. Polls the fence, because only a poll lets a
 * piece come to rest, and once for all pieces that have the same one. */
static synced_mem_status follow_record(struct batch *batch, struct sm_record *record)
{
    struct sm_copy *const copy = sm_copy_of(record, batch->side);
    if (record->kind == SM_PIECE && copy->write && copy->write != batch->polled)
        (void)sm_fence_pending(copy->write);
    batch->polled = copy->write;
    if (sm_is_internal(batch->stream))
        return SYNCED_MEM_OK;
    return sm_inflight_order(copy, false, batch->stream);
}

/* A SYNCED record whose copy is still queueing needs nothing: no stream can come after a staged pull. */
static synced_mem_status move_any_record(struct batch *batch, struct sm_mention *mention)
{
    struct sm_record *const record = mention->record;
    if (sm_head(record) == SYNCED_MEM_SYNCED && !sm_inflight_queueing(sm_copy_of(record, batch->side), false))
        return follow_record(batch, record);
    if (!sm_is_to_be_moved(record, batch->side))
        return SYNCED_MEM_OK;
    mention->moves = true;
    sm_note_object(mention->object);
    return queue_record_move(batch, record);
}

static void note_record(const struct sm_mention *mention)
{
    if (!sm_caller_is_wanted())
        return;
    sm_note_object(mention->object);
    sm_note_record(mention->record);
}

static synced_mem_status move_record(struct batch *batch, struct sm_mention *mention)
{
    if (!mention->ready)
        return move_any_record(batch, mention);
    mention->moves = true;
    note_record(mention);
    SM_TRY(sm_queue_direct_move(mention->record, batch->side, batch->stream, &batch->copies,
                                &batch->transfers[batch->queued]));
    batch->queued++;
    return SYNCED_MEM_OK;
}

/* ---- All ---- */

/* Enters the queued transfers. They run even after a failure, and may run if the runtime refused their batch. Those of
 * a batch that was not sent are entered too, so that new device memory comes after its allocation. */
static synced_mem_status enter_queued_transfers(struct batch *batch)
{
    return batch->queued > 0 ? sm_transfer_enter(batch->transfers, batch->queued, batch->stream) : SYNCED_MEM_OK;
}

static synced_mem_status enter_after_failure(struct batch *batch, synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    (void)enter_queued_transfers(batch);
    sm_detail_set(&first);
    return status;
}

/* Sends the batch. The runtime may refuse it because of any of the objects. */
static synced_mem_status send_batch(struct batch *batch)
{
    const synced_mem_status status = sm_batch_send(&batch->copies, batch->stream);
    if (status != SYNCED_MEM_OK)
        batch->failed = NULL;
    return status;
}

/* Sends the batch and enters the transfers. again: one of them could not be queued yet, so the batch is not sent. */
static synced_mem_status send_and_enter(struct batch *batch, bool again)
{
    const synced_mem_status status = again ? SYNCED_MEM_OK : send_batch(batch);
    if (status != SYNCED_MEM_OK)
        return enter_after_failure(batch, status);
    SM_TRY(enter_queued_transfers(batch));
    batch->is_moving = !again;
    batch->goes_on = is_pull(batch) && (batch->staged == 0 || sm_staged_goes_on());
    return again ? SM_AGAIN : SYNCED_MEM_OK;
}

/* Makes the record's side usable and its owner's memory exist, if the record moves. An unusable host copy is given up.
 * SM_AGAIN: the owner gets its memory with nothing locked. */
static synced_mem_status find_missing_memory(struct batch *batch, struct sm_mention *mention)
{
    struct sm_record *const record = mention->record;
    const struct sm_copy *const copy = sm_copy_of(record, batch->side);
    if (!sm_is_to_be_moved(record, batch->side) || (copy && !copy->untracked && !copy->read_only))
        return SYNCED_MEM_OK;
    sm_note_object(mention->object);
    SM_TRY(sm_make_usable(record, batch->side));
    if (sm_is_read_only(sm_owner_of(record), batch->side) ||
        sm_user_allocator_wanted(sm_owner_of(record), batch->side)) {
        batch->without = sm_owner_of(record);
        return SM_AGAIN;
    }
    const synced_mem_status status = sm_fetch_memory(sm_owner_of(record), batch->side, batch->stream, &batch->waits);
    if (status == SM_AGAIN) /* the caller has set an allocator of all objects meanwhile */
        batch->without = sm_owner_of(record);
    return status;
}

/* Queues nothing until all checks have passed and all memory that is obtained alone is there. */
static synced_mem_status move_all_objects(struct batch *batch, synced_mem_stream handle)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < batch->count && status == SYNCED_MEM_OK; i++) {
        batch->failed = batch->mems[i];
        status = check_object_move(batch, i, handle);
    }
    const struct sm_mention *const end = get_end_of_list(batch);
    for (struct sm_mention *each = batch->mentions.list; each < end && status == SYNCED_MEM_OK; each++) {
        batch->failed = each->object;
        if (!each->ready)
            status = find_missing_memory(batch, each);
    }
    if (status == SM_AGAIN)
        return status;
    if (status == SYNCED_MEM_OK)
        sm_batch_begin(&batch->copies, batch->stream);
    batch->copies.reads = batch->mentions.count > 1 ? sm_inflight_reserve_many(batch->mentions.count) : NULL;
    for (struct sm_mention *each = batch->mentions.list;
         each < end && status == SYNCED_MEM_OK && batch->waits.count == 0; each++) {
        batch->failed = each->object;
        status = move_record(batch, each);
    }
    sm_inflight_unreserve_many(batch->copies.reads); /* a record that is not moved, or is staged, needs none */
    batch->copies.reads = NULL;
    if (status != SYNCED_MEM_OK && status != SM_AGAIN)
        return enter_after_failure(batch, status);
    return send_and_enter(batch, status == SM_AGAIN);
}

static synced_mem_status find_wait_of_move(struct batch *batch, struct sm_mention *mention)
{
    bool staged;
    SM_TRY(sm_find_move_wait(mention->record, batch->side, &batch->copies, &batch->waits, &staged));
    mention->ready = !staged && sm_has_memory_to_write(mention->record, batch->side);
    return SYNCED_MEM_OK;
}

/* Another thread's push may still be queueing. The move of a single record finds its own wait before it queues
 * anything, but not if both sides use one copy. */
static synced_mem_status find_record_wait(struct batch *batch, struct sm_mention *mention)
{
    struct sm_record *const record = mention->record;
    if (sm_is_to_be_moved(record, batch->side))
        return batch->mentions.count > 1 || sm_shared_copy(record) ? find_wait_of_move(batch, mention) : SYNCED_MEM_OK;
    if (sm_head(record) == SYNCED_MEM_SYNCED && !is_pull(batch))
        return sm_waits_add(&batch->waits, sm_inflight_queueing(sm_copy_of(record, batch->side), false));
    return SYNCED_MEM_OK;
}

/* Collects the fences that the host waits for before anything can be queued. */
static synced_mem_status find_first_waits(struct batch *batch)
{
    const struct sm_mention *const end = get_end_of_list(batch);
    for (struct sm_mention *each = batch->mentions.list; each < end; each++)
        SM_TRY(sm_waits_go_on(&batch->waits, find_record_wait(batch, each)));
    return sm_waits_status(&batch->waits);
}

/* Makes the stream come after a staged push, or waits for it. Waits for a staged pull until it is no longer queueing:
 * then it has arrived. */
static synced_mem_status follow_arrival(struct batch *batch, struct sm_fence *arrival)
{
    const synced_mem_status status = sm_fence_wait_queued(arrival);
    if (status != SYNCED_MEM_OK || is_pull(batch) || sm_is_internal(batch->stream) ||
        sm_stream_hold_back(batch->stream, arrival))
        return status;
    return sm_fence_wait(arrival);
}

/* Returns whether the contents have arrived. An open write that has begun meanwhile is not the pull's to end. */
static bool has_arrived(const struct batch *batch, const struct sm_mention *mention, const struct sm_record *record)
{
    const struct sm_copy *const gpu = sm_copy_of(record, SM_GPU);
    return mention->moves && (sm_head(record) & sm_bit(batch->side)) && gpu && gpu->writes == mention->writes;
}

/* If a part of a single object has failed, the others are taken back too. The head of a record that has more bytes by
 * now stays: another call has joined them. */
static void leave_again(const struct batch *batch, const struct sm_mention *mention, struct sm_record *record,
                        synced_mem_status status)
{
    const bool is_taken_back = status != SYNCED_MEM_OK && batch->count == 1;
    sm_drop_lost(record);
    const struct sm_before now = sm_state_of(record);
    const bool arrived = !is_taken_back && has_arrived(batch, mention, record);
    if (arrived && is_pull(batch))
        sm_close_write(record);
    if (!arrived && status != SYNCED_MEM_OK)
        sm_restore_record(record, is_taken_back && sm_mention_has(mention, record) ? &mention->before : &now);
    sm_publish(record);
}

/* Enters each record once more, so that its head loses failed contents. A pull ends or reopens the open writes that it
 * has settled, each by the result of its own transfer. */
static void reenter_records(const struct batch *batch, synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    for (const struct sm_mention *mention = batch->mentions.list; mention < get_end_of_list(batch); mention++) {
        struct sm_record *const record = mention->record;
        if (sm_lock_record(record) == SYNCED_MEM_OK) {
            for (struct sm_record *each = sm_first_of(record); each; each = sm_mention_next(mention, each))
                leave_again(batch, mention, each, status);
            sm_unlock_last(sm_root_of(record));
        }
    }
    sm_detail_set(&first);
}

static void drop_arrivals(struct batch *batch)
{
    while (batch->staged > 0)
        sm_fence_drop(batch->arrivals[--batch->staged]);
}

/* Without copy threads nobody would work on a transfer that no head counts on. */
static void cancel_arrivals(struct batch *batch)
{
    const struct sm_detail first = sm_detail_get();
    for (size_t i = 0; i < batch->staged; i++)
        sm_staged_cancel(batch->arrivals[i]);
    sm_detail_set(&first);
    drop_arrivals(batch);
}

/* Waits for all staged transfers even after a failure, since the heads count on them. */
static synced_mem_status follow_arrivals(struct batch *batch)
{
    struct sm_outcome first;
    sm_outcome_set(&first, SYNCED_MEM_OK);
    for (size_t i = 0; i < batch->staged; i++) {
        const synced_mem_status status = follow_arrival(batch, batch->arrivals[i]);
        if (first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
    }
    return sm_outcome_end(&first);
}

static synced_mem_status follow_staged_transfers(struct batch *batch, synced_mem_status status)
{
    if (status != SYNCED_MEM_OK) {
        cancel_arrivals(batch);
        return status;
    }
    if (batch->staged == 0 || batch->goes_on) {
        drop_arrivals(batch);
        return SYNCED_MEM_OK;
    }
    status = follow_arrivals(batch);
    drop_arrivals(batch);
    if (status != SYNCED_MEM_OK || is_pull(batch))
        reenter_records(batch, status);
    if (status != SYNCED_MEM_OK)
        batch->failed = NULL; /* any of the objects may have failed */
    return status;
}

static synced_mem_status wait_for_fences(struct batch *batch, synced_mem_status status)
{
    bool over;
    if (status == SM_AGAIN)
        status = sm_waits_wait(&batch->waits, false, &over);
    sm_waits_end(&batch->waits);
    if (status != SYNCED_MEM_OK)
        reenter_records(batch, status);
    return status;
}

/* Resets the batch after a wait, as queued transfers were entered by then. The stream is found again, since it may
 * begin to capture while nothing is locked. */
static void reset_batch(struct batch *batch)
{
    release_records(batch);
    sm_stream_drop(batch->stream);
    batch->stream = NULL;
    batch->is_moving = false;
    batch->queued = 0;
    sm_batch_empty(&batch->copies);
    cancel_arrivals(batch);
}

static synced_mem_status run_batch(struct batch *batch, synced_mem_stream handle)
{
    for (;;) {
        batch->without = NULL;
        SM_TRY(enter_objects(batch));
        sm_share_ends(&batch->ends);
        synced_mem_status status = find_first_waits(batch);
        if (status == SYNCED_MEM_OK)
            status = move_all_objects(batch, handle);
        sm_share_no_ends();
        leave_objects(batch, status);
        const bool again = status == SM_AGAIN;
        if (batch->waits.count > 0)
            status = wait_for_fences(batch, status);
        else if (again)
            status = sm_obtain_alone(batch->without, batch->side, batch->stream);
        if (!again || status != SYNCED_MEM_OK)
            return status;
        reset_batch(batch);
    }
}

static synced_mem_status move_batch(struct batch *batch, synced_mem_stream handle, struct synced_mem **failed)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->owners.list[i] = sm_root(batch->mems[i]);
    sm_owners_sort(&batch->owners, batch->count);
    const synced_mem_status status = follow_staged_transfers(batch, run_batch(batch, handle));
    release_records(batch);
    sm_stream_drop(batch->stream);
    if (status != SYNCED_MEM_OK)
        (void)sm_reap_after(status, false);
    *failed = batch->failed;
    return status;
}

/* The memory that the call needs for one object. */
struct share {
    struct row row;
    struct sm_mention mention;
    struct synced_mem *owner;
};

/* Room for one mention of each object. The arrays need no zeros, which a large call would take long to write. */
static void lay_out_shares(struct batch *batch, struct share *shares)
{
    lay_out(batch, shares, batch->count);
    struct sm_mention *const mentions = (struct sm_mention *)(void *)((struct row *)(void *)shares + batch->count);
    sm_mentions_begin(&batch->mentions, mentions, batch->count);
    batch->owners.list = (struct synced_mem **)(void *)(mentions + batch->count);
}

/* One object needs no memory from the system, unless it is in parts. */
static synced_mem_status move_once(struct synced_mem *const *mems, size_t count, enum sm_side side,
                                   synced_mem_stream handle, struct synced_mem **failed)
{
    struct share one;
    struct batch batch = {.mems = mems, .count = count, .side = side};
    batch.copies.direction = side == SM_GPU ? SM_H2D : SM_D2H;
    batch.copies.goes_on = true;
    if (count == 0)
        return SYNCED_MEM_OK;
    struct share *const shares = count > 1 ? malloc(count * sizeof one) : &one;
    if (!shares)
        return fail_without_room(count);
    lay_out_shares(&batch, shares);
    const synced_mem_status status = move_batch(&batch, handle, failed);
    free(batch.block);
    sm_mentions_end(&batch.mentions);
    if (count > 1)
        free(shares);
    return status;
}

synced_mem_status sm_move(struct synced_mem *const *mems, size_t count, enum sm_side side, synced_mem_stream handle,
                          struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    SM_TRY(sm_gates_begin(mems, count, side, SM_READ, failed));
    do
        status = move_once(mems, count, side, handle, failed);
    while (sm_reclaim_helps(&reclaim, status));
    sm_gates_end(mems, count);
    return status;
}
