/* Batches of copies. */
#include "copy/batch.h"

#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

/* The most targets that one target is compared with. */
enum { MOST_COMPARED = 64 };

void sm_batch_begin(struct sm_batch *batch, const struct sm_stream *stream)
{
    batch->is_open = batch->room > 0 && !sm_trace_on() && sm_device_has_batches(stream->handle);
}

/* Compares a target with the batch's targets. The caller may give one memory to several objects, also memory that the
 * library has obtained for another object. Two targets in the library's memory do not overlap. */
static bool may_overlap(const struct sm_batch *batch, uintptr_t from, uintptr_t to, bool of_user)
{
    if (sm_batch_is_apart(batch, true, from, to) && (!of_user || sm_batch_is_apart(batch, false, from, to)))
        return false;
    bool overlaps = batch->count > MOST_COMPARED;
    for (size_t i = 0; i < batch->count && !overlaps; i++) {
        const uintptr_t other = (uintptr_t)batch->to[i];
        overlaps = from < other + batch->sizes[i] && other < to;
    }
    return overlaps;
}

/* Returns false: the copy does not lie behind the last one on both sides, or the runtime needs a copy for each. */
bool sm_batch_extend_last(struct sm_batch *batch, struct sm_batch_copy copy)
{
    const size_t last = batch->count - 1;
    const size_t size = batch->sizes[last];
    if ((char *)batch->to[last] + size != copy.to || (const char *)batch->from[last] + size != copy.from)
        return false;
    const void *const host = batch->direction == SM_H2D ? batch->from[last] : batch->to[last];
    if (!sm_batch_takes(batch, host, size + copy.size, true))
        return false;
    batch->sizes[last] += copy.size;
    return true;
}

synced_mem_status sm_batch_make_way(struct sm_batch *batch, const struct sm_stream *stream, struct sm_batch_copy copy)
{
    const uintptr_t begin = (uintptr_t)copy.to;
    if (batch->count == batch->room || may_overlap(batch, begin, begin + copy.size, copy.of_user))
        return sm_batch_send(batch, stream);
    return SYNCED_MEM_OK;
}

void sm_batch_empty(struct sm_batch *batch)
{
    batch->count = 0;
    batch->memory = NULL;
    batch->ranges[false] = batch->ranges[true] = (struct sm_target_range){.low = 0};
}

synced_mem_status sm_batch_send(struct sm_batch *batch, const struct sm_stream *stream)
{
    if (batch->count == 0)
        return SYNCED_MEM_OK;
    const bool up = batch->direction == SM_H2D;
    const synced_mem_status status =
        sm_device_copy_batch(stream->device, batch->to, batch->from, batch->sizes, batch->count, up, stream->handle);
    if (status == SYNCED_MEM_OK) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < batch->count; i++)
            bytes += batch->sizes[i];
        sm_count_up(up ? SM_COUNT_h2d_transfers : SM_COUNT_d2h_transfers, batch->count);
        sm_count_up(up ? SM_COUNT_h2d_bytes : SM_COUNT_d2h_bytes, bytes);
    }
    sm_batch_empty(batch);
    return status;
}
