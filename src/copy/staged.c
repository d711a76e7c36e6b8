/* Transfers between pageable memory and a device, through page-locked buffers. */
#include "copy/staged.h"

#include "base/stats.h"
#include "base/status.h"
#include "copy/staged_job.h"
#include "copy/staging.h"
#include "copy/urgent.h"
#include "system/demote.h"
#include "system/streaming.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Smaller transfers copy by memcpy(), and so do larger pushes without demotion. */
enum { LARGE = 2097152, MOST_STREAMED_UP = 33554432 };

/* The bytes of more buffers would leave the cache before the device has read them. */
enum { MOST_DEMOTED = 8 };

/* A thread polls a fence so often, some 100 microseconds, before it sleeps. */
enum { POLLS = 2000 };

/* The number of workers of a transfer that no thread can enter any more. */
enum { OVER = -1 };

/* A transfer has one worker for so many pieces, but these at least: more would keep one another waiting. A thread that
 * waits for the transfer always takes part. */
enum { PIECES_EACH = 8, LEAST_WORKERS = 8 };

static struct sm_staged_job *get_job_of_task(struct sm_task *task)
{
    return (struct sm_staged_job *)(void *)((char *)task - offsetof(struct sm_staged_job, task));
}

static struct sm_staged_job *get_job_of_work(struct sm_host_work *work)
{
    return (struct sm_staged_job *)(void *)((char *)work - offsetof(struct sm_staged_job, work));
}

static void release_fences(struct sm_staged_job *job)
{
    sm_events_add(&job->progress);
    sm_copy_threads_remove(&job->task);
    sm_bulk_end(job->internal->device, job->up ? SM_H2D : SM_D2H);
    sm_fence_drop(job->device_fence);
    sm_fence_drop(job->host_fence);
}

/* Ends the fences. The last worker calls it. */
static void end_job(struct sm_staged_job *job)
{
    sm_staged_end_buffers(job);
    if (sm_fence_state(job->host_fence) == SM_FENCE_QUEUEING) {
        const bool lost = !job->up && sm_staged_has_failed(job);
        sm_fence_close(job->host_fence, lost ? SM_FENCE_LOST : SM_FENCE_DONE, false);
    }
    release_fences(job);
}

/* ---- A thread's part ---- */

static bool has_pieces_or_failed(struct sm_staged_job *job)
{
    return atomic_load_explicit(&job->taken, memory_order_relaxed) < job->cut.pieces || sm_staged_has_failed(job);
}

/* Counts the thread as a worker, also to end a transfer that failed before any thread worked on it. Returns false if
 * the transfer needs no thread any more, or has the most workers. */
static bool enter_job(struct sm_staged_job *job, int most)
{
    int workers = atomic_load(&job->workers);
    while (workers != OVER && workers < most && has_pieces_or_failed(job))
        if (atomic_compare_exchange_weak(&job->workers, &workers, workers + 1))
            return true;
    return false;
}

static void leave_job(struct sm_staged_job *job)
{
    int workers = atomic_load(&job->workers);
    while (!atomic_compare_exchange_weak(&job->workers, &workers, workers == 1 ? OVER : workers - 1))
        ;
    if (workers == 1)
        end_job(job);
}

static void work_on_job(struct sm_staged_job *job)
{
    const size_t pieces = job->cut.pieces;
    synced_mem_status status = job->up ? SYNCED_MEM_OK : sm_staged_queue_chunks(job);
    while (status == SYNCED_MEM_OK && !sm_staged_has_failed(job)) {
        const size_t piece = atomic_fetch_add_explicit(&job->taken, 1, memory_order_relaxed);
        if (piece >= pieces)
            break;
        status = sm_staged_move_piece(job, piece);
    }
    if (status != SYNCED_MEM_OK)
        sm_staged_fail(job, status);
    leave_job(job);
}

static void wait_for_source_write(struct sm_staged_job *job)
{
    const synced_mem_status status = sm_fence_wait(job->after);
    if (status != SYNCED_MEM_OK)
        sm_staged_fail(job, status);
}

static int count_most_workers(const struct sm_staged_job *job)
{
    const size_t most = job->cut.pieces / PIECES_EACH;
    return most < LEAST_WORKERS ? LEAST_WORKERS : most < INT_MAX ? (int)most : INT_MAX;
}

static void run_task(struct sm_task *task)
{
    struct sm_staged_job *const job = get_job_of_task(task);
    if (!enter_job(job, count_most_workers(job)))
        return;
    sm_device_stay(job->internal->device);
    work_on_job(job);
}

static void wait_for_task_source(struct sm_task *task)
{
    struct sm_staged_job *const job = get_job_of_task(task);
    sm_device_stay(job->internal->device);
    wait_for_source_write(job);
}

static void free_task_job(struct sm_task *task)
{
    struct sm_staged_job *const job = get_job_of_task(task);
    sm_fence_drop(job->after);
    free(job);
}

/* ---- Waiting ---- */

/* Waits for the threads that still copy the last pieces, which takes a few microseconds. */
static void wait_for_others(struct sm_staged_job *job, const struct sm_fence *fence)
{
    for (int i = 0; i < POLLS && sm_fence_state(fence) == SM_FENCE_QUEUEING; i++)
        sm_pause();
    unsigned seen = sm_events_seen(&job->progress);
    while (sm_fence_state(fence) == SM_FENCE_QUEUEING) {
        sm_events_wait(&job->progress, seen);
        seen = sm_events_seen(&job->progress);
    }
}

/* A thread that waits takes part. So the transfer makes progress even while the copy threads wait for something
 * else. */
static synced_mem_status finish_work(struct sm_host_work *work, const struct sm_fence *fence)
{
    struct sm_staged_job *const job = get_job_of_work(work);
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

static bool end_unbegun_job(struct sm_staged_job *job)
{
    int workers = 0;
    return atomic_compare_exchange_strong(&job->workers, &workers, OVER);
}

/* Earlier work on a push's device copy is on the internal stream, and no longer entered. So the fence stands for it. */
void sm_staged_cancel(struct sm_fence *arrival)
{
    if (!arrival || !arrival->work || arrival->work->finish != finish_work)
        return;
    struct sm_staged_job *const job = get_job_of_work(arrival->work);
    if ((sm_staged_has_threads() && atomic_load(&job->is_known)) || !end_unbegun_job(job))
        return;
    if (!job->up)
        sm_fence_close(job->device_fence, SM_FENCE_DONE, false);
    else if (sm_fence_record_event(job->device_fence, job->internal->handle) != SYNCED_MEM_OK)
        (void)sm_staged_end_device_part(job);
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

static void copy_by_memcpy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void copy_and_demote(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    sm_demote(to, bytes);
}

/* A device that reads bytes from another processor's own caches is slower than from memory, and from the shared cache
 * it is faster. */
static sm_host_copy *choose_copy(bool up, size_t size)
{
    if (size < LARGE)
        return copy_by_memcpy;
    if (up && sm_can_demote())
        return copy_and_demote;
    return up && size > MOST_STREAMED_UP ? copy_by_memcpy : sm_copy_streaming;
}

/* Two buffers for each thread, the caller's included, if there are so many chunks, and fewer if their bytes are
 * demoted. */
static size_t choose_buffers(const struct sm_cut *cut, unsigned threads, sm_host_copy *copy)
{
    const size_t of_threads = 2 * ((size_t)threads + 1);
    const size_t most = copy == copy_and_demote && of_threads > MOST_DEMOTED ? MOST_DEMOTED : of_threads;
    return cut->chunks < most ? cut->chunks : most;
}

static struct sm_staged_job *create_job(const struct sm_transfer *transfer, unsigned threads,
                                        struct sm_stream *internal, struct sm_fence *after)
{
    const bool up = transfer->direction == SM_H2D;
    const struct sm_cut cut = sm_cut_up(transfer->size, up, sm_staging_buffer());
    sm_host_copy *const copy = choose_copy(up, transfer->size);
    const size_t count = choose_buffers(&cut, threads, copy);
    struct sm_staged_job *const job = calloc(1, sizeof *job + count * sizeof *job->buffers);
    if (!job) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a transfer");
        return NULL;
    }
    job->task = (struct sm_task){.work = run_task, .wait = wait_for_task_source, .free = free_task_job, .holders = 1};
    job->work = (struct sm_host_work){.finish = finish_work, .drop = drop_work};
    job->up = up;
    job->of_user = sm_copy_is_of_user(up ? transfer->from : transfer->to);
    job->copy = copy;
    job->prefetches = !up && copy == copy_by_memcpy;
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
static synced_mem_status open_fence(struct sm_staged_job *job, struct sm_fence **out)
{
    sm_task_hold(&job->task);
    const synced_mem_status status = sm_fence_open(job->internal->device, sm_stream_new_serial(), &job->work, out);
    if (status != SYNCED_MEM_OK)
        sm_task_drop(&job->task);
    return status;
}

static synced_mem_status open_fences(struct sm_staged_job *job)
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
    struct sm_staged_job *const job = read ? create_job(transfer, threads, internal, after) : NULL;
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
