/* The copies of a batch that a kernel makes. */
#include "copy/kernel_list.h"

#include "base/stats.h"
#include "base/status.h"
#include "copy/bounce.h"
#include "copy/kernel_start.h"

#include <string.h>

/* The most entries of one kernel, which limits the memory of its list. */
enum { MOST_ENTRIES = 1 << 15 };

void sm_kernel_list_begin(struct sm_kernel_list *list, const struct sm_stream *stream, size_t copies)
{
    list->is_open = stream->kind != SM_STREAM_INTERNAL && sm_kernel_way_is_open(stream->device, copies);
    if (list->is_open)
        sm_kernel_start_look(stream->device);
}

/* Gives the list's memory back behind the kernel. */
static void give_memory(struct sm_bounce *memory, struct sm_stream *stream)
{
    struct sm_fence *fence = NULL;
    if (sm_stream_record(stream, &fence) != SYNCED_MEM_OK) {
        const synced_mem_status waited = sm_device_stream_sync(stream->device, stream->handle);
        if (waited != SYNCED_MEM_OK && waited != SYNCED_MEM_ERR_DEVICE_LOST) {
            sm_bounce_lose(memory);
            return;
        }
    }
    sm_bounce_give(memory, fence);
    sm_fence_drop(fence);
}

/* Queues a kernel. Returns whether it is queued. */
static bool launch_kernel(const struct sm_list_entry *entries, size_t count, unsigned blocks, struct sm_stream *stream)
{
    struct sm_list_job job;
    struct sm_bounce *memory = NULL;
    job.count = (unsigned)count;
    job.value = -1;
    job.list = NULL;
    if (count <= SM_FEW_ENTRIES) {
        memcpy(job.few, entries, count * sizeof *entries);
    } else {
        memory = sm_bounce_take(stream->device, entries, count * sizeof *entries);
        if (!memory)
            return false;
        job.list = sm_bounce_data(memory);
    }
    job.started = sm_kernel_start_begin(stream);
    const bool queued = sm_device_run_list(stream->device, &job, blocks, stream->handle) == SYNCED_MEM_OK;
    if (job.started)
        sm_kernel_start_end(stream->device, queued);
    if (memory && queued)
        give_memory(memory, stream);
    else if (memory)
        sm_bounce_give(memory, NULL);
    return queued;
}

size_t sm_kernel_list_send(const struct sm_kernel_list *list, enum sm_direction direction, struct sm_stream *stream)
{
    const unsigned blocks =
        list->count > 0 ? sm_kernel_way_blocks(stream->device, direction, list->count, list->bytes) : 0;
    size_t queued = 0;
    if (blocks == 0)
        return 0;
    const struct sm_detail first = sm_detail_get();
    for (size_t some = 1; some > 0 && queued < list->count; queued += some) {
        some = list->count - queued < MOST_ENTRIES ? list->count - queued : MOST_ENTRIES;
        if (!launch_kernel(list->entries + queued, some, blocks, stream))
            some = 0;
    }
    sm_detail_set(&first);
    sm_count_up(SM_COUNT_kernel_copies, queued);
    return queued;
}
