/*
 * A staged transfer, as its threads see it: the course of its chunks. staged.h has what begins and waits for one.
 */
#ifndef SM_STAGED_JOB_H
#define SM_STAGED_JOB_H

#include "base/copy_threads.h"
#include "base/mutex.h"
#include "base/shard.h"
#include "copy/cut.h"
#include "memory/pinned/host_pool.h"
#include "stream/fence.h"
#include "stream/stream.h"
#include "trace/trace.h"

/* Copies between a buffer and the host memory. */
typedef void sm_host_copy(void *to, const void *from, size_t bytes);

/* A page-locked buffer, which has one chunk after another. Numbers of chunks in it are counted from 1. */
struct sm_staged_buffer {
    struct sm_pinned memory;
    char *data;                /* NULL: no memory could be page-locked */
    struct sm_fence *fence;    /* of the device's part of the chunk, if anybody has to wait for it alone */
    bool stray;                /* nobody can tell when the device is done with it; never used again */
    atomic_size_t queued;      /* the chunk whose device's part is queued */
    atomic_size_t ready;       /* the chunk whose pieces threads may copy */
    char apart[SM_CACHE_LINE]; /* threads poll the numbers above while others count down */
    atomic_size_t left;        /* pieces of that chunk that are not copied yet */
    atomic_size_t copied;      /* the chunk whose pieces are copied */
    struct sm_mutex opening;   /* held by the thread that opens a chunk */
};

struct sm_staged_job {
    struct sm_task task;
    struct sm_host_work work;
    bool up;      /* to the device, else to the host */
    bool of_user; /* the host memory is the caller's */
    sm_host_copy *copy;
    bool prefetches; /* a thread that waits for a chunk reads its target into its caches */
    struct sm_stream *internal;
    char *host;
    char *device;
    struct sm_cut cut;
    struct sm_fence *after; /* the work that writes the source */
    struct sm_fence *host_fence;
    struct sm_fence *device_fence;
    atomic_bool failed;   /* status is not OK */
    atomic_bool is_known; /* copy threads have been awakened for it */
    char apart[SM_CACHE_LINE];
    atomic_size_t taken; /* pieces that threads have taken to copy, and more once none is left */
    char apart_too[SM_CACHE_LINE];
    struct sm_events progress;
    atomic_int workers;      /* threads at work, or OVER */
    atomic_bool is_queueing; /* a thread queues chunks */
    size_t next;             /* the next chunk to queue: of the thread that queues */
    struct sm_mutex lock;    /* guards the fields below */
    size_t queued;           /* bytes that are queued on the internal stream */
    synced_mem_status status;
    struct sm_detail why;
    unsigned char from, to; /* synced_mem_source */
    struct sm_trace_who who;
    size_t count; /* of buffers */
    struct sm_staged_buffer buffers[];
};

/* Notes a failure of the transfer, if it is the first. The threads end their work then. */
void sm_staged_fail(struct sm_staged_job *job, synced_mem_status status);

static inline bool sm_staged_has_failed(struct sm_staged_job *job)
{
    return atomic_load_explicit(&job->failed, memory_order_relaxed);
}

/* Queues the device's part of chunks in order, all that can be. Does not block. Returns why one could not be. */
synced_mem_status sm_staged_queue_chunks(struct sm_staged_job *job);
/* Does all that a thread with the piece has to do, which is to be copied. Blocks until the piece's chunk is open.
 * Returns a failure that is not noted yet. */
synced_mem_status sm_staged_move_piece(struct sm_staged_job *job, size_t piece);

/* Waits for a device's part without an event: a chunk was not queued, or the event was not recorded. Returns whether
 * the part is stray. */
bool sm_staged_end_device_part(struct sm_staged_job *job);
/* Waits until the device is done with all buffers, and gives them back. */
void sm_staged_end_buffers(struct sm_staged_job *job);

#endif
