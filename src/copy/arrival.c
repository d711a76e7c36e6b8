/* Small pulls into pageable memory. */
#include "copy/arrival.h"

#include "base/mutex.h"
#include "base/status.h"
#include "copy/bounce.h"
#include "stream/stream.h"
#include "system/prefetch.h"
#include "system/streaming.h"

#include <stdlib.h>
#include <string.h>

struct sm_arrival {
    struct sm_fence fence;
    struct sm_host_work work;
    struct sm_fence *transferred;
    struct sm_bounce *bounce;
    void *to;
    size_t size;
    bool is_awaited;
    atomic_flag is_taken; /* a thread copies the bytes, or has given them up */
    struct sm_events ended;
};

static struct sm_arrival *get_arrival(struct sm_host_work *work)
{
    return (struct sm_arrival *)(void *)((char *)work - offsetof(struct sm_arrival, work));
}

/* The bytes come from memory that the device has just written, and are in no cache. From this size on it is faster to
 * leave the target out of the caches too, unless a thread that waits reads it into them. */
enum { LEAST_STREAMED = 32768 };

static void copy_to_place(const struct sm_arrival *arrival)
{
    const void *const from = sm_bounce_data(arrival->bounce);
    if (arrival->is_awaited || arrival->size < LEAST_STREAMED)
        memcpy(arrival->to, from, arrival->size);
    else
        sm_copy_streaming(arrival->to, from, arrival->size);
}

/* The device's part is over. */
static void end_arrival_once(struct sm_arrival *arrival, bool lost)
{
    if (atomic_flag_test_and_set(&arrival->is_taken))
        return;
    if (!lost)
        copy_to_place(arrival);
    sm_bounce_give(arrival->bounce, NULL);
    sm_fence_close(&arrival->fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, false);
    sm_events_add(&arrival->ended);
}

/* If the wait fails, and the device may still be at work, the arrival is as before. */
static synced_mem_status finish_arrival(struct sm_host_work *work, const struct sm_fence *fence)
{
    struct sm_arrival *const arrival = get_arrival(work);
    if (arrival->is_awaited)
        sm_prefetch_lines(arrival->to, arrival->size);
    const synced_mem_status status = arrival->transferred ? sm_fence_wait(arrival->transferred) : SYNCED_MEM_OK;
    if (sm_fence_is_open(arrival->transferred))
        return status;
    end_arrival_once(arrival, status != SYNCED_MEM_OK);
    for (;;) {
        const unsigned seen = sm_events_seen(&arrival->ended);
        if (!sm_fence_is_open(fence))
            return status;
        sm_events_wait(&arrival->ended, seen);
    }
}

static void poll_arrival(struct sm_host_work *work)
{
    struct sm_arrival *const arrival = get_arrival(work);
    if (!sm_fence_poll(arrival->transferred))
        end_arrival_once(arrival, sm_fence_state(arrival->transferred) == SM_FENCE_LOST);
}

/* Nobody is interested in bytes that have not arrived by now. */
static void drop_arrival(struct sm_host_work *work)
{
    struct sm_arrival *const arrival = get_arrival(work);
    if (!atomic_flag_test_and_set(&arrival->is_taken))
        sm_bounce_give(arrival->bounce, arrival->transferred);
    sm_fence_drop(arrival->transferred);
    free(arrival);
}

struct sm_arrival *sm_arrival_make(int device, void *to, size_t size, bool is_awaited)
{
    struct sm_arrival *const arrival = size <= SM_LARGEST_ARRIVAL ? calloc(1, sizeof *arrival) : NULL;
    if (!arrival)
        return NULL;
    arrival->bounce = sm_bounce_take(device, NULL, size);
    if (!arrival->bounce) {
        free(arrival);
        return NULL;
    }
    arrival->work = (struct sm_host_work){.finish = finish_arrival, .poll = poll_arrival, .drop = drop_arrival};
    arrival->to = to;
    arrival->size = size;
    arrival->is_awaited = is_awaited;
    atomic_flag_clear(&arrival->is_taken);
    sm_fence_begin_on_host(&arrival->fence, sm_stream_new_serial(), &arrival->work);
    return arrival;
}

void *sm_arrival_buffer(const struct sm_arrival *arrival)
{
    return sm_bounce_data(arrival->bounce);
}

struct sm_fence *sm_arrival_begin(struct sm_arrival *arrival, struct sm_fence *transferred)
{
    arrival->transferred = transferred ? sm_fence_hold(transferred) : NULL;
    if (!transferred)
        end_arrival_once(arrival, false);
    return &arrival->fence;
}

void sm_arrival_give_up(struct sm_arrival *arrival, bool stray)
{
    if (stray)
        sm_bounce_lose(arrival->bounce);
    else
        sm_bounce_give(arrival->bounce, NULL);
    free(arrival);
}
