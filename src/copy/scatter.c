/* Copies from one buffer to many places on a device. */
#include "copy/scatter.h"

#include "copy/kernel_list.h"
#include "device/device.h"

#include <stdlib.h>

struct row {
    struct sm_list_entry entry;
    void *to;
    const void *from;
    size_t size;
};

bool sm_scatter_begin(struct sm_scatter *scatter)
{
    const size_t room = scatter->room;
    scatter->count = 0;
    scatter->listed = 0;
    scatter->entries = calloc(room, sizeof(struct row));
    if (!scatter->entries)
        return false;
    scatter->to = (void **)(void *)(scatter->entries + room);
    scatter->from = (const void **)(void *)(scatter->to + room);
    scatter->sizes = (size_t *)(void *)(scatter->from + room);
    scatter->by_kernel = scatter->by_kernel && sm_kernel_way_is_open(scatter->stream->device, room);
    return true;
}

/* The kernel copies byte by byte what is not equally aligned. */
static bool is_for_kernel(const void *to, const void *from, size_t size)
{
    enum { ELEMENT = 4, MOST_BYTES = 4096 };
    const bool is_slow = ((uintptr_t)to ^ (uintptr_t)from) % ELEMENT != 0 && size > MOST_BYTES;
    return size <= SM_KERNEL_MOST_BYTES && !is_slow;
}

void sm_scatter_add(struct sm_scatter *scatter, void *to, const void *from, size_t size, bool own)
{
    const struct sm_list_entry entry = {.to = to, .from = from, .bytes = size};
    if (scatter->by_kernel && own && is_for_kernel(to, from, size))
        scatter->entries[scatter->listed++] = entry;
    else
        scatter->entries[scatter->room - ++scatter->count] = entry;
}

/* Returns how many of the listed copies are queued. */
static size_t send_list(const struct sm_scatter *scatter)
{
    struct sm_kernel_list list = {.entries = scatter->entries};
    sm_kernel_list_open(&list, scatter->stream->device);
    for (size_t i = 0; i < scatter->listed; i++) {
        list.bytes += scatter->entries[i].bytes;
        if (scatter->entries[i].bytes > list.longest)
            list.longest = scatter->entries[i].bytes;
    }
    list.count = scatter->listed;
    return sm_kernel_list_send(&list, SM_H2D, scatter->stream);
}

/* Queues the copy, or has the engines' batch take it. */
static synced_mem_status queue_by_engine(struct sm_scatter *scatter, const struct sm_list_entry *copy, size_t *batched)
{
    const struct sm_stream *const stream = scatter->stream;
    if (!sm_device_has_batches(stream->handle) || !sm_device_batch_takes(copy->from, copy->bytes, true))
        return sm_device_copy_h2d(stream->device, copy->to, copy->from, copy->bytes, stream->handle);
    scatter->to[*batched] = copy->to;
    scatter->from[*batched] = copy->from;
    scatter->sizes[(*batched)++] = copy->bytes;
    return SYNCED_MEM_OK;
}

static synced_mem_status queue_copies(struct sm_scatter *scatter)
{
    const struct sm_stream *const stream = scatter->stream;
    const size_t sent = scatter->listed > 0 ? send_list(scatter) : 0;
    size_t batched = 0;
    for (size_t i = sent; i < scatter->listed; i++)
        SM_TRY(queue_by_engine(scatter, &scatter->entries[i], &batched));
    for (size_t i = scatter->room - scatter->count; i < scatter->room; i++)
        SM_TRY(queue_by_engine(scatter, &scatter->entries[i], &batched));
    if (batched == 0)
        return SYNCED_MEM_OK;
    return sm_device_copy_batch(stream->device, scatter->to, scatter->from, scatter->sizes, batched, true,
                                stream->handle);
}

synced_mem_status sm_scatter_end(struct sm_scatter *scatter)
{
    const synced_mem_status status = queue_copies(scatter);
    free(scatter->entries);
    scatter->entries = NULL;
    return status;
}
