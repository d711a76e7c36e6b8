/* Pushes and pulls. The locks of many objects are taken in the order of their addresses. So two such calls cannot wait
 * for each other. Copies between objects do the same. No other call holds more than one such lock. */
#include "object/push_pull.h"

#include "object/fetch.h"
#include "object/reclaim.h"
#include "copy/staged.h"
#include "base/status.h"
#include "object/user_allocator.h"
#include "object/unified.h"

#include <stdlib.h>
#include <string.h>

struct batch {
    struct synced_mem *const *mems; /* as given */
    size_t count;
    struct sm_transaction *transactions; /* one an object, ordered by the objects' addresses */
    size_t objects;
    struct sm_transfer *transfers; /* queued */
    size_t queued;
    struct sm_batch copies;     /* the queued transfers that go to the runtime in one call */
    struct sm_fence **arrivals; /* the targets' fences of staged transfers, held */
    size_t staged;
    bool goes_on; /* staged pulls go on by themselves after the call */
    enum sm_side side;
    struct sm_stream *stream;
    struct synced_mem *failed;
    struct sm_fence *wait; /* held: the host waits for it before all or the rest can be queued */
};

/* ---- Locks ---- */

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct sm_transaction *)a)->mem;
    const uintptr_t second = (uintptr_t)((const struct sm_transaction *)b)->mem;
    return (first > second) - (first < second);
}

/* Objects that were created one after the other mostly are sorted. */
static bool are_sorted(const struct batch *batch)
{
    size_t i = 1;
    while (i < batch->count && compare_addresses(&batch->transactions[i - 1], &batch->transactions[i]) <= 0)
        i++;
    return i >= batch->count;
}

static void sort_objects(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->transactions[i].mem = batch->mems[i];
    if (!are_sorted(batch))
        qsort(batch->transactions, batch->count, sizeof *batch->transactions, compare_addresses);
    batch->objects = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (i == 0 || batch->transactions[i].mem != batch->transactions[batch->objects - 1].mem)
            batch->transactions[batch->objects++] = batch->transactions[i];
}

static synced_mem_status leave_objects(struct batch *batch, size_t entered, synced_mem_status status)
{
    for (size_t i = 0; i < entered; i++)
        (void)sm_leave(&batch->transactions[i], status);
    return status;
}

static synced_mem_status enter_objects(struct batch *batch)
{
    for (size_t i = 0; i < batch->objects; i++) {
        const synced_mem_status status = sm_enter(&batch->transactions[i], batch->transactions[i].mem);
        if (status != SYNCED_MEM_OK) {
            batch->failed = batch->transactions[i].mem;
            return leave_objects(batch, i, status);
        }
    }
    return SYNCED_MEM_OK;
}

/* ---- One object ---- */

static bool is_pull(const struct batch *batch)
{
    return batch->side == SM_CPU;
}

static synced_mem_status fail_nothing_to_move(const struct batch *batch, synced_mem_state head)
{
    if (head == SYNCED_MEM_UNINITIALIZED)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the head is UNINITIALIZED: there is nothing to %s",
                       is_pull(batch) ? "pull" : "push");
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the head is %s copy is stale",
                   is_pull(batch) ? "AT_CPU: the device" : "AT_GPU: the host");
}

static synced_mem_status queue_object_move(struct batch *batch, struct synced_mem *mem)
{
    struct sm_fence *wait;
    if (sm_shared_copy(mem))
        return sm_unified_move(mem, batch->side, batch->stream);
    SM_TRY(sm_queue_move(mem, batch->side, batch->stream, &batch->copies, &batch->transfers[batch->queued], &wait));
    if (wait)
        batch->wait = sm_fence_hold(wait);
    else if (batch->transfers[batch->queued].staged)
        batch->arrivals[batch->staged++] = sm_fence_hold(sm_copy_of(mem, batch->side)->write);
    else
        batch->queued++;
    return SYNCED_MEM_OK;
}

/* likely: the index that the object has if the caller's array is sorted and has no object twice. */
static struct sm_transaction *find_transaction(const struct batch *batch, size_t likely, struct synced_mem *mem)
{
    const struct sm_transaction wanted = {.mem = mem};
    if (likely < batch->objects && batch->transactions[likely].mem == mem)
        return &batch->transactions[likely];
    return bsearch(&wanted, batch->transactions, batch->objects, sizeof *batch->transactions, compare_addresses);
}

/* All objects use one stream and are on its device. */
static synced_mem_status find_stream(struct batch *batch, const struct synced_mem *mem, synced_mem_stream handle)
{
    const int device = sm_device(mem);
    synced_mem_status status = SYNCED_MEM_OK;
    if (batch->stream && device >= 0 && device != batch->stream->device)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "the stream is used on device %d, but the object is on device %d",
                       batch->stream->device, device);
    if (!batch->stream)
        status = sm_stream_find(device, handle, &batch->stream);
    if (status != SYNCED_MEM_OK || batch->stream)
        return status;
    return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                   "the stream is capturing, and the transfer would become part of the graph: call before the capture");
}

/* Checks everything that can be checked before a transfer is queued. */
static synced_mem_status check_object_move(struct batch *batch, const struct synced_mem *mem, synced_mem_stream handle)
{
    const synced_mem_state head = (synced_mem_state)sm_head(mem);
    if (head != SYNCED_MEM_SYNCED && head != (is_pull(batch) ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU))
        return fail_nothing_to_move(batch, head);
    return find_stream(batch, mem, handle);
}

/* A SYNCED object whose copy is still queueing needs nothing: no stream can come after a staged pull. */
static synced_mem_status move_object(struct batch *batch, size_t which)
{
    struct synced_mem *const mem = batch->mems[which];
    if (sm_head(mem) == SYNCED_MEM_SYNCED && sm_inflight_queueing(sm_copy_of(mem, batch->side), false))
        return SYNCED_MEM_OK;
    if (sm_head(mem) == SYNCED_MEM_SYNCED)
        return sm_inflight_order(sm_copy_of(mem, batch->side), false, batch->stream);
    struct sm_transaction *const transaction = find_transaction(batch, which, mem);
    const synced_mem_status status = transaction->moves ? SYNCED_MEM_OK : queue_object_move(batch, mem);
    transaction->moves = true;
    return status;
}

/* ---- All ---- */

/* All transfers are queued, so the heads are set. A pull that the host waits for can still fail, and ends no open write
 * before it has succeeded. */
static void set_heads(struct batch *batch)
{
    batch->goes_on = is_pull(batch) && (batch->staged == 0 || sm_staged_goes_on());
    for (size_t i = 0; i < batch->objects; i++) {
        struct synced_mem *const mem = batch->transactions[i].mem;
        if (batch->goes_on)
            sm_close_write(mem);
        if (!batch->transactions[i].moves)
            continue;
        if (sm_shared_copy(mem) && is_pull(batch))
            sm_unified_arrive(sm_shared_copy(mem), NULL);
        batch->transactions[i].writes = sm_copy_of(mem, SM_GPU)->writes;
        sm_set_head(mem, sm_head(mem) | sm_bit(batch->side));
    }
}

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

static synced_mem_status send_and_set_heads(struct batch *batch)
{
    synced_mem_status status = batch->wait ? SYNCED_MEM_OK : send_batch(batch);
    if (status != SYNCED_MEM_OK)
        return enter_after_failure(batch, status);
    status = enter_queued_transfers(batch);
    if (status == SYNCED_MEM_OK && !batch->wait)
        set_heads(batch);
    return status;
}

/* *without: an object without memory for the contents, and with an allocator. NULL: none. */
static synced_mem_status find_missing_memory(const struct batch *batch, struct synced_mem *mem,
                                             struct synced_mem **without)
{
    if (sm_head(mem) == SYNCED_MEM_SYNCED)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_make_usable(mem, batch->side);
    if (status == SYNCED_MEM_OK && sm_user_allocator_wanted(mem, batch->side))
        *without = mem;
    return status;
}

/* Queues nothing until all checks have passed and all memory from allocators is there. */
static synced_mem_status move_all_objects(struct batch *batch, synced_mem_stream handle, struct synced_mem **without)
{
    *without = NULL;
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < batch->count && status == SYNCED_MEM_OK; i++) {
        batch->failed = batch->mems[i];
        status = check_object_move(batch, batch->mems[i], handle);
    }
    for (size_t i = 0; i < batch->count && status == SYNCED_MEM_OK && !*without; i++) {
        batch->failed = batch->mems[i];
        status = find_missing_memory(batch, batch->mems[i], without);
    }
    if (*without)
        return SYNCED_MEM_OK;
    for (size_t i = 0; i < batch->count && status == SYNCED_MEM_OK && !batch->wait; i++) {
        batch->failed = batch->mems[i];
        status = move_object(batch, i);
    }
    return status == SYNCED_MEM_OK ? send_and_set_heads(batch) : enter_after_failure(batch, status);
}

/* Another thread's push may still be queueing. The move of a single object finds its own wait before it queues
 * anything. */
static synced_mem_status find_object_wait(const struct batch *batch, struct synced_mem *mem, struct sm_fence **wait)
{
    if (sm_head(mem) == sm_bit(sm_other(batch->side)))
        return batch->objects > 1 ? sm_find_move_wait(mem, batch->side, true, wait) : SYNCED_MEM_OK;
    if (sm_head(mem) == SYNCED_MEM_SYNCED && !is_pull(batch))
        *wait = sm_inflight_queueing(sm_copy_of(mem, batch->side), false);
    return SYNCED_MEM_OK;
}

/* Finds the fence that the host waits for before anything can be queued. */
static synced_mem_status find_first_wait(struct batch *batch)
{
    synced_mem_status status = SYNCED_MEM_OK;
    struct sm_fence *wait = NULL;
    for (size_t i = 0; i < batch->count && !wait && status == SYNCED_MEM_OK; i++)
        status = find_object_wait(batch, batch->mems[i], &wait);
    if (wait)
        batch->wait = sm_fence_hold(wait);
    return status;
}

/* Makes the stream come after a staged push, or waits for it. Waits for a staged pull until it is no longer queueing:
 * then it has arrived. */
static synced_mem_status follow_arrival(struct batch *batch, struct sm_fence *arrival)
{
    const synced_mem_status status = sm_fence_wait_queued(arrival);
    if (status != SYNCED_MEM_OK || is_pull(batch) || sm_stream_hold_back(batch->stream, arrival))
        return status;
    return sm_fence_wait(arrival);
}

/* Returns whether the transfer's contents have arrived and no stream was given the device copy to write meanwhile. Such
 * an open write is not the pull's to end. */
static bool has_arrived(const struct batch *batch, const struct sm_transaction *transaction)
{
    const struct sm_copy *const gpu = sm_copy_of(transaction->mem, SM_GPU);
    return transaction->moves && (sm_head(transaction->mem) & sm_bit(batch->side)) && gpu &&
           gpu->writes == transaction->writes;
}

/* Enters each object once more, so that its head loses failed contents. A pull ends or reopens the open writes that it
 * has settled, each by the result of its own transfer. Entering cannot fail, as in obtain_from_allocator(). */
static void reenter_objects(struct batch *batch, synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    for (size_t i = 0; i < batch->objects; i++) {
        struct sm_transaction transaction;
        (void)sm_enter(&transaction, batch->transactions[i].mem);
        const bool arrived = has_arrived(batch, &batch->transactions[i]);
        if (arrived && is_pull(batch))
            sm_close_write(transaction.mem);
        (void)sm_leave(&transaction, arrived ? SYNCED_MEM_OK : status);
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
        reenter_objects(batch, status);
    if (status != SYNCED_MEM_OK)
        batch->failed = NULL; /* any of the objects may have failed */
    return status;
}

/* Gets memory from an allocator for one object, with no other object locked. Entering cannot fail, as it was entered
 * just before. */
static synced_mem_status obtain_from_allocator(const struct batch *batch, struct synced_mem *mem)
{
    struct sm_transaction transaction;
    struct sm_fence *again;
    (void)sm_enter(&transaction, mem);
    transaction.ends_nothing = true;
    return sm_leave(&transaction, sm_user_allocator_obtain(mem, batch->side, batch->stream, &again));
}

static synced_mem_status wait_for_fence(struct batch *batch, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        status = sm_fence_wait(batch->wait);
    sm_fence_drop(batch->wait);
    if (status != SYNCED_MEM_OK)
        reenter_objects(batch, status);
    return status;
}

/* Resets the batch after a wait, as queued transfers were entered by then. The stream is found again, since it may
 * begin to capture while nothing is locked. */
static void reset_batch(struct batch *batch)
{
    sm_stream_drop(batch->stream);
    batch->stream = NULL;
    batch->wait = NULL;
    batch->queued = 0;
    sm_batch_empty(&batch->copies);
    cancel_arrivals(batch);
}

static synced_mem_status run_batch(struct batch *batch, synced_mem_stream handle)
{
    for (;;) {
        struct synced_mem *without = NULL;
        synced_mem_status status = enter_objects(batch);
        if (status != SYNCED_MEM_OK)
            return status;
        status = find_first_wait(batch);
        if (!batch->wait && status == SYNCED_MEM_OK)
            status = move_all_objects(batch, handle, &without);
        (void)leave_objects(batch, batch->objects, status);
        if (batch->wait)
            status = wait_for_fence(batch, status);
        else if (without)
            status = obtain_from_allocator(batch, without);
        if (status != SYNCED_MEM_OK || (!batch->wait && !without))
            return status;
        reset_batch(batch);
    }
}

static synced_mem_status move_batch(struct batch *batch, synced_mem_stream handle, struct synced_mem **failed)
{
    sort_objects(batch);
    const synced_mem_status status = follow_staged_transfers(batch, run_batch(batch, handle));
    sm_stream_drop(batch->stream);
    if (status != SYNCED_MEM_OK)
        (void)sm_reap_after(status, false);
    if (failed)
        *failed = batch->failed;
    return status;
}

static synced_mem_status move_many(struct batch *batch, synced_mem_stream handle, struct synced_mem **failed)
{
    struct part {
        struct sm_transaction transaction;
        struct sm_transfer transfer;
        struct sm_fence *arrival;
        void *to;
        const void *from;
        size_t size;
    };
    char *const room = calloc(batch->count, sizeof(struct part));
    if (!room)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu transfers",
                       batch->count);
    batch->transactions = (struct sm_transaction *)(void *)room;
    batch->transfers = (struct sm_transfer *)(void *)(batch->transactions + batch->count);
    batch->arrivals = (struct sm_fence **)(void *)(batch->transfers + batch->count);
    batch->copies.to = (void **)(void *)(batch->arrivals + batch->count);
    batch->copies.from = (const void **)(void *)(batch->copies.to + batch->count);
    batch->copies.sizes = (size_t *)(void *)(batch->copies.from + batch->count);
    batch->copies.room = batch->count;
    const synced_mem_status status = move_batch(batch, handle, failed);
    free(room);
    return status;
}

static synced_mem_status move_once(struct synced_mem *const *mems, size_t count, enum sm_side side,
                                   synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_transaction transaction;
    struct sm_transfer transfer;
    struct sm_fence *arrival;
    struct batch batch = {.mems = mems,
                          .count = count,
                          .transactions = &transaction,
                          .transfers = &transfer,
                          .arrivals = &arrival,
                          .side = side};
    batch.copies.direction = side == SM_GPU ? SM_H2D : SM_D2H;
    if (count == 0)
        return SYNCED_MEM_OK;
    return count == 1 ? move_batch(&batch, handle, failed) : move_many(&batch, handle, failed);
}

synced_mem_status sm_move(struct synced_mem *const *mems, size_t count, enum sm_side side, synced_mem_stream handle,
                          struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = move_once(mems, count, side, handle, failed);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}
