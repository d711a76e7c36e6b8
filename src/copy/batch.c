/* Batches of copies. */
#include "copy/batch.h"

#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

/* The most targets that one target is compared with. */
enum { MOST_COMPARED = 64 };

static bool is_apart(const struct sm_target_range *range, uintptr_t from, uintptr_t to)
{
    return from >= range->high || to <= range->low;
}

void sm_batch_begin(struct sm_batch *batch, const struct sm_stream *stream)
{
    batch->is_open = batch->room > 0 && !sm_trace_on() && sm_device_has_batches(stream->handle);
}

/* Compares a target with the batch's targets. The caller may give one memory to several objects, also memory that the
 * library has obtained for another object. Two targets in the library's memory do not overlap. */
static bool may_overlap(const struct sm_batch *batch, uintptr_t from, uintptr_t to, bool of_user)
{
    if (is_apart(&batch->ranges[true], from, to) && (!of_user || is_apart(&batch->ranges[false], from, to)))
        return false;
    bool overlaps = batch->count > MOST_COMPARED;
    for (size_t i = 0; i < batch->count && !overlaps; i++) {
        const uintptr_t other = (uintptr_t)batch->to[i];
        overlaps = from < other + batch->sizes[i] && other < to;
    }
    return overlaps;
}

static void extend_range(struct sm_target_range *range, uintptr_t from, uintptr_t to)
{
    if (range->high == 0 || from < range->low)
        range->low = from;
    if (to > range->high)
        range->high = to;
}

/* Extends the last copy by one that lies behind it on both sides. Returns false: it does not, or the runtime needs a
 * copy for each. */
static bool extend_last_copy(struct sm_batch *batch, const struct sm_batch_copy *copy)
{
    const size_t last = batch->count - 1;
    const size_t size = batch->sizes[last];
    if ((char *)batch->to[last] + size != copy->to || (const char *)batch->from[last] + size != copy->from)
        return false;
    const void *const host = batch->direction == SM_H2D ? batch->from[last] : batch->to[last];
    if (!sm_batch_takes(batch, host, size + copy->size, true))
        return false;
    batch->sizes[last] += copy->size;
    return true;
}

synced_mem_status sm_batch_collect(struct sm_batch *batch, const struct sm_stream *stream,
                                   const struct sm_batch_copy *copy)
{
    const uintptr_t begin = (uintptr_t)copy->to;
    if (batch->count == batch->room || may_overlap(batch, begin, begin + copy->size, copy->of_user))
        SM_TRY(sm_batch_send(batch, stream));
    extend_range(&batch->ranges[copy->of_user], begin, begin + copy->size);
    if (batch->memory && batch->memory == copy->memory && extend_last_copy(batch, copy))
        return SYNCED_MEM_OK;
    batch->to[batch->count] = copy->to;
    batch->from[batch->count] = copy->from;
    batch->sizes[batch->count++] = copy->size;
    batch->memory = copy->memory;
    return SYNCED_MEM_OK;
}

static void count_transfers(const struct sm_batch *batch)
{
    const bool up = batch->direction == SM_H2D;
    uint64_t bytes = 0;
    for (size_t i = 0; i < batch->count; i++)
        bytes += batch->sizes[i];
    sm_count_up(up ? SM_COUNT_h2d_transfers : SM_COUNT_d2h_transfers, batch->count);
    sm_count_up(up ? SM_COUNT_h2d_bytes : SM_COUNT_d2h_bytes, bytes);
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
    const synced_mem_status status = sm_device_copy_batch(stream->device, batch->to, batch->from, batch->sizes,
                                                          batch->count, batch->direction == SM_H2D, stream->handle);
    if (status == SYNCED_MEM_OK)
        count_transfers(batch);
    sm_batch_empty(batch);
    return status;
}
