/*
 * Fences. A fence stands for all work that is queued on a stream up to one point.
 *
 *    event       the CUDA event that the device records there
 *    holder      whoever may still wait for the fence; the last one to drop it returns the event to the pool
 *    queueing    threads of the library have yet to queue or do the work, so no event exists yet
 *    host work   that part of the threads; whoever waits for the fence takes part in it
 *    open        queueing or pending: the work may still run
 *    lost        the work ended without success, and nobody knows how far it got
 *    stray       lost, and a part of the work may run all the same
 *
 * An event returns to the pool only when nobody holds its fence. Then it may be recorded again.
 */
#ifndef SM_FENCE_H
#define SM_FENCE_H

#include "base/shard.h"
#include "device/device.h"

#include <stdatomic.h>

struct sm_fence;

enum sm_fence_state {
    SM_FENCE_QUEUEING, /* threads of the library have yet to do their part: there is no event yet */
    SM_FENCE_PENDING,  /* no poll has seen the end of the work */
    SM_FENCE_DONE,     /* the work has ended with success */
    SM_FENCE_LOST      /* the work has ended without success; nobody knows how far it got */
};

/* The part that threads of the library do for fences. Its fences count as its holders. */
struct sm_host_work {
    /* Does the remaining work until the fence is no longer queueing, or waits for the thread that does it. Returns why
     * the work failed if the fence is lost. Blocks. */
    synced_mem_status (*finish)(struct sm_host_work *work, const struct sm_fence *fence);
    /* Does the work if it can be done without a wait. Does not block. NULL: polls do not further the work. */
    void (*poll)(struct sm_host_work *work);
    /* Gives up the hold that sm_fence_open() took over. */
    void (*drop)(struct sm_host_work *work);
};

/* One cache line, so that threads with fences of their own share none. */
struct sm_fence {
    atomic_uint holders;
    atomic_uchar state; /* enum sm_fence_state; only moves forward while the fence is held */
    atomic_bool stray;  /* lost, and a part of the work may run all the same */
    int16_t device;     /* -1: the work is the host's alone, so no event exists */
    /* The serial of the stream that the fence was recorded on, or the serial that sm_fence_open() got. */
    uint64_t stream;
    /* Counts of the events recorded on the stream, read before this fence's and after it. An event is earlier if its
     * order is at most the since of the other. 0 of both: not known. */
    uint64_t since, order;
    /* The serial of the stream that was made to wait for the event last; 0: none. Its later work needs no other. */
    _Atomic uint64_t awaited_by;
    sm_event event;
    struct sm_host_work *work; /* of a fence from sm_fence_open(), else NULL */
    struct sm_fence *next;     /* the next one on the shelf */
};

_Static_assert(sizeof(void *) < 8 || sizeof(struct sm_fence) == SM_CACHE_LINE, "a fence is one cache line");

/* Records an event on the stream and stores a fence for all work queued there until now. The caller holds the fence
 * once. Does not block. On failure *out is unchanged. */
synced_mem_status sm_fence_record(int device, synced_mem_stream handle, uint64_t stream, struct sm_fence **out);

/* Opens a fence for work that threads of the library have yet to queue or do. It is queueing until
 * sm_fence_record_event() or sm_fence_close() is called. The caller holds the fence once. The fence holds the work and
 * drops it with drop(). serial: equals no stream's and no other fence's. Does not block. On failure *out is
 * unchanged. */
synced_mem_status sm_fence_open(int device, uint64_t serial, struct sm_host_work *work, struct sm_fence **out);
/* Records the fence's event behind its work, which is all queued on the stream now. The fence is then pending. Does not
 * block. On failure the fence is unchanged. */
synced_mem_status sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle);
/* Makes the fence stand for work that threads of the host do alone, without an event. The memory of the fence belongs
 * to the work: drop() frees it. Otherwise as sm_fence_open(). */
void sm_fence_begin_on_host(struct sm_fence *fence, uint64_t serial, struct sm_host_work *work);
/* Ends the fence without an event. state: DONE or LOST. stray: a part of the work may be running. Does not block. */
void sm_fence_close(struct sm_fence *fence, enum sm_fence_state state, bool stray);

/* Adds a holder. Returns the fence. Does not block. */
static inline struct sm_fence *sm_fence_hold(struct sm_fence *fence)
{
    atomic_fetch_add_explicit(&fence->holders, 1, memory_order_relaxed);
    return fence;
}
/* Adds this many holders. Does not block. */
void sm_fence_hold_often(struct sm_fence *fence, size_t holders);
/* Removes this many holders, at least one. The last one returns the event to the pool and drops the host work. Does not
 * block. */
void sm_fence_drop_often(struct sm_fence *fence, size_t holders);
/* Removes a holder. Ignores NULL. */
static inline void sm_fence_drop(struct sm_fence *fence)
{
    if (fence)
        sm_fence_drop_often(fence, 1);
}

/* Returns the state as last polled, without a query to the device. NULL is done. Does not block. */
static inline enum sm_fence_state sm_fence_state(const struct sm_fence *fence)
{
    if (!fence)
        return SM_FENCE_DONE;
    return (enum sm_fence_state)atomic_load_explicit(&fence->state, memory_order_acquire);
}

/* Returns whether the fence's work may still run, without a query to the device. NULL is done. Does not block. */
static inline bool sm_fence_is_open(const struct sm_fence *fence)
{
    return sm_fence_state(fence) <= SM_FENCE_PENDING;
}

/* Waits on the host until the fence is neither queueing nor pending. Blocks. A lost fence returns ERR_DEVICE_LOST, or
 * the reason why the library's part failed. */
synced_mem_status sm_fence_wait(struct sm_fence *fence);
/* Waits on the host until the fence is no longer queueing, so that a stream can wait for it. Blocks. Errors: as
 * sm_fence_wait(). */
synced_mem_status sm_fence_wait_queued(struct sm_fence *fence);
/* Makes the fence done if it was recorded on its stream before the later one, which is done. Ignores NULL. Does not
 * query the device. */
void sm_fence_follow(struct sm_fence *fence, const struct sm_fence *later);
/* Polls the event of a pending fence, or the host work of a queueing one. Returns true if the fence is queueing or
 * pending afterwards, so that its work may not be over. A failed query leaves it pending. Does not block. */
bool sm_fence_poll(struct sm_fence *fence);

/* Destroys the events in the pool. An event that cannot be destroyed stays there, and the next call tries again.
 * Returns the first failure. */
synced_mem_status sm_fence_shutdown(void);

#endif
