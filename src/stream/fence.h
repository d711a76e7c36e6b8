/*
 * A fence stands for work queued on a stream: a CUDA event, counted by those who may still wait for it. Events are
 * reused; one goes back to the pool, where it may be recorded again, only when nobody holds its fence.
 */
#ifndef SM_FENCE_H
#define SM_FENCE_H

#include "device/device.h"

#include <stdatomic.h>

struct sm_fence;

enum sm_fence_state {
    SM_FENCE_QUEUEING, /* threads of the library's have yet to do their part: there is no event yet */
    SM_FENCE_PENDING,  /* as far as anybody has asked */
    SM_FENCE_DONE,     /* the work has finished */
    SM_FENCE_LOST      /* the work has ended without success: nobody knows how far it got */
};

/* What threads of the library's do for fences, counted by those. */
struct sm_host_work {
    /* Does what is left to do until the fence is no longer being queued, or waits for whoever does it. Why it failed,
     * if the fence is lost. */
    synced_mem_status (*finish)(struct sm_host_work *work, const struct sm_fence *fence);
    void (*drop)(struct sm_host_work *work);
};

struct sm_fence {
    atomic_uint holders;
    atomic_uchar state; /* enum sm_fence_state; goes from one to a later one only while held */
    atomic_bool stray;  /* lost, and a part of the work may be running all the same */
    int device;
    uint64_t stream; /* the serial of the one it was recorded on */
    sm_event event;
    struct sm_host_work *work; /* of a fence that was made by sm_fence_open() */
    struct sm_fence *next;     /* in the pool */
};

/* A fence, held once, for all that is queued on the stream now. */
synced_mem_status sm_fence_record(int device, synced_mem_stream handle, uint64_t stream, struct sm_fence **out);

/* A fence, held once, for work that threads of the library's have yet to queue or to do: it is being queued until one
 * of the next two functions is called. It holds the work, which drop() undoes. serial: no stream's, nor another
 * fence's. */
synced_mem_status sm_fence_open(int device, uint64_t serial, struct sm_host_work *work, struct sm_fence **out);
/* All of it is queued on the stream. */
synced_mem_status sm_fence_queued(struct sm_fence *fence, synced_mem_stream handle);
/* It is over: done, or lost. stray: a part of it may be running. */
void sm_fence_close(struct sm_fence *fence, enum sm_fence_state state, bool stray);

struct sm_fence *sm_fence_hold(struct sm_fence *fence);
/* NULL is ignored. */
void sm_fence_drop(struct sm_fence *fence);

/* Done from the beginning, for ever: who has released a lock meanwhile asks with it to look at everything again. */
extern struct sm_fence *const sm_fence_done;

/* What is known without asking the device. NULL is done. */
static inline enum sm_fence_state sm_fence_state(const struct sm_fence *fence)
{
    if (!fence)
        return SM_FENCE_DONE;
    return (enum sm_fence_state)atomic_load_explicit(&fence->state, memory_order_acquire);
}

/* Whether the fence's work may still be going on, as far as is known without asking the device. */
static inline bool sm_fence_is_open(const struct sm_fence *fence)
{
    return sm_fence_state(fence) <= SM_FENCE_PENDING;
}

/* Waits on the host until the fence is neither being queued nor pending. If it is lost: ERR_DEVICE_LOST, or why the
 * library's part failed. */
synced_mem_status sm_fence_wait(struct sm_fence *fence);
/* Waits on the host until the fence is no longer being queued, so that a stream can wait for it. Errors: as above. */
synced_mem_status sm_fence_wait_queued(struct sm_fence *fence);
/* Whether the fence is still being queued or pending, asking the device; pending too if it does not say. */
bool sm_fence_pending(struct sm_fence *fence);

/* Destroys the events in the pool. What fails stays there, and the next call tries again. */
synced_mem_status sm_fence_shutdown(void);

#endif
