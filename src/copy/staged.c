/* Transfers between pageable memory and a device, through page-locked buffers. */
#include "copy/staged.h"

#include "base/copy_threads.h"
#include "base/mutex.h"
#include "base/shard.h"
#include "memory/pinned/host_pool.h"
#include "copy/cut.h"
#include "copy/staging.h"
#include "copy/urgent.h"
#include "base/stats.h"
#include "base/status.h"
#include "system/streaming.h"
#include "trace/trace.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Pushes of these sizes, and larger pulls too, copy past the caches. */
enum { LEAST_STREAMED = 2097152, MOST_STREAMED_UP = 33554432 };

/* A thread polls a chunk so often, some 100 microseconds, before it sleeps. */
enum { POLLS = 2000 };

/* The number of workers of a transfer that no thread can enter any more. */
enum { OVER = -1 };

/* A small transfer has one thread for so many pieces, but a few at least: more would keep one another waiting. A thread
 * that waits for it always takes part. */
enum { PIECES_EACH = 8, FEW_WORKERS = 4 };

/* After one of so many pieces a thread looks whether the next chunk can be opened. */
enum { PIECES_APART = 4 };

/* A page-locked buffer, which has one chunk after another. Numbers of chunks in it are counted from 1. */
struct buffer {
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

struct job {
    struct sm_task task;
    struct sm_host_work work;
    bool up;      /* to the device, else to the host */
    bool of_user; /* the host memory is the caller's */
    bool streams; /* the threads copy past the caches */
    struct sm_stream *internal;
    char *host;
    char *device;
    struct sm_cut cut;
    struct sm_fence *after; /* the work that writes the source */
    struct sm_fence *host_fence;
    struct sm_fence *device_fence;
    struct sm_events progress;
    atomic_uint sleepers; /* threads that wait on progress */
    atomic_bool failed;   /* status is not OK */
    atomic_bool is_known; /* copy threads have been awakened for it */
    char apart[SM_CACHE_LINE];
    atomic_size_t taken; /* pieces that threads have taken to copy, and more once none is left */
    char apart_too[SM_CACHE_LINE];
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
    struct buffer buffers[];
};

static struct job *get_job_of_task(struct sm_task *task)
{
    return (struct job *)(void *)((char *)task - offsetof(struct job, task));
}

static struct job *get_job_of_work(struct sm_host_work *work)
{
    return (struct job *)(void *)((char *)work - offsetof(struct job, work));
}

static void fail_job(struct job *job, synced_mem_status status)
{
    sm_mutex_lock(&job->lock);
    if (job->status == SYNCED_MEM_OK) {
        job->status = status;
        job->why = sm_detail_get();
    }
    sm_mutex_unlock(&job->lock);
    atomic_store(&job->failed, true);
    sm_events_add(&job->progress);
}

/* Wakes the threads that sleep. The caller has stored what they wait for. The state of a fence is stored with release
 * order alone, so a mere load of the count could come before that store. The addition of 0 can't, and a thread that
 * counts itself later sees the state. */
static void wake_sleepers(struct job *job)
{
    if (atomic_fetch_add(&job->sleepers, 0) > 0)
        sm_events_add(&job->progress);
}

static bool has_failed(struct job *job)
{
    return atomic_load_explicit(&job->failed, memory_order_relaxed);
}

/* ---- Buffers ---- */

static struct buffer *get_buffer(struct job *job, size_t chunk)
{
    return &job->buffers[chunk % job->count];
}

/* A thread that announces itself before it reads the number is awakened, or sees the number. */
static void set_number(struct job *job, atomic_size_t *number, size_t value)
{
    atomic_store(number, value);
    if (atomic_load(&job->sleepers) > 0)
        sm_events_add(&job->progress);
}

static void sleep_until(struct job *job, atomic_size_t *number, size_t value)
{
    atomic_fetch_add(&job->sleepers, 1);
    for (;;) {
        const unsigned seen = sm_events_seen(&job->progress);
        if (atomic_load(number) == value || atomic_load(&job->failed))
            break;
        sm_events_wait(&job->progress, seen);
    }
    atomic_fetch_sub(&job->sleepers, 1);
}

/* Waits until another thread has set the number. Returns false if the transfer fails instead. */
static bool wait_for_number(struct job *job, atomic_size_t *number, size_t value)
{
    for (int i = 0; i < POLLS && !has_failed(job); i++) {
        if (atomic_load_explicit(number, memory_order_acquire) == value)
            return true;
        sm_pause();
    }
    sleep_until(job, number, value);
    return !has_failed(job);
}

/* ---- The device's part ---- */

static synced_mem_status queue_copy(const struct job *job, void *host, size_t offset, size_t bytes)
{
    const struct sm_stream *const internal = job->internal;
    const struct sm_trace_moved moved = {
        .direction = job->up ? SM_H2D : SM_D2H, .bytes = bytes, .from = job->from, .to = job->to, .who = &job->who};
    const struct sm_trace_copy traced = sm_trace_copy_begin(sm_stream_traced(internal));
    const synced_mem_status status =
        job->up ? sm_device_copy_h2d(internal->device, job->device + offset, host, bytes, internal->handle)
                : sm_device_copy_d2h(internal->device, host, job->device + offset, bytes, internal->handle);
    sm_trace_copy_end(&traced, &moved, sm_stream_traced(internal), status);
    return status;
}

/* Counts bytes that are queued. Once the last are, a stream can wait for the device's part, and a push has read its
 * source. Returns whether the device's fence has an event behind them. If none could be recorded, end_device_part()
 * waits for that part. */
static bool count_queued_bytes(struct job *job, size_t bytes)
{
    sm_mutex_lock(&job->lock);
    job->queued += bytes;
    const bool all = job->queued == job->cut.size;
    sm_mutex_unlock(&job->lock);
    if (!all)
        return false;
    const bool recorded = sm_fence_record_event(job->device_fence, job->internal->handle) == SYNCED_MEM_OK;
    if (job->up)
        sm_fence_close(job->host_fence, SM_FENCE_DONE, false);
    wake_sleepers(job);
    return recorded;
}

/* Queues a chunk between the device and its buffer. The chunk needs a fence of its own if its bytes have to arrive, or
 * if another chunk comes into the buffer. */
static synced_mem_status queue_device_part(struct job *job, size_t chunk)
{
    struct buffer *const buffer = get_buffer(job, chunk);
    const struct sm_range of = sm_cut_chunk(&job->cut, chunk);
    SM_TRY(queue_copy(job, buffer->data, of.offset, of.bytes));
    const bool is_marked = count_queued_bytes(job, of.bytes);
    const bool is_awaited = !job->up || chunk + job->count < job->cut.chunks;
    if (is_marked)
        buffer->fence = sm_fence_hold(job->device_fence);
    else if (is_awaited)
        return sm_transfer_record(job->internal, &buffer->fence, &buffer->stray);
    return SYNCED_MEM_OK;
}

/* Waits until the device is done with the work behind the fence. If that cannot be known, *stray is set. */
static synced_mem_status wait_for_device(const struct job *job, struct sm_fence *fence, bool *stray)
{
    synced_mem_status status = sm_fence_wait(fence);
    if (status != SYNCED_MEM_OK && sm_fence_is_open(fence)) {
        status = sm_device_stream_sync(job->internal->device, job->internal->handle);
        *stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    }
    return status;
}

static synced_mem_status wait_for_buffer(const struct job *job, struct buffer *buffer)
{
    struct sm_fence *const fence = buffer->fence;
    if (fence)
        SM_TRY(wait_for_device(job, fence, &buffer->stray));
    buffer->fence = NULL;
    sm_fence_drop(fence);
    return SYNCED_MEM_OK;
}

/* ---- The host's part ---- */

static void copy_cached(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void copy_piece(const struct job *job, char *buffer, size_t offset, size_t bytes)
{
    const uint64_t since = sm_trace_begin();
    char *const host = job->host + offset;
    (job->streams ? sm_copy_streaming : copy_cached)(job->up ? buffer : host, job->up ? host : buffer, bytes);
    sm_trace_part(since, &job->who, bytes, job->up);
}

/* ---- Chunks without page-locked memory ---- */

/* Copies a chunk from or to pageable memory. The stream is synchronized, since that memory may be in use until then.
 * *stray: nobody can tell when the device is done with it. */
static synced_mem_status transfer_pageable(const struct job *job, void *host, size_t offset, size_t bytes, bool *stray)
{
    *stray = false;
    SM_TRY(queue_copy(job, host, offset, bytes));
    const synced_mem_status status = sm_device_stream_sync(job->internal->device, job->internal->handle);
    *stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    return status;
}

/* Memory of the caller's may be page-locked in part, and the runtime would refuse its pointer. */
static synced_mem_status transfer_through_heap(const struct job *job, size_t offset, size_t bytes)
{
    bool stray;
    char *const data = calloc(1, bytes);
    if (!data)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a part of %zu bytes", bytes);
    if (job->up)
        copy_piece(job, data, offset, bytes);
    const synced_mem_status status = transfer_pageable(job, data, offset, bytes, &stray);
    if (status == SYNCED_MEM_OK && !job->up)
        copy_piece(job, data, offset, bytes);
    if (stray)
        sm_count_up(SM_COUNT_quarantined, 1);
    else
        free(data);
    return status;
}

/* The runtime transfers the whole chunk, and one thread waits for it. */
static synced_mem_status transfer_chunk(struct job *job, size_t chunk)
{
    bool stray;
    const struct sm_range of = sm_cut_chunk(&job->cut, chunk);
    SM_TRY(job->of_user ? transfer_through_heap(job, of.offset, of.bytes)
                        : transfer_pageable(job, job->host + of.offset, of.offset, of.bytes, &stray));
    (void)count_queued_bytes(job, of.bytes);
    return SYNCED_MEM_OK;
}

/* ---- A chunk's course ---- */

static void obtain_buffer(const struct job *job, struct buffer *buffer)
{
    if (!buffer->data && sm_host_pool_alloc(job->internal->device, job->cut.buffer, &buffer->memory) == SYNCED_MEM_OK)
        buffer->data = buffer->memory.data;
}

/* Returns whether the buffer of a push is full, or that of a pull is empty. */
static bool can_queue(struct job *job, size_t chunk)
{
    if (chunk >= job->cut.chunks || has_failed(job))
        return false;
    if (!job->up && chunk < job->count)
        return true;
    return atomic_load(&get_buffer(job, chunk)->copied) == (job->up ? chunk + 1 : chunk + 1 - job->count);
}

/* A chunk without a buffer is transferred by the thread with its first piece. */
static synced_mem_status queue_chunk(struct job *job, size_t chunk)
{
    struct buffer *const buffer = get_buffer(job, chunk);
    if (!job->up)
        obtain_buffer(job, buffer);
    if (buffer->data)
        SM_TRY(queue_device_part(job, chunk));
    set_number(job, &buffer->queued, chunk + 1);
    return SYNCED_MEM_OK;
}

/* The thread that waits for a pull awakens the others once the first chunk is queued: it takes as long for its bytes to
 * arrive. */
static void wake_threads(struct job *job)
{
    if (!atomic_load_explicit(&job->is_known, memory_order_relaxed) && !atomic_exchange(&job->is_known, true))
        sm_copy_threads_wake();
}

/* Queues chunks in order, all that can be. One thread does so at a time, since threads that call the runtime at once
 * keep one another waiting. The others go on: the one that queues looks again. After a failure none does. */
static synced_mem_status queue_chunks(struct job *job)
{
    size_t next;
    do {
        if (atomic_exchange(&job->is_queueing, true))
            return SYNCED_MEM_OK;
        for (; can_queue(job, job->next); job->next++) {
            SM_TRY(queue_chunk(job, job->next));
            wake_threads(job);
        }
        next = job->next;
        atomic_store(&job->is_queueing, false);
    } while (can_queue(job, next));
    return SYNCED_MEM_OK;
}

/* ---- Opening chunks ---- */

/* Returns the number of the chunk that must be queued before threads may copy the given one: the chunk itself, or that
 * which was in a push's buffer before. */
static size_t get_queued_before(const struct job *job, size_t chunk)
{
    if (!job->up)
        return chunk + 1;
    return chunk < job->count ? 0 : chunk + 1 - job->count;
}

static bool is_open(struct buffer *buffer, size_t chunk)
{
    return atomic_load(&buffer->ready) == chunk + 1;
}

/* Waits until the chunk's bytes have arrived, or the device has read those that were in the buffer before. Then threads
 * may copy the chunk. */
static synced_mem_status open_buffer(struct job *job, struct buffer *buffer, size_t chunk)
{
    SM_TRY(wait_for_buffer(job, buffer));
    if (job->up)
        obtain_buffer(job, buffer);
    if (!buffer->data)
        SM_TRY(transfer_chunk(job, chunk));
    atomic_store_explicit(&buffer->left, sm_cut_pieces(&job->cut, chunk), memory_order_relaxed);
    set_number(job, &buffer->ready, chunk + 1);
    return SYNCED_MEM_OK;
}

/* Opens the chunk, unless that was done ahead. The thread with its first piece does this, while the others wait. The
 * lock is taken last: threads with pieces of an earlier chunk in the buffer may need it. */
static synced_mem_status open_chunk(struct job *job, size_t chunk)
{
    struct buffer *const buffer = get_buffer(job, chunk);
    if (is_open(buffer, chunk) || !wait_for_number(job, &buffer->queued, get_queued_before(job, chunk)))
        return SYNCED_MEM_OK; /* another thread has recorded the failure */
    sm_mutex_lock(&buffer->opening);
    const synced_mem_status status = is_open(buffer, chunk) ? SYNCED_MEM_OK : open_buffer(job, buffer, chunk);
    sm_mutex_unlock(&buffer->opening);
    return status;
}

/* With the buffer locked. Returns whether the chunk can be opened without a wait for the device. */
static bool can_open(struct job *job, struct buffer *buffer, size_t chunk)
{
    if (is_open(buffer, chunk) || atomic_load(&buffer->queued) != get_queued_before(job, chunk))
        return false;
    if (job->up)
        obtain_buffer(job, buffer);
    return buffer->data && (!buffer->fence || !sm_fence_poll(buffer->fence));
}

/* Opens the chunk if the device is done: a question to the runtime takes some microseconds, and all threads would wait
 * for the answer once they need the chunk. */
static synced_mem_status open_ahead(struct job *job, size_t chunk)
{
    struct buffer *const buffer = get_buffer(job, chunk);
    if (chunk >= job->cut.chunks || is_open(buffer, chunk) || !sm_mutex_try(&buffer->opening))
        return SYNCED_MEM_OK;
    const synced_mem_status status = can_open(job, buffer, chunk) ? open_buffer(job, buffer, chunk) : SYNCED_MEM_OK;
    sm_mutex_unlock(&buffer->opening);
    return status;
}

/* ---- Pieces ---- */

static synced_mem_status move_piece(struct job *job, size_t piece)
{
    struct sm_range bytes;
    const size_t chunk = sm_cut_piece(&job->cut, piece, &bytes);
    const size_t within = bytes.offset - sm_cut_chunk(&job->cut, chunk).offset;
    struct buffer *const buffer = get_buffer(job, chunk);
    if (within == 0)
        SM_TRY(open_chunk(job, chunk));
    if (!wait_for_number(job, &buffer->ready, chunk + 1))
        return SYNCED_MEM_OK;
    if (buffer->data)
        copy_piece(job, buffer->data + within, bytes.offset, bytes.bytes);
    if (atomic_fetch_sub_explicit(&buffer->left, 1, memory_order_acq_rel) == 1) {
        atomic_store(&buffer->copied, chunk + 1);
        SM_TRY(queue_chunks(job));
    }
    return within / job->cut.piece % PIECES_APART == 0 ? open_ahead(job, chunk + 1) : SYNCED_MEM_OK;
}

/* ---- The end ---- */

/* Waits for a device's part without an event: a chunk was not queued, or the event was not recorded. Returns whether
 * the part is stray. */
static bool end_device_part(struct job *job)
{
    const struct sm_stream *const internal = job->internal;
    const synced_mem_status status = sm_device_stream_sync(internal->device, internal->handle);
    const bool stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    if (status != SYNCED_MEM_OK)
        fail_job(job, status);
    const bool lost = stray || (job->up && has_failed(job));
    sm_fence_close(job->device_fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, stray);
    return stray;
}

/* Waits until the device is done with all buffers. Returns whether that is unknown. */
static bool wait_for_device_part(struct job *job)
{
    bool stray = false;
    if (sm_fence_state(job->device_fence) == SM_FENCE_QUEUEING)
        return end_device_part(job);
    const synced_mem_status status = wait_for_device(job, job->device_fence, &stray);
    if (status != SYNCED_MEM_OK)
        fail_job(job, status);
    return stray;
}

static void free_buffers(struct job *job, bool stray)
{
    for (size_t i = 0; i < job->count; i++) {
        struct buffer *const buffer = &job->buffers[i];
        sm_fence_drop(buffer->fence);
        if (buffer->data && (stray || buffer->stray))
            sm_count_up(SM_COUNT_quarantined, 1);
        else if (buffer->data)
            sm_host_pool_free(buffer->memory.data, job->cut.buffer, buffer->memory.block);
    }
}

static void release_fences(struct job *job)
{
    wake_sleepers(job);
    sm_copy_threads_remove(&job->task);
    sm_bulk_end(job->internal->device, job->up ? SM_H2D : SM_D2H);
    sm_fence_drop(job->device_fence);
    sm_fence_drop(job->host_fence);
}

/* Ends the fences. The last worker calls it. */
static void end_job(struct job *job)
{
    const bool stray = wait_for_device_part(job);
    free_buffers(job, stray);
    if (sm_fence_state(job->host_fence) == SM_FENCE_QUEUEING) {
        const bool lost = !job->up && has_failed(job);
        sm_fence_close(job->host_fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, false);
    }
    release_fences(job);
}

/* ---- A thread's part ---- */

static bool has_pieces_or_failed(struct job *job)
{
    return atomic_load_explicit(&job->taken, memory_order_relaxed) < job->cut.pieces || has_failed(job);
}

/* Counts the thread as a worker, also to end a transfer that failed before any thread worked on it. Returns false if
 * the transfer needs no thread any more, or has the most workers. */
static bool enter_job(struct job *job, int most)
{
    int workers = atomic_load(&job->workers);
    while (workers != OVER && workers < most && has_pieces_or_failed(job))
        if (atomic_compare_exchange_weak(&job->workers, &workers, workers + 1))
            return true;
    return false;
}

static void leave_job(struct job *job)
{
    int workers = atomic_load(&job->workers);
    while (!atomic_compare_exchange_weak(&job->workers, &workers, workers == 1 ? OVER : workers - 1))
        ;
    if (workers == 1)
        end_job(job);
}

static void work_on_job(struct job *job)
{
    const size_t pieces = job->cut.pieces;
    synced_mem_status status = job->up ? SYNCED_MEM_OK : queue_chunks(job);
    while (status == SYNCED_MEM_OK && !has_failed(job)) {
        const size_t piece = atomic_fetch_add_explicit(&job->taken, 1, memory_order_relaxed);
        if (piece >= pieces)
            break;
        status = move_piece(job, piece);
    }
    if (status != SYNCED_MEM_OK)
        fail_job(job, status);
    leave_job(job);
}

static void wait_for_source_write(struct job *job)
{
    const synced_mem_status status = sm_fence_wait(job->after);
    if (status != SYNCED_MEM_OK)
        fail_job(job, status);
}

static int count_most_workers(const struct job *job)
{
    const size_t most = job->cut.pieces / PIECES_EACH;
    return most < FEW_WORKERS ? FEW_WORKERS : most < INT_MAX ? (int)most : INT_MAX;
}

static void run_task(struct sm_task *task)
{
    struct job *const job = get_job_of_task(task);
    if (!enter_job(job, count_most_workers(job)))
        return;
    sm_device_stay(job->internal->device);
    work_on_job(job);
}

static void wait_for_task_source(struct sm_task *task)
{
    struct job *const job = get_job_of_task(task);
    sm_device_stay(job->internal->device);
    wait_for_source_write(job);
}

static void free_task_job(struct sm_task *task)
{
    struct job *const job = get_job_of_task(task);
    sm_fence_drop(job->after);
    free(job);
}

/* ---- Waiting ---- */

/* Waits for the threads that still copy the last pieces, which takes a few microseconds. */
static void wait_for_others(struct job *job, const struct sm_fence *fence)
{
    for (int i = 0; i < POLLS && sm_fence_state(fence) == SM_FENCE_QUEUEING; i++)
        sm_pause();
    atomic_fetch_add(&job->sleepers, 1);
    unsigned seen = sm_events_seen(&job->progress);
    while (sm_fence_state(fence) == SM_FENCE_QUEUEING) {
        sm_events_wait(&job->progress, seen);
        seen = sm_events_seen(&job->progress);
    }
    atomic_fetch_sub(&job->sleepers, 1);
}

/* A thread that waits takes part. So the transfer makes progress even while the copy threads wait for something
 * else. */
static synced_mem_status finish_work(struct sm_host_work *work, const struct sm_fence *fence)
{
    struct job *const job = get_job_of_work(work);
    if (sm_fence_state(fence) == SM_FENCE_QUEUEING) {
        if (job->after) {
            wait_for_source_write(job);
            sm_copy_threads_ready(&job->task);
        }
        if (enter_job(job, INT_MAX))
            work_on_job(job);
    }
    wait_for_others(job, fence);
    sm_mutex_lock(&job->lock);
    const synced_mem_status status = sm_fence_state(fence) == SM_FENCE_LOST ? job->status : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        sm_detail_set(&job->why);
    sm_mutex_unlock(&job->lock);
    return status;
}

static void drop_work(struct sm_host_work *work)
{
    sm_task_drop(&get_job_of_work(work)->task);
}

/* ---- Cancelling ---- */

static bool end_unbegun_job(struct job *job)
{
    int workers = 0;
    return atomic_compare_exchange_strong(&job->workers, &workers, OVER);
}

/* Earlier work on a push's device copy is on the internal stream, and no longer entered. So the fence stands for it. */
void sm_staged_cancel(struct sm_fence *arrival)
{
    if (!arrival || !arrival->work || arrival->work->finish != finish_work)
        return;
    struct job *const job = get_job_of_work(arrival->work);
    if ((sm_staged_has_threads() && atomic_load(&job->is_known)) || !end_unbegun_job(job))
        return;
    if (!job->up)
        sm_fence_close(job->device_fence, SM_FENCE_DONE, false);
    else if (sm_fence_record_event(job->device_fence, job->internal->handle) != SYNCED_MEM_OK)
        (void)end_device_part(job);
    sm_fence_close(job->host_fence, SM_FENCE_DONE, false);
    release_fences(job);
}

/* ---- Beginning ---- */

bool sm_is_staged(const struct sm_copy *host, size_t size, bool up)
{
    if (host->pinned || size == 0)
        return false;
    return host->pin_partial || host->is_part || size >= (up ? sm_staging_least_push() : sm_staging_minimum());
}

bool sm_staged_has_threads(void)
{
    return sm_copy_threads_count() > 0;
}

void sm_staged_shutdown(void)
{
    sm_copy_threads_end();
}

/* Returns how many copy threads are started for a transfer. Below the minimum the caller alone works on it, unless it
 * leaves it to them. */
static unsigned count_threads(const struct sm_transfer *transfer)
{
    return transfer->is_left || transfer->size >= sm_staging_minimum() ? sm_staging_threads() : 0;
}

/* Two buffers for each thread, the caller's included, if there are so many chunks. */
static size_t choose_buffers(const struct sm_cut *cut, unsigned threads)
{
    const size_t most = 2 * ((size_t)threads + 1);
    return cut->chunks < most ? cut->chunks : most;
}

static struct job *create_job(const struct sm_transfer *transfer, unsigned threads, struct sm_stream *internal,
                              struct sm_fence *after)
{
    const bool up = transfer->direction == SM_H2D;
    const struct sm_cut cut = sm_cut_up(transfer->size, up, sm_staging_buffer());
    const size_t count = choose_buffers(&cut, threads);
    struct job *const job = calloc(1, sizeof *job + count * sizeof *job->buffers);
    if (!job) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a transfer");
        return NULL;
    }
    job->task = (struct sm_task){.work = run_task, .wait = wait_for_task_source, .free = free_task_job, .holders = 1};
    job->work = (struct sm_host_work){.finish = finish_work, .drop = drop_work};
    job->up = up;
    job->of_user = sm_copy_is_of_user(up ? transfer->from : transfer->to);
    job->streams = transfer->size >= LEAST_STREAMED && (!up || transfer->size <= MOST_STREAMED_UP);
    job->internal = internal;
    job->host = up ? sm_transfer_source(transfer) : sm_copy_data(transfer->to);
    job->device = up ? sm_copy_data(transfer->to) : sm_transfer_source(transfer);
    job->from = transfer->from->source;
    job->to = transfer->to->source;
    job->cut = cut;
    job->count = count;
    job->after = after ? sm_fence_hold(after) : NULL;
    atomic_store_explicit(&job->is_known, !transfer->is_awaited, memory_order_relaxed);
    return job;
}

/* Each fence has its own serial, so that no fence stands for another. */
static synced_mem_status open_fence(struct job *job, struct sm_fence **out)
{
    sm_task_hold(&job->task);
    const synced_mem_status status = sm_fence_open(job->internal->device, sm_stream_new_serial(), &job->work, out);
    if (status != SYNCED_MEM_OK)
        sm_task_drop(&job->task);
    return status;
}

static synced_mem_status open_fences(struct job *job)
{
    SM_TRY(open_fence(job, &job->device_fence));
    synced_mem_status status = open_fence(job, &job->host_fence);
    if (status != SYNCED_MEM_OK)
        sm_fence_drop(job->device_fence);
    return status;
}

synced_mem_status sm_staged_begin(const struct sm_transfer *transfer, struct sm_stream *internal,
                                  struct sm_fence *after)
{
    struct sm_replaced replaced = {.uses = NULL};
    struct sm_use *const read = sm_inflight_reserve();
    const unsigned threads = count_threads(transfer);
    struct job *const job = read ? create_job(transfer, threads, internal, after) : NULL;
    const synced_mem_status status = job ? open_fences(job) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (status != SYNCED_MEM_OK) {
        if (job)
            sm_task_drop(&job->task);
        sm_inflight_unreserve(read);
        return status;
    }
    sm_bulk_begin(internal->device, transfer->direction);
    sm_inflight_read(transfer->from, read, sm_fence_hold(job->up ? job->host_fence : job->device_fence), &replaced);
    sm_replaced_drop(&replaced);
    sm_inflight_written(transfer->to, sm_fence_hold(job->up ? job->device_fence : job->host_fence));
    transfer->to->arriving = true;
    transfer->to->arrivals++;
    sm_count_up(SM_COUNT_staged_transfers, 1);
    sm_count_up(job->up ? SM_COUNT_h2d_transfers : SM_COUNT_d2h_transfers, 1);
    sm_count_up(job->up ? SM_COUNT_h2d_bytes : SM_COUNT_d2h_bytes, job->cut.size);
    sm_trace_staged_begun(transfer->direction, transfer->size, &job->who);
    sm_copy_threads_add(&job->task, !after, threads);
    if (atomic_load(&job->is_known))
        sm_copy_threads_wake();
    sm_task_drop(&job->task);
    return SYNCED_MEM_OK;
}
