/* Copies between objects. As in push_pull.c, the locks of all objects are taken in the order of their addresses, and
 * released for each wait. */
#include "object/copying.h"

#include "base/status.h"
#include "object/overlap.h"
#include "object/pair.h"
#include "object/reclaim.h"
#include "object/user_allocator.h"

#include <stdlib.h>

/* An object as the call names it. */
struct name {
    struct synced_mem *mem;
    bool written;
};

struct batch {
    struct sm_pairs common;
    struct sm_pair *pairs;
    size_t count;
    struct sm_transaction *calls; /* one an object, ordered by the objects' addresses */
    size_t objects;
    struct sm_transfer *transfers; /* queued on the caller's stream, one a pair */
    size_t queued;
    struct sm_range *ranges; /* room */
    struct name *names;      /* room */
    struct synced_mem *failed;
    /* Found in one round: what has to be done with nothing locked. */
    struct sm_pair_wait wait; /* its fence is held */
    struct sm_pair *without;  /* an allocator has to be called for its target; NULL: none */
};

/* ---- Objects and locks ---- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct name *)a)->mem;
    const uintptr_t second = (uintptr_t)((const struct name *)b)->mem;
    return (first > second) - (first < second);
}

/* An object that is written is named once. */
static synced_mem_status list_objects(struct batch *batch)
{
    struct name *const names = batch->names;
    for (size_t i = 0; i < batch->count; i++) {
        names[2 * i] = (struct name){.mem = batch->pairs[i].to, .written = true};
        names[2 * i + 1] = (struct name){.mem = batch->pairs[i].from};
    }
    qsort(names, 2 * batch->count, sizeof *names, by_address);
    for (size_t i = 0; i < 2 * batch->count; i++) {
        const bool again = i > 0 && names[i].mem == names[i - 1].mem;
        if (again && (names[i].written || names[i - 1].written)) {
            batch->failed = names[i].mem;
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                           "the object is written by this call, and named a second time");
        }
        if (!again)
            batch->calls[batch->objects++].mem = names[i].mem;
    }
    return SYNCED_MEM_OK;
}

static void leave_all(struct batch *batch, size_t entered, synced_mem_status status)
{
    for (size_t i = 0; i < entered; i++)
        (void)sm_leave(&batch->calls[i], status);
}

static synced_mem_status enter_all(struct batch *batch)
{
    for (size_t i = 0; i < batch->objects; i++) {
        const synced_mem_status status = sm_enter(&batch->calls[i], batch->calls[i].mem);
        if (status != SYNCED_MEM_OK) {
            batch->failed = batch->calls[i].mem;
            leave_all(batch, i, status);
            return status;
        }
    }
    return SYNCED_MEM_OK;
}

/* Reopens the uses that an earlier round has settled, after a failure with nothing locked. Entering cannot fail, as all
 * objects were entered before. */
static synced_mem_status reopen_all(struct batch *batch, synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    for (size_t i = 0; i < batch->objects; i++) {
        struct sm_transaction call;
        (void)sm_enter(&call, batch->calls[i].mem);
        (void)sm_leave(&call, status);
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
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%zu bytes can't be copied to an object of %zu bytes",
                           sm_size(pair->from), sm_size(pair->to));
    }
    return SYNCED_MEM_OK;
}

static bool is_default(synced_mem_stream handle)
{
    return !handle || handle == SM_HANDLE_LEGACY || handle == SM_HANDLE_PER_THREAD;
}

/* A default stream is that of the first target's device, or if that has none of its source's. */
static int device_of_default(const struct batch *batch)
{
    const int device = sm_device(batch->pairs->to);
    return device >= 0 ? device : sm_device(batch->pairs->from);
}

static synced_mem_status find_stream(struct batch *batch, synced_mem_stream handle)
{
    const int device = is_default(handle) ? device_of_default(batch) : SYNCED_MEM_DEVICE_CURRENT;
    batch->failed = batch->pairs->to;
    SM_TRY(sm_stream_find(device, handle, &batch->common.stream));
    if (!batch->common.stream)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "the stream is capturing: the transfer would become part of the graph");
    const int its = batch->common.stream->device;
    for (size_t i = 0; i < batch->count; i++) {
        const int to = sm_device(batch->pairs[i].to);
        batch->failed = batch->pairs[i].to;
        if (to >= 0 && to != its && sm_device(batch->pairs[i].from) != its)
            return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                           "the stream is used as one of device %d, the objects are on the devices %d and %d", its, to,
                           sm_device(batch->pairs[i].from));
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status check_all(struct batch *batch, synced_mem_stream handle)
{
    SM_TRY(check_sizes(batch));
    SM_TRY(sm_check_overlaps(&batch->common, batch->pairs, batch->count, batch->ranges, &batch->failed));
    return batch->common.side == SM_GPU ? find_stream(batch, handle) : SYNCED_MEM_OK;
}

/* ---- One round, with all objects locked ---- */

static synced_mem_status obtain_all(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        bool without;
        batch->failed = batch->pairs[i].to;
        SM_TRY(sm_pair_obtain(&batch->common, &batch->pairs[i], &without));
        if (without) {
            batch->without = &batch->pairs[i];
            break;
        }
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status find_wait(struct batch *batch)
{
    for (size_t i = 0; i < batch->count && !batch->wait.fence; i++) {
        batch->failed = batch->pairs[i].to;
        SM_TRY(sm_pair_find_wait(&batch->common, &batch->pairs[i], &batch->wait));
    }
    if (batch->wait.fence)
        sm_fence_hold(batch->wait.fence);
    return SYNCED_MEM_OK;
}

static synced_mem_status copy_all(struct batch *batch)
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

/* Enters the queued transfers, which run also after a failure. */
static synced_mem_status enter_queued(struct batch *batch, synced_mem_status before)
{
    if (batch->queued == 0)
        return before;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status status = sm_transfer_enter(batch->transfers, batch->queued, batch->common.stream);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->pairs[i].queued)
            sm_pair_commit(&batch->common, &batch->pairs[i], status);
    batch->queued = 0;
    if (before != SYNCED_MEM_OK)
        sm_detail_set(&first);
    return before != SYNCED_MEM_OK ? before : status;
}

static void keep_all_fresh(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->pairs[i].fresh)
            sm_pair_keep_fresh(&batch->common, &batch->pairs[i]);
}

/* Copies nothing until all checks have passed, all memory is there, and the host has nothing to wait for. */
static synced_mem_status run_locked(struct batch *batch, synced_mem_stream handle)
{
    synced_mem_status status = check_all(batch, handle);
    if (status == SYNCED_MEM_OK)
        status = obtain_all(batch);
    if (status == SYNCED_MEM_OK && !batch->without)
        status = find_wait(batch);
    if (status == SYNCED_MEM_OK && !batch->without && !batch->wait.fence)
        status = enter_queued(batch, copy_all(batch));
    keep_all_fresh(batch);
    return status;
}

/* ---- Between the rounds ---- */

/* Without the work that the target's old contents come from, there is nothing to wait for any more. */
static synced_mem_status wait_for(const struct sm_pair_wait *wait)
{
    const synced_mem_status status =
        wait->until_queued ? sm_fence_wait_queued(wait->fence) : sm_fence_wait(wait->fence);
    const bool over = !sm_fence_is_open(wait->fence);
    sm_fence_drop(wait->fence);
    return over && !wait->of_source ? SYNCED_MEM_OK : status;
}

/* Gets memory from an allocator. Entering cannot fail, as the object was entered just before. */
static synced_mem_status supply(const struct batch *batch)
{
    struct sm_transaction call;
    struct sm_stream *stream = NULL;
    struct sm_fence *again;
    const struct sm_pair *const pair = batch->without;
    (void)sm_enter(&call, pair->to);
    call.ends_nothing = true;
    synced_mem_status status = sm_pair_allocation_stream(&batch->common, pair, &stream);
    if (status == SYNCED_MEM_OK)
        status = sm_user_allocator_obtain(pair->to, batch->common.side, stream, &again);
    return sm_leave(&call, status);
}

/* Makes the stream come after a staged transfer, or waits for it. The host waits for its own contents. */
static synced_mem_status follow_one(const struct batch *batch, struct sm_fence *arrival)
{
    struct sm_stream *const stream = batch->common.stream;
    if (!stream)
        return sm_fence_wait(arrival);
    const synced_mem_status status = sm_fence_wait_queued(arrival);
    return status != SYNCED_MEM_OK || sm_stream_hold_back(stream, arrival) ? status : sm_fence_wait(arrival);
}

/* Waits for all transfers that have begun, also after a failure. Returns the first one. */
static synced_mem_status follow(struct batch *batch, synced_mem_status first)
{
    struct sm_detail why = sm_detail_get();
    for (size_t i = 0; i < batch->count; i++) {
        struct sm_pair *const pair = &batch->pairs[i];
        if (!pair->arrival)
            continue;
        const synced_mem_status status = follow_one(batch, pair->arrival);
        if (status != SYNCED_MEM_OK && first == SYNCED_MEM_OK) {
            first = status;
            batch->failed = pair->to;
            why = sm_detail_get();
        }
        sm_pair_finish(&batch->common, pair, status);
    }
    if (first != SYNCED_MEM_OK)
        sm_detail_set(&why);
    return first;
}

static bool is_complete(const struct batch *batch)
{
    size_t i = 0;
    while (i < batch->count && batch->pairs[i].done)
        i++;
    return i == batch->count;
}

/* The stream is found again in each round, since it may begin to capture while nothing is locked. */
static synced_mem_status run_once(struct batch *batch, synced_mem_stream handle)
{
    batch->wait = (struct sm_pair_wait){.fence = NULL};
    batch->without = NULL;
    SM_TRY(enter_all(batch));
    synced_mem_status status = run_locked(batch, handle);
    leave_all(batch, batch->objects, status);
    if (status == SYNCED_MEM_OK && batch->wait.fence)
        status = wait_for(&batch->wait);
    else if (status == SYNCED_MEM_OK && batch->without)
        status = supply(batch);
    status = follow(batch, status);
    sm_stream_drop(batch->common.stream);
    batch->common.stream = NULL;
    return status == SYNCED_MEM_OK ? status : reopen_all(batch, status);
}

static synced_mem_status run(struct batch *batch, synced_mem_stream handle)
{
    SM_TRY(list_objects(batch));
    do
        SM_TRY(run_once(batch, handle));
    while (!is_complete(batch));
    return SYNCED_MEM_OK;
}

/* ---- All ---- */

/* The records of one pair. */
struct part {
    struct sm_transaction calls[2];
    struct sm_transfer transfer;
    struct sm_range ranges[SM_RANGES_OF_PAIR];
    struct sm_pair pair;
    struct name names[2];
};

static struct batch batch_in(void *room, size_t count)
{
    struct batch batch = {.count = count};
    batch.calls = room;
    batch.transfers = (struct sm_transfer *)(void *)(batch.calls + 2 * count);
    batch.ranges = (struct sm_range *)(void *)(batch.transfers + count);
    batch.pairs = (struct sm_pair *)(void *)(batch.ranges + SM_RANGES_OF_PAIR * count);
    batch.names = (struct name *)(void *)(batch.pairs + count);
    return batch;
}

static synced_mem_status copy_with(struct batch *batch, struct synced_mem *const *to, struct synced_mem *const *from,
                                   synced_mem_stream handle, struct synced_mem **failed)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->pairs[i] = (struct sm_pair){.to = to[i], .from = from[i]};
    const synced_mem_status status = run(batch, handle);
    *failed = batch->failed;
    return sm_reap_after(status);
}

static synced_mem_status copy_once(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                   enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct part one = {.pair = {.to = NULL}};
    if (count == 0)
        return SYNCED_MEM_OK;
    void *const room = count > 1 ? calloc(count, sizeof(struct part)) : NULL;
    if (count > 1 && !room)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for the records of %zu copies", count);
    struct batch batch = batch_in(room ? room : &one, count);
    batch.common.side = side;
    const synced_mem_status status = copy_with(&batch, to, from, handle, failed);
    free(room);
    return status;
}

synced_mem_status sm_copy_objects(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                  enum sm_side side, synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.asked = 0};
    synced_mem_status status;
    do
        status = copy_once(to, from, count, side, handle, failed);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

synced_mem_status sm_clear(struct synced_mem *mem)
{
    struct sm_transaction call;
    SM_TRY(sm_enter(&call, mem));
    sm_give_up_contents(mem);
    return sm_leave_and_reap(&call, SYNCED_MEM_OK);
}
