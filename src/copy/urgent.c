/* Urgent transfers. */
#include "copy/urgent.h"

#include "base/process.h"
#include "base/status.h"
#include "copy/kernel_list.h"

#include <stdatomic.h>

/* The pieces of the longest copy have about as many bytes as a kernel list takes. */
enum { PIECES = SM_URGENT_MOST_BYTES / SM_KERNEL_MOST_BYTES };

/* The bulk copies of each device and direction. Those of one stream end in order, and most programs queue theirs on
 * one. So the fence of the last one stands for all. */
static struct {
    struct sm_lock lock;
    struct sm_fence *last[SM_MAX_DEVICES][SM_D2D + 1]; /* held */
    atomic_uint staged[SM_MAX_DEVICES][SM_D2D + 1];
} bulk = {.lock = SM_LOCK_INITIALIZER};

static void put_last(int device, enum sm_direction direction, struct sm_fence *fence)
{
    sm_lock(&bulk.lock);
    struct sm_fence *const before = bulk.last[device][direction];
    bulk.last[device][direction] = fence;
    sm_unlock(&bulk.lock);
    sm_fence_drop(before);
}

void sm_bulk_note(int device, enum sm_direction direction, struct sm_fence *fence)
{
    put_last(device, direction, sm_fence_hold(fence));
}

void sm_bulk_begin(int device, enum sm_direction direction)
{
    atomic_fetch_add_explicit(&bulk.staged[device][direction], 1, memory_order_relaxed);
}

void sm_bulk_end(int device, enum sm_direction direction)
{
    atomic_fetch_sub_explicit(&bulk.staged[device][direction], 1, memory_order_relaxed);
}

/* A bulk copy on the same stream comes before the urgent one in any case. */
static bool is_bulk_in_the_way(const struct sm_stream *stream, enum sm_direction direction)
{
    const int device = stream->device;
    if (atomic_load_explicit(&bulk.staged[device][direction], memory_order_relaxed) > 0)
        return true;
    sm_lock(&bulk.lock);
    struct sm_fence *const last = bulk.last[device][direction];
    struct sm_fence *const held = last ? sm_fence_hold(last) : NULL;
    sm_unlock(&bulk.lock);
    const bool is_in_the_way = held && held->stream != stream->serial && sm_fence_poll(held);
    sm_fence_drop(held);
    return is_in_the_way;
}

/* Cuts the copy into as many pieces as one may have, but not into smaller ones than what a warp has in flight. */
static void cut(struct sm_kernel_list *list, char *to, const char *from, size_t size)
{
    enum { LEAST = 2048, ALIGNMENT = 16 };
    const size_t share = (size / PIECES + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    const size_t most = share > LEAST ? share : LEAST;
    for (size_t at = 0; at < size; at += most)
        sm_kernel_list_add(list, to + at, from + at, size - at < most ? size - at : most);
}

bool sm_urgent_send(void *to, const void *from, size_t size, enum sm_direction direction, struct sm_stream *stream,
                    bool *has_room)
{
    struct sm_list_entry entries[PIECES];
    struct sm_kernel_list list = {.entries = entries};
    const struct sm_detail first = sm_detail_get();
    bool is_sent = false;
    if (size == 0 || size > SM_URGENT_MOST_BYTES)
        return false;
    sm_kernel_list_begin(&list, stream, SIZE_MAX);
    if (list.is_open && is_bulk_in_the_way(stream, direction)) {
        cut(&list, to, from, size);
        list.has_room = *has_room;
        is_sent = sm_kernel_list_send_one(&list, stream);
        *has_room = list.has_room;
    }
    sm_detail_set(&first);
    return is_sent;
}

void sm_bulk_shutdown(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        for (enum sm_direction direction = SM_H2D; direction <= SM_D2D; direction++)
            put_last(device, direction, NULL);
}
