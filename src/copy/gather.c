/* Gathered sources. */
#include "copy/gather.h"

#include <stdint.h>
#include <string.h>

/* The alignment of a kernel's elements, and the bytes of the first buffer and of the largest. */
enum { ELEMENT = 16, FIRST = 64 << 10, MOST = 1 << 20 };

static struct sm_bounce **get_link(const struct sm_bounce *buffer)
{
    return sm_bounce_data(buffer);
}

static size_t get_gap(const struct sm_gather *gather, const void *to)
{
    return ((uintptr_t)to - gather->used) % ELEMENT;
}

/* Each buffer has twice the room of the one before it, but no more than as many sources of the size may need. */
static size_t choose_room(const struct sm_gather *gather, size_t size, size_t count)
{
    const size_t each = size + 2 * ELEMENT;
    const size_t doubled = gather->room == 0 ? FIRST : 2 * gather->room > MOST ? MOST : 2 * gather->room;
    const size_t most = count < doubled / each ? count * each : doubled;
    return most < each ? each : most;
}

static bool take_buffer(struct sm_gather *gather, int device, size_t room)
{
    struct sm_bounce *const buffer = sm_bounce_take(device, NULL, room);
    if (!buffer)
        return false;
    *get_link(buffer) = gather->last;
    *gather = (struct sm_gather){.last = buffer, .used = ELEMENT, .room = room};
    return true;
}

const void *sm_gather_add(struct sm_gather *gather, int device, const void *to, const void *source, size_t size,
                          size_t count)
{
    if (gather->used + get_gap(gather, to) + size > gather->room &&
        !take_buffer(gather, device, choose_room(gather, size, count)))
        return NULL;
    char *const place = (char *)sm_bounce_data(gather->last) + gather->used + get_gap(gather, to);
    gather->used += get_gap(gather, to) + size;
    return memcpy(place, source, size);
}

/* Takes the last buffer off the list. */
static struct sm_bounce *remove_last(struct sm_gather *gather)
{
    struct sm_bounce *const buffer = gather->last;
    *gather = (struct sm_gather){.last = *get_link(buffer)};
    return buffer;
}

void sm_gather_give(struct sm_gather *gather, struct sm_fence *fence)
{
    while (gather->last)
        sm_bounce_give(remove_last(gather), fence);
}

void sm_gather_lose(struct sm_gather *gather)
{
    while (gather->last)
        sm_bounce_lose(remove_last(gather));
}
