/* Fills of several device copies. */
#include "copy/fills.h"

#include "copy/transfer.h"

#include <stdlib.h>

struct sm_fills *sm_fills_make(struct sm_stream *stream, size_t room)
{
    const size_t bytes = room * sizeof(struct sm_list_entry);
    const bool is_for_kernel = sm_kernel_way_is_open(stream->device, room);
    struct sm_bounce *const buffer = is_for_kernel ? sm_bounce_take(stream->device, NULL, bytes) : NULL;
    struct sm_fills *const fills = malloc(sizeof *fills + (buffer ? 0 : bytes));
    if (!fills) {
        if (buffer)
            sm_bounce_give(buffer, NULL);
        return NULL;
    }
    *fills = (struct sm_fills){.stream = stream, .room = room};
    fills->list = buffer ? sm_bounce_data(buffer) : fills->own;
    if (buffer)
        sm_gather_keep(&fills->gather, buffer);
    fills->kernel.device = stream->device;
    fills->kernel.entries = fills->list;
    fills->kernel.is_buffer = buffer != NULL;
    return fills;
}

void sm_fills_free(struct sm_fills *fills)
{
    if (fills)
        sm_gather_give(&fills->gather, NULL);
    free(fills);
}

/* Queues some fills of the list, each by itself. */
static synced_mem_status queue_each(const struct sm_fills *fills, size_t begin, size_t end, unsigned char value)
{
    const struct sm_stream *const stream = fills->stream;
    for (const struct sm_list_entry *each = &fills->list[begin]; each < &fills->list[end]; each++)
        if (each->bytes > 0)
            SM_TRY(sm_device_fill(stream->device, each->to, value, each->bytes, stream->handle));
    return SYNCED_MEM_OK;
}

static synced_mem_status queue_all(const struct sm_fills *fills, unsigned char value)
{
    const size_t others = fills->count - fills->kernel.count;
    SM_TRY(queue_each(fills, fills->room - others, fills->room, value));
    return queue_each(fills, sm_kernel_list_fill(&fills->kernel, value, fills->stream), fills->kernel.count, value);
}

/* Fills that are queued run even if a later one is refused, so all copies are entered. */
synced_mem_status sm_fills_send(struct sm_fills *fills, unsigned char value)
{
    if (fills->count == 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status = queue_all(fills, value);
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status recorded = sm_transfer_record(fills->stream, &fills->fence, &fills->is_untracked);
    sm_transfer_give_gathered(&fills->gather, fills->fence, fills->is_untracked);
    fills->is_sent = recorded == SYNCED_MEM_OK;
    if (fills->is_sent && fills->fence) {
        sm_fence_hold_often(fills->fence, fills->count);
        sm_fence_drop(fills->fence);
    }
    if (status == SYNCED_MEM_OK)
        return recorded;
    sm_detail_set(&first);
    return status;
}
