/* Copies between objects. As in push_pull.c, the locks of all objects are taken in the order of their addresses, and
 * released for each wait. */
#include "object/copying.h"

#include "base/status.h"
#include "object/overlap.h"
#include "object/pair.h"
#include "object/reclaim.h"
#include "object/user_allocator.h"

#include <stdlib.h>

/* One mention of an object in the call. */
struct name {
    struct synced_mem *mem;
    bool written;
};

struct batch {
    struct sm_pairs common;
    struct sm_pair *pairs;
    size_t count;
    struct sm_transaction *transactions; /* one for each object, ordered by the objects' addresses */
    size_t objects;
    struct sm_transfer *transfers; /* queued on the caller's stream, one for each pair */
    size_t queued;
    struct sm_range *ranges; /* room */
    struct name *names;      /* room */
    struct synced_mem *failed;
    /* Found in one round, for the time when nothing is locked. */
    struct sm_pair_wait wait;    /* its fence is held */
    struct sm_pair *without;     /* a pair whose target needs memory from an allocator; NULL: none */
    struct sm_stream *allocates; /* that memory is usable in this stream's order; NULL: host memory */
};

/* ---- Objects and locks ---- */

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct name *)a)->mem;
    const uintptr_t second = (uintptr_t)((const struct name *)b)->mem;
    return (first > second) - (first < second);
}

/* Lists each object once. An object that is written may be named only once. */
static synced_mem_status list_objects(struct batch *batch)
{
    struct name *const names = batch->names;
    for (size_t i = 0; i < batch->count; i++) {
        names[2 * i] = (struct name){.mem = batch->pairs[i].to, .written = true};
        names[2 * i + 1] = (struct name){.mem = batch->pairs[i].from};
    }
    qsort(names, 2 * batch->count, sizeof *names, compare_addresses);
    for (size_t i = 0; i < 2 * batch->count; i++) {
        const bool again = i > 0 && names[i].mem == names[i - 1].mem;
        if (again && (names[i].written || names[i - 1].written)) {
            batch->failed = names[i].mem;
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the call writes the object, and names it a second time");
        }
        if (!again)
            batch->transactions[batch->objects++].mem = names[i].mem;
    }
    return SYNCED_MEM_OK;
}

static void leave_objects(struct batch *batch, size_t entered, synced_mem_status status)
{
    for (size_t i = 0; i < entered; i++)
        (void)sm_leave(&batch->transactions[i], status);
}

static synced_mem_status enter_objects(struct batch *batch)
{
    for (size_t i = 0; i < batch->objects; i++) {
        const synced_mem_status status = sm_enter(&batch->transactions[i], batch->transactions[i].mem);
        if (status != SYNCED_MEM_OK) {
            batch->failed = batch->transactions[i].mem;
            leave_objects(batch, i, status);
            return status;
        }
    }
    return SYNCED_MEM_OK;
}

/* Reopens the uses that an earlier round has settled, after a failure with nothing locked. Entering cannot fail, as all
 * objects were entered before. */
static synced_mem_status reopen_objects(struct batch *batch, synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    for (size_t i = 0; i < batch->objects; i++) {
        struct sm_transaction transaction;
        (void)sm_enter(&transaction, batch->transactions[i].mem);
        (void)sm_leave(&transaction, status);
    }
    sm_detail_set(&first);
    return status;
}

/* ---- Checks ---- */

static synced_mem_status check_sizes(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct sm_pair *const pair = &batch->pairs[i];
        batch->failed = pair->to;
        if (sm_size(pair->to) != sm_size(pair->from))
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                           "the object to copy has %zu bytes, but this object has %zu bytes", sm_size(pair->from),
                           sm_size(pair->to));
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
    const int device = sm_device(batch->pairs->to);
    return device >= 0 ? device : sm_device(batch->pairs->from);
}

static synced_mem_status find_stream(struct batch *batch, synced_mem_stream handle)
{
    const int device = is_default_stream(handle) ? get_default_device(batch) : SYNCED_MEM_DEVICE_CURRENT;
    batch->failed = batch->pairs->to;
    SM_TRY(sm_stream_find(device, handle, &batch->common.stream));
    if (!batch->common.stream)
        return sm_fail(
            SYNCED_MEM_ERR_CAPTURING,
            "the stream is capturing, and the transfer would become part of the graph: call before the capture");
    const int its = batch->common.stream->device;
    for (size_t i = 0; i < batch->count; i++) {
        const int to = sm_device(batch->pairs[i].to);
        batch->failed = batch->pairs[i].to;
        if (to >= 0 && to != its && sm_device(batch->pairs[i].from) != its)
            return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                           "the stream is used on device %d, but the objects are on devices %d and %d", its, to,
                           sm_device(batch->pairs[i].from));
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status check_batch(struct batch *batch, synced_mem_stream handle)
{
    SM_TRY(check_sizes(batch));
    SM_TRY(sm_check_overlaps(&batch->common, batch->pairs, batch->count, batch->ranges, &batch->failed));
    return batch->common.side == SM_GPU ? find_stream(batch, handle) : SYNCED_MEM_OK;
}

/* ---- One round, with all objects locked ---- */

static synced_mem_status obtain_targets(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        bool without;
        batch->failed = batch->pairs[i].to;
        SM_TRY(sm_pair_obtain(&batch->common, &batch->pairs[i], &without));
        if (without) {
            batch->without = &batch->pairs[i];
            return sm_pair_allocation_stream(&batch->common, batch->without, &batch->allocates);
        }
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status find_first_wait(struct batch *batch)
{
    for (size_t i = 0; i < batch->count && !batch->wait.fence; i++) {
        batch->failed = batch->pairs[i].to;
        SM_TRY(sm_pair_find_wait(&batch->common, &batch->pairs[i], &batch->wait));
    }
    if (batch->wait.fence)
        sm_fence_hold(batch->wait.fence);
    return SYNCED_MEM_OK;
}

static synced_mem_status copy_pairs(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct sm_pair *const pair = &batch->pairs[i];
        if (pair->done)
            continue;
        batch->failed = pair->to;
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
    for (size_t i = 0; i < batch->count; i++)
        if (batch->pairs[i].queued)
            sm_pair_set_heads(&batch->common, &batch->pairs[i], status);
    batch->queued = 0;
    if (before != SYNCED_MEM_OK)
        sm_detail_set(&first);
    return before != SYNCED_MEM_OK ? before : status;
}

static void keep_fresh_copies(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->pairs[i].fresh)
            sm_pair_keep_fresh(&batch->common, &batch->pairs[i]);
}

static bool is_complete(const struct batch *batch)
{
    size_t i = 0;
    while (i < batch->count && batch->pairs[i].done)
        i++;
    return i == batch->count;
}

static void end_source_writes(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        sm_pair_end_source_write(&batch->common, &batch->pairs[i]);
}

/* Copies nothing until all checks have passed, all memory is obtained, and the host need not wait. Open writes end only
 * after the last pair has succeeded: pointers stay valid if the call fails. */
static synced_mem_status run_locked_round(struct batch *batch, synced_mem_stream handle)
{
    synced_mem_status status = check_batch(batch, handle);
    if (status == SYNCED_MEM_OK)
        status = obtain_targets(batch);
    if (status == SYNCED_MEM_OK && !batch->without)
        status = find_first_wait(batch);
    if (status == SYNCED_MEM_OK && !batch->without && !batch->wait.fence)
        status = enter_queued_transfers(batch, copy_pairs(batch));
    if (status == SYNCED_MEM_OK && is_complete(batch))
        end_source_writes(batch);
    keep_fresh_copies(batch);
    return status;
}

/* ---- Between the rounds ---- */

/* Waits, and drops the fence. A failure of the work that brings the target's old contents is no error. */
static synced_mem_status wait_for_fence(const struct sm_pair_wait *wait)
{
    const synced_mem_status status =
        wait->until_queued ? sm_fence_wait_queued(wait->fence) : sm_fence_wait(wait->fence);
    const bool over = !sm_fence_is_open(wait->fence);
    sm_fence_drop(wait->fence);
    return over && !wait->of_source ? SYNCED_MEM_OK : status;
}

/* Gets memory from an allocator for the target. Entering cannot fail, as the object was entered just before. */
static synced_mem_status obtain_from_allocator(const struct batch *batch)
{
    struct sm_transaction transaction;
    struct sm_fence *again;
    struct synced_mem *const to = batch->without->to;
    (void)sm_enter(&transaction, to);
    transaction.ends_nothing = true;
    return sm_leave(&transaction, sm_user_allocator_obtain(to, batch->common.side, batch->allocates, &again));
}

/* Makes the stream come after a staged transfer, or waits for it. Without a stream the host waits for the contents. */
static synced_mem_status follow_arrival(const struct batch *batch, struct sm_fence *arrival)
{
    struct sm_stream *const stream = batch->common.stream;
    if (!stream)
        return sm_fence_wait(arrival);
    const synced_mem_status status = sm_fence_wait_queued(arrival);
    return status != SYNCED_MEM_OK || sm_stream_hold_back(stream, arrival) ? status : sm_fence_wait(arrival);
}

/* Waits for all transfers that have begun, even after a failure. Returns the first failure. */
static synced_mem_status follow_arrivals(struct batch *batch, synced_mem_status first)
{
    struct sm_outcome outcome;
    sm_outcome_set(&outcome, first);
    for (size_t i = 0; i < batch->count; i++) {
        struct sm_pair *const pair = &batch->pairs[i];
        if (!pair->arrival)
            continue;
        const synced_mem_status status = follow_arrival(batch, pair->arrival);
        if (status != SYNCED_MEM_OK && outcome.status == SYNCED_MEM_OK) {
            sm_outcome_set(&outcome, status);
            batch->failed = pair->to;
        }
        sm_pair_finish(&batch->common, pair, status);
    }
    return sm_outcome_end(&outcome);
}

/* The same as end_source_writes(), with nothing locked. Entering cannot fail, as all objects were entered before. */
static void enter_and_end_source_writes(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct sm_transaction transaction;
        (void)sm_enter(&transaction, batch->pairs[i].from);
        sm_pair_end_source_write(&batch->common, &batch->pairs[i]);
        (void)sm_leave(&transaction, SYNCED_MEM_OK);
    }
}

/* Finds the stream again in each round, since it may begin to capture while nothing is locked. */
static synced_mem_status run_round(struct batch *batch, synced_mem_stream handle)
{
    batch->wait = (struct sm_pair_wait){.fence = NULL};
    batch->without = NULL;
    SM_TRY(enter_objects(batch));
    synced_mem_status status = run_locked_round(batch, handle);
    const bool was_complete = is_complete(batch);
    leave_objects(batch, batch->objects, status);
    if (status == SYNCED_MEM_OK && batch->wait.fence)
        status = wait_for_fence(&batch->wait);
    else if (status == SYNCED_MEM_OK && batch->without)
        status = obtain_from_allocator(batch);
    status = follow_arrivals(batch, status);
    if (status == SYNCED_MEM_OK && !was_complete && is_complete(batch))
        enter_and_end_source_writes(batch);
    sm_stream_drop(batch->common.stream);
    batch->common.stream = NULL;
    return status == SYNCED_MEM_OK ? status : reopen_objects(batch, status);
}

static synced_mem_status run_batch(struct batch *batch, synced_mem_stream handle)
{
    SM_TRY(list_objects(batch));
    do
        SM_TRY(run_round(batch, handle));
    while (!is_complete(batch));
    return SYNCED_MEM_OK;
}

/* ---- All ---- */

/* The records of one pair. */
struct part {
    struct sm_transaction transactions[2];
    struct sm_transfer transfer;
    struct sm_range ranges[SM_RANGES_OF_PAIR];
    struct sm_pair pair;
    struct name names[2];
};

static struct batch lay_out_batch(void *room, size_t count)
{
    struct batch batch = {.count = count};
    batch.transactions = room;
    batch.transfers = (struct sm_transfer *)(void *)(batch.transactions + 2 * count);
    batch.ranges = (struct sm_range *)(void *)(batch.transfers + count);
    batch.pairs = (struct sm_pair *)(void *)(batch.ranges + SM_RANGES_OF_PAIR * count);
    batch.names = (struct name *)(void *)(batch.pairs + count);
    return batch;
}

static synced_mem_status copy_batch(struct batch *batch, struct synced_mem *const *to, struct synced_mem *const *from,
                                    synced_mem_stream handle, struct synced_mem **failed)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->pairs[i] = (struct sm_pair){.to = to[i], .from = from[i]};
    const synced_mem_status status = run_batch(batch, handle);
    *failed = batch->failed;
    return sm_reap_after(status, batch->common.side == SM_CPU);
}

static synced_mem_status copy_once(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                   enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct part one = {.pair = {.to = NULL}};
    if (count == 0)
        return SYNCED_MEM_OK;
    void *const room = count > 1 ? calloc(count, sizeof(struct part)) : NULL;
    if (count > 1 && !room)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu copies", count);
    struct batch batch = lay_out_batch(room ? room : &one, count);
    batch.common.side = side;
    const synced_mem_status status = copy_batch(&batch, to, from, handle, failed);
    free(room);
    return status;
}

synced_mem_status sm_copy_objects(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                  enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = copy_once(to, from, count, side, handle, failed);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

synced_mem_status sm_clear(struct synced_mem *mem)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    sm_give_up_contents(mem);
    return sm_leave_and_reap(&transaction, SYNCED_MEM_OK, false);
}
