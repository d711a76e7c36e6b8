/* Gathered sources. */
#include "copy/gather.h"

#include "base/copy_threads.h"
#include "base/mutex.h"
#include "copy/staging.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The alignment of a kernel's elements, and the bytes of the first buffer and of the largest. */
enum { ELEMENT = 16, FIRST = 64 << 10, MOST = 1 << 20 };
/* One thread takes longer for LEAST_SHARED bytes than others take to wake up. It takes some pieces at once, and polls
 * for the last ones of the others some 20 microseconds before it sleeps. */
enum { LEAST_SHARED = 512 << 10, AT_ONCE = 16, POLLS = 400 };

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
    *sm_bounce_link(buffer) = gather->last;
    gather->last = buffer;
    gather->used = 0;
    gather->room = room;
    return true;
}

void *sm_gather_place(struct sm_gather *gather, int device, const void *to, size_t size, size_t count)
{
    if (gather->used + get_gap(gather, to) + size > gather->room &&
        !take_buffer(gather, device, choose_room(gather, size, count)))
        return NULL;
    char *const place = (char *)sm_bounce_data(gather->last) + gather->used + get_gap(gather, to);
    gather->used += get_gap(gather, to) + size;
    return place;
}

/* Puts it below the last buffer, which may have room. */
void sm_gather_keep(struct sm_gather *gather, struct sm_bounce *buffer)
{
    struct sm_bounce **const link = gather->last ? sm_bounce_link(gather->last) : &gather->last;
    *sm_bounce_link(buffer) = *link;
    *link = buffer;
}

/* ---- Copies by several threads ---- */

/* A thread that looks for a piece late finds none left, maybe after the call has returned. */
struct filling {
    struct sm_task task;
    const struct sm_gather_piece *pieces; /* the call's */
    size_t count;
    atomic_size_t taken; /* pieces, and more once none is left */
    atomic_size_t left;  /* pieces that are not copied yet */
    struct sm_events done;
};

static void copy_pieces(const struct sm_gather_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(pieces[i].to, pieces[i].from, pieces[i].size);
}

static void work_on_filling(struct sm_task *task)
{
    struct filling *const filling = (struct filling *)(void *)((char *)task - offsetof(struct filling, task));
    for (;;) {
        const size_t first = atomic_fetch_add(&filling->taken, AT_ONCE);
        if (first >= filling->count)
            return;
        const size_t count = filling->count - first < AT_ONCE ? filling->count - first : AT_ONCE;
        copy_pieces(filling->pieces + first, count);
        if (atomic_fetch_sub(&filling->left, count) == count)
            sm_events_add(&filling->done);
    }
}

static void free_filling(struct sm_task *task)
{
    free((char *)task - offsetof(struct filling, task));
}

static void wait_for_others(struct filling *filling)
{
    for (int i = 0; i < POLLS && atomic_load(&filling->left) > 0; i++)
        sm_pause();
    unsigned seen = sm_events_seen(&filling->done);
    while (atomic_load(&filling->left) > 0) {
        sm_events_wait(&filling->done, seen);
        seen = sm_events_seen(&filling->done);
    }
}

/* Returns false: there is no host memory. */
static bool fill_together(const struct sm_gather *gather)
{
    struct filling *const filling = calloc(1, sizeof *filling);
    if (!filling)
        return false;
    filling->task = (struct sm_task){.work = work_on_filling, .free = free_filling};
    atomic_init(&filling->task.holders, 1);
    filling->pieces = gather->pieces;
    filling->count = gather->count;
    atomic_init(&filling->left, gather->count);
    sm_copy_threads_add(&filling->task, true, sm_staging_threads());
    sm_copy_threads_wake();
    work_on_filling(&filling->task);
    sm_copy_threads_remove(&filling->task);
    wait_for_others(filling);
    sm_task_drop(&filling->task);
    return true;
}

void sm_gather_fill(struct sm_gather *gather)
{
    const bool shares = gather->bytes >= LEAST_SHARED && gather->count > AT_ONCE && sm_staging_threads() > 0;
    if (!shares || !fill_together(gather))
        copy_pieces(gather->pieces, gather->count);
    gather->count = 0;
    gather->bytes = 0;
}

/* ---- The end ---- */

/* Takes the last buffer off the list. */
static struct sm_bounce *remove_last(struct sm_gather *gather)
{
    struct sm_bounce *const buffer = gather->last;
    gather->last = *sm_bounce_link(buffer);
    *sm_bounce_link(buffer) = NULL;
    return buffer;
}

/* Empties the rest. There is no buffer any more, and the next one has more room than the last one had. */
static void begin_anew(struct sm_gather *gather)
{
    *gather = (struct sm_gather){.pieces = gather->pieces, .used = gather->room, .room = gather->room};
}

void sm_gather_give(struct sm_gather *gather, struct sm_fence *fence)
{
    while (gather->last)
        sm_bounce_give(remove_last(gather), fence);
    begin_anew(gather);
}

void sm_gather_lose(struct sm_gather *gather)
{
    while (gather->last)
        sm_bounce_lose(remove_last(gather));
    begin_anew(gather);
}
