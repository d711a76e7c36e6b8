/* Batches of copies. */
#include "copy/batch.h"

#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

/* The most targets that one target is compared with. */
enum { MOST_COMPARED = 64 };

void sm_batch_open(struct sm_batch *batch, const struct sm_stream *stream)
{
    batch->has_failed = false;
    batch->is_open = !sm_trace_on() && batch->direction != SM_D2D && sm_device_has_batches(stream->handle);
    sm_kernel_list_begin(&batch->list, stream, batch->is_async ? batch->room : 0);
    batch->list.keeper = &batch->gather;
}

static bool overlaps(uintptr_t from, uintptr_t to, const void *target, size_t size)
{
    const uintptr_t other = (uintptr_t)target;
    return from < other + size && other < to;
}

/* Compares a target with the batch's targets. The caller may give one memory to several objects, also memory that the
 * library has obtained for another object. Two targets in the library's memory do not overlap. */
static bool may_overlap(const struct sm_batch *batch, uintptr_t from, uintptr_t to, bool of_user)
{
    const struct sm_kernel_list *const list = &batch->list;
    if (sm_batch_is_apart(batch, true, from, to) && (!of_user || sm_batch_is_apart(batch, false, from, to)))
        return false;
    bool found = sm_batch_count(batch) > MOST_COMPARED;
    for (size_t i = 0; i < batch->count && !found; i++)
        found = overlaps(from, to, batch->to[i], batch->sizes[i]);
    for (size_t i = 0; i < list->count && !found; i++)
        found = overlaps(from, to, list->entries[i].to, list->entries[i].bytes);
    return found;
}

static bool lies_behind(const struct sm_batch_copy *copy, const void *to, const void *from, size_t size)
{
    return (const char *)to + size == copy->to && (const char *)from + size == copy->from;
}

/* A copy that has become too large for a kernel goes by engine. */
static bool extend_last_listed(struct sm_batch *batch, struct sm_batch_copy copy)
{
    struct sm_kernel_list *const list = &batch->list;
    struct sm_list_entry *const last = &list->entries[list->count - 1];
    const size_t size = last->bytes + copy.size;
    if (!lies_behind(&copy, last->to, last->from, last->bytes))
        return false;
    if (sm_kernel_list_takes(list, size)) {
        sm_kernel_list_extend(list, copy.size);
        return true;
    }
    if (!sm_batch_takes(batch, batch->direction == SM_H2D ? last->from : last->to, size, true))
        return false;
    sm_batch_add(batch, last->to, last->from, size);
    list->bytes -= last->bytes;
    list->count--;
    batch->last_is_listed = false;
    return true;
}

/* Returns false: the copy does not lie behind the last one on both sides, or the runtime needs a copy for each. */
bool sm_batch_extend_last(struct sm_batch *batch, struct sm_batch_copy copy)
{
    if (batch->last_is_listed)
        return extend_last_listed(batch, copy);
    const size_t last = batch->count - 1;
    const size_t size = batch->sizes[last];
    if (!lies_behind(&copy, batch->to[last], batch->from[last], size))
        return false;
    const void *const host = batch->direction == SM_H2D ? batch->from[last] : batch->to[last];
    if (!sm_batch_takes(batch, host, size + copy.size, true))
        return false;
    batch->sizes[last] += copy.size;
    return true;
}

synced_mem_status sm_batch_make_way(struct sm_batch *batch, struct sm_stream *stream, struct sm_batch_copy copy)
{
    const uintptr_t begin = (uintptr_t)copy.to;
    if (sm_batch_count(batch) == batch->room || may_overlap(batch, begin, begin + copy.size, copy.of_user))
        return sm_batch_send(batch, stream);
    return SYNCED_MEM_OK;
}

void sm_batch_empty(struct sm_batch *batch)
{
    batch->count = 0;
    sm_kernel_list_empty(&batch->list);
    batch->memory = NULL;
    batch->ranges[false] = batch->ranges[true] = (struct sm_target_range){.low = 0};
}

static synced_mem_status queue_one(const struct sm_list_entry *copy, enum sm_direction direction,
                                   const struct sm_stream *stream)
{
    synced_mem_status (*const queue[])(int, void *, const void *, size_t, synced_mem_stream) = {
        [SM_H2D] = sm_device_copy_h2d, [SM_D2H] = sm_device_copy_d2h, [SM_D2D] = sm_device_copy_d2d};
    return queue[direction](stream->device, copy->to, copy->from, copy->bytes, stream->handle);
}

static void count_transfers(const struct sm_batch *batch, size_t count, uint64_t bytes)
{
    const bool up = batch->direction == SM_H2D;
    if (batch->direction == SM_D2D)
        return;
    sm_count_up(up ? SM_COUNT_h2d_transfers : SM_COUNT_d2h_transfers, count);
    sm_count_up(up ? SM_COUNT_h2d_bytes : SM_COUNT_d2h_bytes, bytes);
}

/* Copies that no kernel makes join those by engines, or are queued alone. */
static synced_mem_status send_listed(struct sm_batch *batch, struct sm_stream *stream)
{
    struct sm_kernel_list *const list = &batch->list;
    const bool up = batch->direction == SM_H2D;
    const size_t joined_before = batch->count;
    uint64_t bytes = list->bytes;
    sm_gather_fill(&batch->gather);
    if (list->count == 0)
        return SYNCED_MEM_OK;
    for (size_t i = sm_kernel_list_send(list, batch->direction, stream); i < list->count; i++) {
        const struct sm_list_entry *const copy = &list->entries[i];
        if (!sm_batch_takes(batch, up ? copy->from : copy->to, copy->bytes, true)) {
            SM_TRY(queue_one(copy, batch->direction, stream));
            continue;
        }
        sm_batch_add(batch, copy->to, copy->from, copy->bytes);
        bytes -= copy->bytes;
    }
    count_transfers(batch, list->count - (batch->count - joined_before), bytes);
    sm_kernel_list_empty(list);
    batch->memory = NULL;
    return SYNCED_MEM_OK;
}

static synced_mem_status note_failure(struct sm_batch *batch, synced_mem_status status)
{
    batch->has_failed = batch->has_failed || status != SYNCED_MEM_OK;
    return status;
}

synced_mem_status sm_batch_send_list(struct sm_batch *batch, struct sm_stream *stream)
{
    const synced_mem_status status = note_failure(batch, send_listed(batch, stream));
    if (status != SYNCED_MEM_OK)
        sm_batch_empty(batch);
    return status;
}

static synced_mem_status send_to_engines(struct sm_batch *batch, const struct sm_stream *stream)
{
    uint64_t bytes = 0;
    if (batch->count == 0)
        return SYNCED_MEM_OK;
    SM_TRY(sm_device_copy_batch(stream->device, batch->to, batch->from, batch->sizes, batch->count,
                                batch->direction == SM_H2D, stream->handle));
    for (size_t i = 0; i < batch->count; i++)
        bytes += batch->sizes[i];
    count_transfers(batch, batch->count, bytes);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_batch_send(struct sm_batch *batch, struct sm_stream *stream)
{
    synced_mem_status status = sm_batch_send_list(batch, stream);
    if (status == SYNCED_MEM_OK)
        status = note_failure(batch, send_to_engines(batch, stream));
    sm_batch_empty(batch);
    return status;
}
