/* Fills of several device copies. */
#include "copy/fills.h"

void *sm_fills_lay_out(struct sm_fills *fills, struct sm_stream *stream, void *block, size_t room)
{
    *fills = (struct sm_fills){.stream = stream, .list = block};
    fills->kernel.device = stream->device;
    fills->kernel.entries = (struct sm_list_entry *)(void *)(fills->list + room);
    return fills->kernel.entries + room;
}

/* Queues a fill that no kernel of a list makes. */
static synced_mem_status fill_one(void *to, unsigned char value, size_t size, const struct sm_stream *stream)
{
    return size > 0 ? sm_device_fill(stream->device, to, value, size, stream->handle) : SYNCED_MEM_OK;
}

static synced_mem_status queue_all(const struct sm_fills *fills, unsigned char value)
{
    const struct sm_kernel_list *const list = &fills->kernel;
    for (size_t i = 0; i < fills->count && list->count < fills->count; i++)
        if (!sm_fill_is_for_kernel(&fills->list[i], fills->stream))
            SM_TRY(fill_one(sm_copy_data(fills->list[i].to), value, fills->list[i].size, fills->stream));
    for (size_t i = sm_kernel_list_fill(list, value, fills->stream); i < list->count; i++)
        SM_TRY(fill_one(list->entries[i].to, value, list->entries[i].bytes, fills->stream));
    return SYNCED_MEM_OK;
}

static synced_mem_status record(struct sm_fills *fills)
{
    bool untracked;
    const synced_mem_status status = sm_transfer_record(fills->stream, &fills->fence, &untracked);
    for (size_t i = 0; i < fills->count && untracked; i++)
        sm_inflight_untrack(fills->list[i].to, SM_UNTRACKED_WRITE, fills->stream);
    if (status != SYNCED_MEM_OK)
        return status;
    if (fills->fence)
        sm_fence_hold_often(fills->fence, fills->count);
    sm_fence_drop(fills->fence);
    fills->sent = fills->count;
    return SYNCED_MEM_OK;
}

/* Fills that are queued run even if a later one is refused, so all copies are entered. */
synced_mem_status sm_fills_send(struct sm_fills *fills, unsigned char value)
{
    if (fills->count == 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status = queue_all(fills, value);
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status recorded = record(fills);
    if (status == SYNCED_MEM_OK)
        return recorded;
    sm_detail_set(&first);
    return status;
}

void sm_fills_end(const struct sm_fills *fills)
{
    sm_replaced_drop(&fills->replaced);
}
