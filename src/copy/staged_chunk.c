/* The course of the chunks of a staged transfer: buffers, the copies that the device makes, and pieces. */
#include "copy/staged_job.h"

#include "base/stats.h"
#include "base/status.h"
#include "copy/transfer.h"
#include "system/prefetch.h"

#include <stdlib.h>

/* A thread polls a chunk so often, some 100 microseconds, before it sleeps. */
enum { POLLS = 2000 };

/* After one of so many pieces a thread looks whether the next chunk can be opened. */
enum { PIECES_APART = 4 };

/* ---- Progress ---- */

void sm_staged_fail(struct sm_staged_job *job, synced_mem_status status)
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

/* ---- Buffers ---- */

static struct sm_staged_buffer *get_buffer(struct sm_staged_job *job, size_t chunk)
{
    return &job->buffers[chunk % job->count];
}

static void set_number(struct sm_staged_job *job, atomic_size_t *number, size_t value)
{
    atomic_store(number, value);
    sm_events_add(&job->progress);
}

static void sleep_until(struct sm_staged_job *job, atomic_size_t *number, size_t value)
{
    for (;;) {
        const unsigned seen = sm_events_seen(&job->progress);
        if (atomic_load(number) == value || atomic_load(&job->failed))
            return;
        sm_events_wait(&job->progress, seen);
    }
}

/* Waits until another thread has set the number. Returns false if the transfer fails instead. */
static bool wait_for_number(struct sm_staged_job *job, atomic_size_t *number, size_t value)
{
    for (int i = 0; i < POLLS && !sm_staged_has_failed(job); i++) {
        if (atomic_load_explicit(number, memory_order_acquire) == value)
            return true;
        sm_pause();
    }
    sleep_until(job, number, value);
    return !sm_staged_has_failed(job);
}

/* ---- The device's part ---- */

static synced_mem_status queue_copy(const struct sm_staged_job *job, void *host, size_t offset, size_t bytes)
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
 * source. Returns whether the device's fence has an event behind them. If none could be recorded,
 * sm_staged_end_device_part() waits for that part. */
static bool count_queued_bytes(struct sm_staged_job *job, size_t bytes)
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
    sm_events_add(&job->progress);
    return recorded;
}

/* Queues a chunk between the device and its buffer. The chunk needs a fence of its own if its bytes have to arrive, or
 * if another chunk comes into the buffer. */
static synced_mem_status queue_device_part(struct sm_staged_job *job, size_t chunk)
{
    struct sm_staged_buffer *const buffer = get_buffer(job, chunk);
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
static synced_mem_status wait_for_device(const struct sm_staged_job *job, struct sm_fence *fence, bool *stray)
{
    synced_mem_status status = sm_fence_wait(fence);
    if (status != SYNCED_MEM_OK && sm_fence_is_open(fence)) {
        status = sm_device_stream_sync(job->internal->device, job->internal->handle);
        *stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    }
    return status;
}

static synced_mem_status wait_for_buffer(const struct sm_staged_job *job, struct sm_staged_buffer *buffer)
{
    struct sm_fence *const fence = buffer->fence;
    if (fence)
        SM_TRY(wait_for_device(job, fence, &buffer->stray));
    buffer->fence = NULL;
    sm_fence_drop(fence);
    return SYNCED_MEM_OK;
}

/* ---- The host's part ---- */

static void copy_piece(const struct sm_staged_job *job, char *buffer, size_t offset, size_t bytes)
{
    const uint64_t since = sm_trace_begin();
    char *const host = job->host + offset;
    job->copy(job->up ? buffer : host, job->up ? host : buffer, bytes);
    sm_trace_part(since, &job->who, bytes, job->up);
}

/* ---- Chunks without page-locked memory ---- */

/* Copies a chunk from or to pageable memory. The stream is synchronized, since that memory may be in use until then.
 * *stray: nobody can tell when the device is done with it. */
static synced_mem_status transfer_pageable(const struct sm_staged_job *job, void *host, size_t offset, size_t bytes,
                                           bool *stray)
{
    *stray = false;
    SM_TRY(queue_copy(job, host, offset, bytes));
    const synced_mem_status status = sm_device_stream_sync(job->internal->device, job->internal->handle);
    *stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    return status;
}

/* Memory of the caller's may be page-locked in part, and the runtime would refuse its pointer. */
static synced_mem_status transfer_through_heap(const struct sm_staged_job *job, size_t offset, size_t bytes)
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
static synced_mem_status transfer_chunk(struct sm_staged_job *job, size_t chunk)
{
    bool stray;
    const struct sm_range of = sm_cut_chunk(&job->cut, chunk);
    SM_TRY(job->of_user ? transfer_through_heap(job, of.offset, of.bytes)
                        : transfer_pageable(job, job->host + of.offset, of.offset, of.bytes, &stray));
    (void)count_queued_bytes(job, of.bytes);
    return SYNCED_MEM_OK;
}

/* ---- A chunk's course ---- */

static void obtain_buffer(const struct sm_staged_job *job, struct sm_staged_buffer *buffer)
{
    if (!buffer->data && sm_host_pool_alloc(job->internal->device, job->cut.buffer, &buffer->memory) == SYNCED_MEM_OK)
        buffer->data = buffer->memory.data;
}

/* Returns whether the buffer of a push is full, or that of a pull is empty. */
static bool can_queue(struct sm_staged_job *job, size_t chunk)
{
    if (chunk >= job->cut.chunks || sm_staged_has_failed(job))
        return false;
    if (!job->up && chunk < job->count)
        return true;
    return atomic_load(&get_buffer(job, chunk)->copied) == (job->up ? chunk + 1 : chunk + 1 - job->count);
}

/* A chunk without a buffer is transferred by the thread with its first piece. */
static synced_mem_status queue_chunk(struct sm_staged_job *job, size_t chunk)
{
    struct sm_staged_buffer *const buffer = get_buffer(job, chunk);
    if (!job->up)
        obtain_buffer(job, buffer);
    if (buffer->data)
        SM_TRY(queue_device_part(job, chunk));
    set_number(job, &buffer->queued, chunk + 1);
    return SYNCED_MEM_OK;
}

/* The thread that waits for a pull awakens the others once the first chunk is queued: it takes as long for its bytes to
 * arrive. */
static void wake_threads(struct sm_staged_job *job)
{
    if (!atomic_load_explicit(&job->is_known, memory_order_relaxed) && !atomic_exchange(&job->is_known, true))
        sm_copy_threads_wake();
}

/* One thread at a time queues chunks, since threads that call the runtime at once keep one another waiting. The others
 * go on: the one that queues looks again. After a failure none does. */
synced_mem_status sm_staged_queue_chunks(struct sm_staged_job *job)
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
static size_t get_queued_before(const struct sm_staged_job *job, size_t chunk)
{
    if (!job->up)
        return chunk + 1;
    return chunk < job->count ? 0 : chunk + 1 - job->count;
}

static bool is_open(struct sm_staged_buffer *buffer, size_t chunk)
{
    return atomic_load(&buffer->ready) == chunk + 1;
}

/* Waits until the chunk's bytes have arrived, or the device has read those that were in the buffer before. Then threads
 * may copy the chunk. */
static synced_mem_status open_buffer(struct sm_staged_job *job, struct sm_staged_buffer *buffer, size_t chunk)
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
static synced_mem_status open_chunk(struct sm_staged_job *job, size_t chunk)
{
    struct sm_staged_buffer *const buffer = get_buffer(job, chunk);
    if (is_open(buffer, chunk) || !wait_for_number(job, &buffer->queued, get_queued_before(job, chunk)))
        return SYNCED_MEM_OK; /* another thread has recorded the failure */
    sm_mutex_lock(&buffer->opening);
    const synced_mem_status status = is_open(buffer, chunk) ? SYNCED_MEM_OK : open_buffer(job, buffer, chunk);
    sm_mutex_unlock(&buffer->opening);
    return status;
}

/* With the buffer locked. Returns whether the chunk can be opened without a wait for the device. */
static bool can_open(struct sm_staged_job *job, struct sm_staged_buffer *buffer, size_t chunk)
{
    if (is_open(buffer, chunk) || atomic_load(&buffer->queued) != get_queued_before(job, chunk))
        return false;
    if (job->up)
        obtain_buffer(job, buffer);
    return buffer->data && (!buffer->fence || !sm_fence_poll(buffer->fence));
}

/* Opens the chunk if the device is done: a question to the runtime takes some microseconds, and all threads would wait
 * for the answer once they need the chunk. */
static synced_mem_status open_ahead(struct sm_staged_job *job, size_t chunk)
{
    struct sm_staged_buffer *const buffer = get_buffer(job, chunk);
    if (chunk >= job->cut.chunks || is_open(buffer, chunk) || !sm_mutex_try(&buffer->opening))
        return SYNCED_MEM_OK;
    const synced_mem_status status = can_open(job, buffer, chunk) ? open_buffer(job, buffer, chunk) : SYNCED_MEM_OK;
    sm_mutex_unlock(&buffer->opening);
    return status;
}

/* ---- Pieces ---- */

synced_mem_status sm_staged_move_piece(struct sm_staged_job *job, size_t piece)
{
    struct sm_range bytes;
    const size_t chunk = sm_cut_piece(&job->cut, piece, &bytes);
    const size_t within = bytes.offset - sm_cut_chunk(&job->cut, chunk).offset;
    struct sm_staged_buffer *const buffer = get_buffer(job, chunk);
    if (job->prefetches && !is_open(buffer, chunk))
        sm_prefetch_lines(job->host + bytes.offset, bytes.bytes);
    if (within == 0)
        SM_TRY(open_chunk(job, chunk));
    if (!wait_for_number(job, &buffer->ready, chunk + 1))
        return SYNCED_MEM_OK;
    if (buffer->data)
        copy_piece(job, buffer->data + within, bytes.offset, bytes.bytes);
    if (atomic_fetch_sub_explicit(&buffer->left, 1, memory_order_acq_rel) == 1) {
        atomic_store(&buffer->copied, chunk + 1);
        SM_TRY(sm_staged_queue_chunks(job));
    }
    return within / job->cut.piece % PIECES_APART == 0 ? open_ahead(job, chunk + 1) : SYNCED_MEM_OK;
}

/* ---- The end ---- */

bool sm_staged_end_device_part(struct sm_staged_job *job)
{
    const struct sm_stream *const internal = job->internal;
    const synced_mem_status status = sm_device_stream_sync(internal->device, internal->handle);
    const bool stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    if (status != SYNCED_MEM_OK)
        sm_staged_fail(job, status);
    const bool lost = stray || (job->up && sm_staged_has_failed(job));
    sm_fence_close(job->device_fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, stray);
    return stray;
}

/* Waits until the device is done with all buffers. Returns whether that is unknown. */
static bool wait_for_device_part(struct sm_staged_job *job)
{
    bool stray = false;
    if (sm_fence_state(job->device_fence) == SM_FENCE_QUEUEING)
        return sm_staged_end_device_part(job);
    const synced_mem_status status = wait_for_device(job, job->device_fence, &stray);
    if (status != SYNCED_MEM_OK)
        sm_staged_fail(job, status);
    return stray;
}

static void free_buffers(struct sm_staged_job *job, bool stray)
{
    for (size_t i = 0; i < job->count; i++) {
        struct sm_staged_buffer *const buffer = &job->buffers[i];
        sm_fence_drop(buffer->fence);
        if (buffer->data && (stray || buffer->stray))
            sm_count_up(SM_COUNT_quarantined, 1);
        else if (buffer->data)
            sm_host_pool_free(buffer->memory.data, job->cut.buffer, buffer->memory.block);
    }
}

void sm_staged_end_buffers(struct sm_staged_job *job)
{
    const bool stray = wait_for_device_part(job);
    free_buffers(job, stray);
}
