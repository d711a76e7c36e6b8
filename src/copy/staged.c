/* Transfers between pageable memory and a device, through page-locked buffers. */
#include "copy/staged.h"

#include "base/copy_threads.h"
#include "base/mutex.h"
#include "memory/pinned/host_pool.h"
#include "copy/staging.h"
#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The size of each chunk but the last is a multiple of a step. */
enum { CHUNK_STEP = 65536, SMALLEST_CHUNK = 262144 };

struct job {
    struct sm_task task;
    struct sm_host_work work;
    bool up;      /* to the device, else to the host */
    bool of_user; /* the host memory is the caller's */
    struct sm_stream *internal;
    char *host;
    char *device;
    size_t size;
    size_t chunk;
    struct sm_fence *after; /* the work that writes the source */
    struct sm_fence *host_fence;
    struct sm_fence *device_fence;
    struct sm_events progress;
    struct sm_mutex lock; /* guards the fields below */
    size_t taken;         /* bytes that threads have taken to copy */
    size_t queued;        /* bytes that are queued on the internal stream */
    unsigned workers;     /* threads at work */
    bool over;
    synced_mem_status status;
    struct sm_detail why;
    unsigned char from, to; /* synced_mem_source */
    struct sm_trace_who who;
};

/* A page-locked buffer of one thread, and the chunk in it. */
struct buffer {
    struct sm_pinned memory;
    char *data;
    size_t offset;
    size_t bytes;           /* 0: it is empty */
    struct sm_fence *fence; /* of the device's part; NULL once that is done */
    bool stray;             /* nobody can tell when the device is done with it; never used again */
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
}

static synced_mem_status get_job_status(struct job *job)
{
    sm_mutex_lock(&job->lock);
    const synced_mem_status status = job->status;
    sm_mutex_unlock(&job->lock);
    return status;
}

/* ---- Chunks ---- */

static void free_staging_buffer(const struct job *job, struct buffer *buffer)
{
    if (buffer->stray)
        sm_count_up(SM_COUNT_quarantined, 1);
    else if (buffer->data)
        sm_host_pool_free(buffer->memory.data, job->chunk, buffer->memory.block);
}

/* Waits until the device is done with the buffer. If that cannot be known, the buffer is stray. */
static synced_mem_status wait_for_buffer(const struct job *job, struct buffer *buffer)
{
    synced_mem_status status = buffer->fence ? sm_fence_wait(buffer->fence) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK && sm_fence_is_open(buffer->fence)) {
        status = sm_device_stream_sync(job->internal->device, job->internal->handle);
        buffer->stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    }
    sm_fence_drop(buffer->fence);
    buffer->fence = NULL;
    return status;
}

static void copy_part(const struct job *job, void *to, const void *from, size_t bytes)
{
    const uint64_t since = sm_trace_begin();
    memcpy(to, from, bytes);
    sm_trace_part(since, &job->who, bytes, job->up);
}

static synced_mem_status empty_buffer(const struct job *job, struct buffer *buffer)
{
    if (buffer->bytes == 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status = wait_for_buffer(job, buffer);
    if (status == SYNCED_MEM_OK && !job->up)
        copy_part(job, job->host + buffer->offset, buffer->data, buffer->bytes);
    buffer->bytes = 0;
    return status;
}

static synced_mem_status queue_chunk(const struct job *job, void *host, size_t offset, size_t bytes)
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

/* Copies a chunk from or to pageable memory. The stream is synchronized, since that memory may be in use until then.
 * *stray: nobody can tell when the device is done with it. */
static synced_mem_status transfer_pageable(const struct job *job, void *host, size_t offset, size_t bytes, bool *stray)
{
    *stray = false;
    SM_TRY(queue_chunk(job, host, offset, bytes));
    const synced_mem_status status = sm_device_stream_sync(job->internal->device, job->internal->handle);
    *stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    return status;
}

/* Memory of the caller's may be page-locked in part, and the runtime would refuse its pointer. */
static synced_mem_status transfer_through_heap(const struct job *job, size_t offset, size_t bytes)
{
    struct buffer buffer = {.data = calloc(1, bytes)};
    if (!buffer.data)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a part of %zu bytes", bytes);
    if (job->up)
        copy_part(job, buffer.data, job->host + offset, bytes);
    const synced_mem_status status = transfer_pageable(job, buffer.data, offset, bytes, &buffer.stray);
    if (status == SYNCED_MEM_OK && !job->up)
        copy_part(job, job->host + offset, buffer.data, bytes);
    if (buffer.stray)
        sm_count_up(SM_COUNT_quarantined, 1);
    else
        free(buffer.data);
    return status;
}

static synced_mem_status load_buffer(const struct job *job, struct buffer *buffer, size_t offset, size_t bytes)
{
    bool stray;
    if (!buffer->data && sm_host_pool_alloc(job->internal->device, job->chunk, &buffer->memory) == SYNCED_MEM_OK)
        buffer->data = buffer->memory.data;
    if (!buffer->data) /* no memory can be page-locked */
        return job->of_user ? transfer_through_heap(job, offset, bytes)
                            : transfer_pageable(job, job->host + offset, offset, bytes, &stray);
    if (job->up)
        copy_part(job, buffer->data, job->host + offset, bytes);
    SM_TRY(queue_chunk(job, buffer->data, offset, bytes));
    synced_mem_status status = sm_transfer_record(job->internal, &buffer->fence, &buffer->stray);
    if (status == SYNCED_MEM_OK) {
        buffer->offset = offset;
        buffer->bytes = bytes;
    }
    return status;
}

/* ---- A thread's part ---- */

/* Counts the thread as a worker, also to end a transfer that failed before any thread worked on it. */
static bool enter_job(struct job *job)
{
    sm_mutex_lock(&job->lock);
    const bool is_open = !job->over && (job->taken < job->size || job->status != SYNCED_MEM_OK);
    job->workers += is_open;
    sm_mutex_unlock(&job->lock);
    return is_open;
}

static size_t take_chunk(struct job *job, size_t *offset)
{
    sm_mutex_lock(&job->lock);
    const size_t left = job->status == SYNCED_MEM_OK ? job->size - job->taken : 0;
    const size_t bytes = left < job->chunk ? left : job->chunk;
    *offset = job->taken;
    job->taken += bytes;
    sm_mutex_unlock(&job->lock);
    return bytes;
}

/* Once the last chunk is queued, a stream can wait for the device's part. If no event could be recorded, end_job()
 * waits for that part. */
static void count_queued_bytes(struct job *job, size_t bytes)
{
    sm_mutex_lock(&job->lock);
    job->queued += bytes;
    const bool all = job->queued == job->size;
    sm_mutex_unlock(&job->lock);
    if (!all)
        return;
    (void)sm_fence_record_event(job->device_fence, job->internal->handle);
    if (job->up)
        sm_fence_close(job->host_fence, SM_FENCE_DONE, false);
    sm_events_add(&job->progress);
}

/* Waits for a device's part without an event: a chunk was not queued, or the event was not recorded. */
static void end_device_part(struct job *job)
{
    const struct sm_stream *const internal = job->internal;
    const synced_mem_status status = sm_device_stream_sync(internal->device, internal->handle);
    const bool stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    if (status != SYNCED_MEM_OK)
        fail_job(job, status);
    const bool lost = stray || (job->up && get_job_status(job) != SYNCED_MEM_OK);
    sm_fence_close(job->device_fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, stray);
}

static void release_fences(struct job *job)
{
    sm_events_add(&job->progress);
    sm_copy_threads_remove(&job->task);
    sm_fence_drop(job->device_fence);
    sm_fence_drop(job->host_fence);
}

/* Ends the fences. The last worker calls it. */
static void end_job(struct job *job)
{
    if (sm_fence_state(job->device_fence) == SM_FENCE_QUEUEING)
        end_device_part(job);
    else if (!job->up && get_job_status(job) == SYNCED_MEM_OK) /* each chunk was waited for */
        sm_fence_close(job->device_fence, SM_FENCE_DONE, false);
    if (sm_fence_state(job->host_fence) == SM_FENCE_QUEUEING) {
        const bool lost = !job->up && get_job_status(job) != SYNCED_MEM_OK;
        sm_fence_close(job->host_fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, false);
    }
    release_fences(job);
}

static void leave_job(struct job *job)
{
    sm_mutex_lock(&job->lock);
    job->workers--;
    const bool is_last = job->workers == 0 && !job->over && (job->taken == job->size || job->status != SYNCED_MEM_OK);
    job->over = job->over || is_last;
    sm_mutex_unlock(&job->lock);
    if (is_last)
        end_job(job);
}

static void work_on_job(struct job *job)
{
    struct buffer buffers[2] = {{.data = NULL}, {.data = NULL}};
    size_t offset;
    size_t bytes;
    if (!enter_job(job))
        return;
    for (unsigned turn = 0; (bytes = take_chunk(job, &offset)) > 0; turn++) {
        struct buffer *const buffer = &buffers[turn % 2];
        synced_mem_status status = empty_buffer(job, buffer);
        if (status == SYNCED_MEM_OK)
            status = load_buffer(job, buffer, offset, bytes);
        if (status == SYNCED_MEM_OK)
            count_queued_bytes(job, bytes);
        else
            fail_job(job, status);
    }
    for (int i = 0; i < 2; i++) {
        const synced_mem_status status = empty_buffer(job, &buffers[i]);
        if (status != SYNCED_MEM_OK)
            fail_job(job, status);
        free_staging_buffer(job, &buffers[i]);
    }
    leave_job(job);
}

static void wait_for_source_write(struct job *job)
{
    const synced_mem_status status = job->after ? sm_fence_wait(job->after) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        fail_job(job, status);
}

static void run_task(struct sm_task *task)
{
    struct job *const job = get_job_of_task(task);
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

/* A thread that waits takes part. So the transfer makes progress even while the copy threads wait for something
 * else. */
static synced_mem_status finish_work(struct sm_host_work *work, const struct sm_fence *fence)
{
    struct job *const job = get_job_of_work(work);
    if (sm_fence_state(fence) == SM_FENCE_QUEUEING) {
        wait_for_source_write(job);
        sm_copy_threads_ready(&job->task);
        work_on_job(job);
    }
    unsigned seen = sm_events_seen(&job->progress);
    while (sm_fence_state(fence) == SM_FENCE_QUEUEING) {
        sm_events_wait(&job->progress, seen);
        seen = sm_events_seen(&job->progress);
    }
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
    sm_mutex_lock(&job->lock);
    const bool ends = !job->over && job->workers == 0 && job->taken == 0;
    job->over = job->over || ends;
    sm_mutex_unlock(&job->lock);
    return ends;
}

/* Earlier work on a push's device copy is on the internal stream, and no longer entered. So the fence stands for it. */
void sm_staged_cancel(struct sm_fence *arrival)
{
    if (!arrival || !arrival->work || arrival->work->finish != finish_work)
        return;
    struct job *const job = get_job_of_work(arrival->work);
    if (sm_staged_has_threads() || !end_unbegun_job(job))
        return;
    if (!job->up)
        sm_fence_close(job->device_fence, SM_FENCE_DONE, false);
    else if (sm_fence_record_event(job->device_fence, job->internal->handle) != SYNCED_MEM_OK)
        end_device_part(job);
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

/* One chunk for every thread, but none larger than a buffer. None is so small that queueing it takes longer than
 * copying it. */
static size_t choose_chunk_size(size_t size)
{
    const size_t largest = sm_staging_buffer();
    const size_t parts = (size_t)sm_staging_threads() + 1;
    const size_t even = (size / parts + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
    const size_t chunk = even > SMALLEST_CHUNK ? even : SMALLEST_CHUNK;
    return chunk < largest ? chunk : largest;
}

static struct job *create_job(const struct sm_transfer *transfer, struct sm_stream *internal, struct sm_fence *after)
{
    struct job *const job = calloc(1, sizeof *job);
    if (!job) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a transfer");
        return NULL;
    }
    const bool up = transfer->direction == SM_H2D;
    job->task = (struct sm_task){.work = run_task, .wait = wait_for_task_source, .free = free_task_job, .holders = 1};
    job->work = (struct sm_host_work){.finish = finish_work, .drop = drop_work};
    job->up = up;
    job->of_user = sm_copy_is_of_user(up ? transfer->from : transfer->to);
    job->internal = internal;
    job->host = up ? sm_transfer_source(transfer) : sm_copy_data(transfer->to);
    job->device = up ? sm_copy_data(transfer->to) : sm_transfer_source(transfer);
    job->from = transfer->from->source;
    job->to = transfer->to->source;
    job->size = transfer->size;
    job->chunk = choose_chunk_size(transfer->size);
    job->after = after ? sm_fence_hold(after) : NULL;
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
    struct sm_use *earlier = NULL;
    struct sm_use *const read = sm_inflight_reserve();
    struct job *const job = read ? create_job(transfer, internal, after) : NULL;
    const synced_mem_status status = job ? open_fences(job) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (status != SYNCED_MEM_OK) {
        if (job)
            sm_task_drop(&job->task);
        sm_inflight_unreserve(read);
        return status;
    }
    sm_inflight_read(transfer->from, read, sm_fence_hold(job->up ? job->host_fence : job->device_fence), &earlier);
    sm_uses_free(earlier);
    sm_inflight_written(transfer->to, sm_fence_hold(job->up ? job->device_fence : job->host_fence));
    transfer->to->arriving = true;
    transfer->to->arrivals++;
    sm_count_up(SM_COUNT_staged_transfers, 1);
    sm_count_up(job->up ? SM_COUNT_h2d_transfers : SM_COUNT_d2h_transfers, 1);
    sm_count_up(job->up ? SM_COUNT_h2d_bytes : SM_COUNT_d2h_bytes, job->size);
    sm_trace_staged_begun(transfer->direction, transfer->size, &job->who);
    sm_copy_threads_add(&job->task, !after, job->size >= sm_staging_minimum() ? sm_staging_threads() : 0);
    sm_task_drop(&job->task);
    return SYNCED_MEM_OK;
}
