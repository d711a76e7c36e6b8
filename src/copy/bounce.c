/* Bounce buffers. */
#include "copy/bounce.h"

#include "base/hands.h"
#include "memory/pinned/host_pool.h"
#include "base/process.h"
#include "base/status.h"
#include "copy/staging.h"
#include "base/stats.h"

#include <stdint.h>
#include <string.h>

/* The bytes of all buffers in flight are limited to so many staging buffers. Otherwise each push of a program that
 * never waits for its stream would take another buffer. By default 10,000 objects of 4 KiB find room. */
enum { MOST_IN_FLIGHT = 24 };
enum { MOST_STREAMS = 32, ALIGNMENT = 16 };

/* The struct of a buffer. It lies behind the bytes, in the buffer itself. */
struct sm_bounce {
    void *data;
    size_t bytes; /* of the buffer, with this struct */
    void *block;  /* the pool's */
    struct sm_fence *fence;
    struct sm_bounce *next; /* the next buffer that was given back on the same stream; before that, the taker's link */
    /* Valid in the first buffer on its stream: */
    struct sm_bounce *last;
    struct sm_bounce *other; /* the first buffer on another stream */
    uint64_t listed_at;      /* the stream's place in the order in which streams were listed */
};

/* The buffers with work in flight, by stream. Work on a stream ends in order, so only the first buffer of each stream
 * is polled. A stream goes to the end of the list of streams with its first buffer. */
static struct {
    struct sm_lock lock;
    struct sm_bounce *first;
    atomic_uint count;
    uint64_t times;      /* counts how often a stream was listed */
    unsigned generation; /* of the process in which the buffers were given back */
} used = {.lock = SM_LOCK_INITIALIZER};

static atomic_size_t in_flight; /* bytes of buffers that are taken and not yet back in the pool */

static size_t round_to_alignment(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *sm_bounce_data(const struct sm_bounce *bounce)
{
    return bounce->data;
}

struct sm_bounce **sm_bounce_link(struct sm_bounce *bounce)
{
    return &bounce->next;
}

static void count_bytes_out(size_t bytes)
{
    atomic_fetch_sub_explicit(&in_flight, bytes, memory_order_relaxed);
}

/* Counts the bytes if the limit allows. Returns whether it does. */
static bool count_bytes_in(size_t bytes)
{
    if (atomic_fetch_add_explicit(&in_flight, bytes, memory_order_relaxed) + bytes <=
        MOST_IN_FLIGHT * sm_staging_buffer())
        return true;
    count_bytes_out(bytes);
    return false;
}

static void free_bounce_buffer(struct sm_bounce *bounce)
{
    const size_t bytes = bounce->bytes;
    sm_fence_drop(bounce->fence);
    sm_host_pool_free(bounce->data, bytes, bounce->block);
    count_bytes_out(bytes);
}

void sm_bounce_lose(struct sm_bounce *bounce)
{
    count_bytes_out(bounce->bytes);
    sm_count_up(SM_COUNT_quarantined, 1);
}

/* ---- With the list locked ---- */

/* Empties the list in a forked child, which knows nothing of its parent's work. */
static void forget_parent_buffers(void)
{
    if (used.generation == sm_process_generation())
        return;
    used.generation = sm_process_generation();
    used.first = NULL;
    atomic_store_explicit(&used.count, 0, memory_order_relaxed);
}

static void append_buffer(struct sm_bounce *bounce)
{
    struct sm_bounce **link = &used.first;
    while (*link && (*link)->fence->stream != bounce->fence->stream)
        link = &(*link)->other;
    struct sm_bounce *const first = *link;
    if (first) {
        first->last->next = bounce;
        first->last = bounce;
    } else {
        bounce->last = bounce;
        bounce->listed_at = ++used.times;
        *link = bounce;
    }
    atomic_fetch_add_explicit(&used.count, 1, memory_order_relaxed);
}

static struct sm_bounce *take_ended_buffers(void)
{
    struct sm_bounce *ended = NULL;
    struct sm_bounce **link = &used.first;
    while (*link) {
        struct sm_bounce *const first = *link;
        if (sm_fence_is_open(first->fence)) {
            link = &first->other;
            continue;
        }
        struct sm_bounce *const second = first->next;
        if (second) {
            second->last = first->last;
            second->other = first->other;
            second->listed_at = first->listed_at;
        }
        *link = second ? second : first->other;
        first->next = ended;
        ended = first;
        atomic_fetch_sub_explicit(&used.count, 1, memory_order_relaxed);
    }
    return ended;
}

/* The next few streams that were listed after one time and up to another, the earliest first. */
struct fence_set {
    uint64_t after;
    uint64_t up_to;
    unsigned count;
    unsigned buffers;                      /* of all streams together */
    struct sm_fence *fences[MOST_STREAMS]; /* of the first or the last buffer of each stream, held */
};

/* ---- Functions for other files ---- */

/* Locks the list and fills in the fences. Returns when the last of these streams was listed. */
static uint64_t lock_and_hold_fences(struct fence_set *fence_set, bool lasts)
{
    uint64_t last = fence_set->up_to;
    sm_lock(&used.lock);
    forget_parent_buffers();
    fence_set->count = 0;
    fence_set->buffers = atomic_load_explicit(&used.count, memory_order_relaxed);
    for (const struct sm_bounce *first = used.first; first && fence_set->count < MOST_STREAMS; first = first->other) {
        if (first->listed_at <= fence_set->after || first->listed_at > fence_set->up_to)
            continue;
        last = first->listed_at;
        fence_set->fences[fence_set->count++] = sm_fence_hold(lasts ? first->last->fence : first->fence);
    }
    sm_unlock(&used.lock);
    return fence_set->count == MOST_STREAMS ? last : fence_set->up_to;
}

void sm_bounce_give(struct sm_bounce *bounce, struct sm_fence *fence)
{
    if (!fence) {
        free_bounce_buffer(bounce);
        return;
    }
    bounce->fence = sm_fence_hold(fence);
    sm_lock(&used.lock);
    forget_parent_buffers();
    append_buffer(bounce);
    sm_unlock(&used.lock);
}

static void free_ended_buffers(void)
{
    sm_hands_fill();
    sm_lock(&used.lock);
    struct sm_bounce *bounce = take_ended_buffers();
    sm_unlock(&used.lock);
    while (bounce) {
        struct sm_bounce *const next = bounce->next;
        free_bounce_buffer(bounce);
        bounce = next;
    }
    sm_hands_empty(true);
}

/* Polls or waits for the fences, and drops them. Returns whether any work has ended. Work on a lost device has. */
static bool poll_or_wait_fences(const struct fence_set *fence_set, bool wait, struct sm_outcome *first)
{
    bool any = false;
    for (unsigned i = 0; i < fence_set->count; i++) {
        struct sm_fence *const fence = fence_set->fences[i];
        const synced_mem_status waited = wait ? sm_fence_wait(fence) : SYNCED_MEM_OK;
        const bool ended = !sm_fence_poll(fence);
        any = any || ended;
        sm_fence_drop(fence);
        if (first && first->status == SYNCED_MEM_OK)
            sm_outcome_set(first, ended ? SYNCED_MEM_OK : waited);
    }
    return any;
}

static uint64_t get_times_listed(void)
{
    sm_lock(&used.lock);
    const uint64_t times = used.times;
    sm_unlock(&used.lock);
    return times;
}

/* Waits for the last buffer of each stream at its turn; if not lasts, for the first. Other threads may add buffers and
 * streams without end. So each stream that was listed until up_to is waited for once. */
static void wait_for_all_buffers(bool lasts, uint64_t up_to, struct sm_outcome *first)
{
    struct fence_set fence_set = {.up_to = up_to};
    while (fence_set.after < fence_set.up_to) {
        fence_set.after = lock_and_hold_fences(&fence_set, lasts);
        (void)poll_or_wait_fences(&fence_set, true, first);
    }
}

/* Gives back the buffers whose work has ended. A stream is polled again while its buffers end, but at most once for
 * each buffer. */
static void free_all_ended_buffers(void)
{
    struct fence_set fence_set = {.up_to = get_times_listed()};
    while (fence_set.after < fence_set.up_to) {
        uint64_t last = lock_and_hold_fences(&fence_set, false);
        unsigned left = fence_set.buffers;
        while (poll_or_wait_fences(&fence_set, false, NULL) && left-- > 0) {
            free_ended_buffers();
            last = lock_and_hold_fences(&fence_set, false);
        }
        fence_set.after = last;
    }
}

struct sm_bounce *sm_bounce_take(int device, const void *source, size_t size)
{
    struct sm_pinned memory;
    const size_t bytes = round_to_alignment(size) + sizeof(struct sm_bounce);
    if (!count_bytes_in(bytes)) {
        free_all_ended_buffers();
        if (!count_bytes_in(bytes))
            return NULL;
    }
    if (sm_host_pool_alloc(device, bytes, &memory) != SYNCED_MEM_OK) {
        count_bytes_out(bytes);
        return NULL;
    }
    struct sm_bounce *const bounce = (struct sm_bounce *)(void *)((char *)memory.data + round_to_alignment(size));
    *bounce = (struct sm_bounce){.data = memory.data, .bytes = bytes, .block = memory.block};
    if (source)
        memcpy(bounce->data, source, size);
    return bounce;
}

bool sm_bounce_any(void)
{
    return atomic_load_explicit(&used.count, memory_order_relaxed) > 0;
}

synced_mem_status sm_bounce_reap(bool wait)
{
    if (!sm_bounce_any())
        return SYNCED_MEM_OK;
    struct sm_outcome first;
    sm_outcome_set(&first, SYNCED_MEM_OK);
    const uint64_t up_to = get_times_listed();
    if (wait)
        wait_for_all_buffers(true, up_to, &first);
    free_all_ended_buffers();
    if (wait && first.status == SYNCED_MEM_OK && sm_bounce_any()) { /* a poll has failed, or there are later buffers */
        wait_for_all_buffers(false, up_to, &first);
        free_all_ended_buffers();
    }
    return sm_outcome_end(&first);
}
