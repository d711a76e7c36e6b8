/* Transfers and fills of host memory by threads of the host. */
#include "copy/host_transfer.h"

#include "base/process.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

struct host_transfer {
    struct sm_fence fence;
    struct sm_host_work work;
    atomic_flag is_taken; /* a thread moves the bytes */
    struct sm_events ended;
    size_t count;
    struct sm_host_range ranges[];
};

static struct host_transfer *get_transfer(struct sm_host_work *work)
{
    return (struct host_transfer *)(void *)((char *)work - offsetof(struct host_transfer, work));
}

static struct host_transfer *get_transfer_of(struct sm_fence *fence)
{
    return (struct host_transfer *)(void *)((char *)fence - offsetof(struct host_transfer, fence));
}

/* A fork waits while the thread is inside, as it does for a thread that holds an object's lock. */
static void move_ranges_once(struct host_transfer *transfer)
{
    sm_process_enter();
    if (!atomic_flag_test_and_set(&transfer->is_taken)) {
        for (size_t i = 0; i < transfer->count; i++) {
            const struct sm_host_range *const range = &transfer->ranges[i];
            if (range->from)
                memcpy(range->to, range->from, range->size);
            else
                memset(range->to, 0, range->size);
        }
        sm_fence_close(&transfer->fence, SM_FENCE_DONE, false);
        sm_events_add(&transfer->ended);
    }
    sm_process_leave();
}

static synced_mem_status finish_transfer(struct sm_host_work *work, const struct sm_fence *fence)
{
    struct host_transfer *const transfer = get_transfer(work);
    move_ranges_once(transfer);
    for (;;) {
        const unsigned seen = sm_events_seen(&transfer->ended);
        if (!sm_fence_is_open(fence))
            return SYNCED_MEM_OK;
        sm_events_wait(&transfer->ended, seen);
    }
}

static void free_transfer(struct sm_host_work *work)
{
    free(get_transfer(work));
}

/* Makes a transfer without ranges. */
static struct host_transfer *make_transfer(size_t room)
{
    struct host_transfer *const transfer = calloc(1, sizeof *transfer + room * sizeof *transfer->ranges);
    if (!transfer) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a transfer by the host");
        return NULL;
    }
    transfer->work = (struct sm_host_work){.finish = finish_transfer, .drop = free_transfer};
    atomic_flag_clear(&transfer->is_taken);
    sm_fence_begin_on_host(&transfer->fence, sm_stream_new_serial(), &transfer->work);
    return transfer;
}

struct sm_fence *sm_host_transfer_make(const struct sm_host_range *ranges, size_t count)
{
    struct host_transfer *const transfer = make_transfer(count);
    if (!transfer)
        return NULL;
    transfer->count = count;
    memcpy(transfer->ranges, ranges, count * sizeof *ranges);
    return &transfer->fence;
}

/* Makes the transfer for the first range. */
static synced_mem_status begin_collection(struct sm_host_collection *collection)
{
    struct host_transfer *const transfer = collection->fence ? NULL : make_transfer(collection->room);
    if (transfer)
        collection->fence = &transfer->fence;
    return collection->fence ? SYNCED_MEM_OK : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
}

synced_mem_status sm_host_collection_add(struct sm_host_collection *collection, struct sm_copy *to,
                                         struct sm_copy *from, size_t from_offset, size_t size)
{
    struct sm_replaced replaced = {.uses = NULL};
    struct sm_use *const read = sm_inflight_reserve();
    synced_mem_status status = read ? begin_collection(collection) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (status != SYNCED_MEM_OK) {
        sm_inflight_unreserve(read);
        return status;
    }
    struct host_transfer *const transfer = get_transfer_of(collection->fence);
    transfer->ranges[transfer->count++] =
        (struct sm_host_range){.to = sm_copy_data(to), .from = (char *)sm_copy_data(from) + from_offset, .size = size};
    sm_inflight_read(from, read, sm_fence_hold(collection->fence), &replaced);
    sm_replaced_drop(&replaced);
    sm_inflight_written(to, sm_fence_hold(collection->fence));
    to->arriving = true;
    return SYNCED_MEM_OK;
}
