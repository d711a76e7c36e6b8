/* Fills of several device copies. */
#include "copy/fills.h"

#include "base/status.h"
#include "copy/kernel_list.h"
#include "copy/transfer.h"

#include <stdlib.h>

static bool is_listed(const struct sm_fill *fill, const struct sm_stream *stream)
{
    const struct sm_copy *const to = fill->to;
    return fill->size > 0 && fill->size <= SM_KERNEL_MOST_BYTES && to->source == SYNCED_MEM_SOURCE_DEVICE &&
           to->device == stream->device;
}

/* Makes the stream come after the work on the copies, and lists the fills that a kernel may make. */
static synced_mem_status order_and_list(const struct sm_fill *fills, size_t count, struct sm_kernel_list *list,
                                        struct sm_stream *stream)
{
    for (size_t i = 0; i < count; i++) {
        SM_TRY(sm_transfer_order(fills[i].to, stream));
        if (is_listed(&fills[i], stream))
            sm_kernel_list_add(list, sm_copy_data(fills[i].to), NULL, fills[i].size);
    }
    return SYNCED_MEM_OK;
}

/* Queues a fill that no kernel of a list makes. */
static synced_mem_status fill_one(void *to, unsigned char value, size_t size, const struct sm_stream *stream)
{
    return size > 0 ? sm_device_fill(stream->device, to, value, size, stream->handle) : SYNCED_MEM_OK;
}

static synced_mem_status queue_all(const struct sm_fill *fills, size_t count, unsigned char value,
                                   struct sm_kernel_list *list, struct sm_stream *stream)
{
    for (size_t i = 0; i < count && list->count < count; i++)
        if (!is_listed(&fills[i], stream))
            SM_TRY(fill_one(sm_copy_data(fills[i].to), value, fills[i].size, stream));
    for (size_t i = sm_kernel_list_fill(list, value, stream); i < list->count; i++)
        SM_TRY(fill_one(list->entries[i].to, value, list->entries[i].bytes, stream));
    return SYNCED_MEM_OK;
}

/* Fills that are queued run even if a later one is refused, so all copies are entered. */
static synced_mem_status enter_all(const struct sm_fill *fills, size_t count, struct sm_stream *stream)
{
    struct sm_fence *fence;
    bool untracked;
    const synced_mem_status status = sm_transfer_record(stream, &fence, &untracked);
    for (size_t i = 0; i < count && untracked; i++)
        sm_inflight_untrack(fills[i].to, SM_UNTRACKED_WRITE, stream);
    if (status != SYNCED_MEM_OK)
        return status;
    if (fence)
        sm_fence_hold_often(fence, count);
    for (size_t i = 0; i < count; i++) {
        sm_inflight_written(fills[i].to, fence);
        fills[i].to->arriving = fence != NULL;
    }
    sm_fence_drop(fence);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fill_copies(const struct sm_fill *fills, size_t count, unsigned char value,
                                 struct sm_stream *stream)
{
    if (count == 0)
        return SYNCED_MEM_OK;
    struct sm_kernel_list list = {.entries = calloc(count, sizeof *list.entries), .device = stream->device};
    if (!list.entries)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu fills", count);
    synced_mem_status status = order_and_list(fills, count, &list, stream);
    if (status == SYNCED_MEM_OK) {
        status = queue_all(fills, count, value, &list, stream);
        const struct sm_detail first = sm_detail_get();
        const synced_mem_status entered = enter_all(fills, count, stream);
        if (status != SYNCED_MEM_OK)
            sm_detail_set(&first);
        else
            status = entered;
    }
    free(list.entries);
    return status;
}
