/* Jobs that move bytes between files and memory. */
#include "copy/file_job.h"

#include "base/process.h"
#include "base/side.h"
#include "base/stats.h"
#include "copy/file_work.h"
#include "stream/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making ---- */

static synced_mem_status open_job_fence(struct sm_file_job *job)
{
    const uint64_t serial = sm_stream_new_serial();
    sm_file_task_hold(&job->task);
    if (!job->internal) {
        sm_fence_begin_on_host(&job->on_host, serial, &job->work);
        job->fence = &job->on_host;
        return SYNCED_MEM_OK;
    }
    return sm_fence_open(job->internal->device, serial, &job->work, &job->fence);
}

static synced_mem_status make_job(size_t room, bool writes, struct sm_stream *internal, struct sm_file_job **out)
{
    SM_TRY(sm_file_work_start_threads(writes ? SM_FILE_WRITERS : SM_FILE_READERS));
    const size_t size = sizeof(struct sm_file_part) + sizeof(struct sm_file_extent);
    struct sm_file_job *const job = calloc(1, sizeof *job + room * size);
    if (!job)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a file's transfers");
    sm_file_work_prepare(job);
    job->writes = writes;
    job->generation = sm_process_generation();
    job->internal = internal;
    sm_trace_cause(&job->who);
    job->extents = (struct sm_file_extent *)(void *)(job->parts + room);
    const synced_mem_status status = open_job_fence(job);
    if (status != SYNCED_MEM_OK)
        free(job);
    else
        *out = job;
    return status;
}

/* Counts the transfer for the calling thread's object, in a trace. */
static void count_for_object(enum sm_direction direction, size_t size)
{
    struct sm_trace_who who;
    sm_trace_staged_begun(direction, size, &who);
}

/* ---- Reads ---- */

synced_mem_status sm_file_reads_add(struct sm_file_reads *reads, struct synced_mem_file *file, uint64_t offset,
                                    struct sm_scratch_range *range, struct sm_copy *to, size_t size, const void *owner)
{
    if (!reads->job)
        SM_TRY(make_job(reads->room, false, reads->internal, &reads->job));
    struct sm_file_job *const job = reads->job;
    struct sm_file_part *const part = &job->parts[job->count++];
    assert(job->count <= reads->room && size > 0);
    sm_file_hold(file);
    if (range)
        sm_scratch_hold(range);
    *part = (struct sm_file_part){.file = file,
                                  .offset = offset,
                                  .memory = sm_copy_data(to),
                                  .size = size,
                                  .owner = owner,
                                  .own = to->source == SYNCED_MEM_SOURCE_DEVICE,
                                  .range = range};
    job->bytes += size;
    sm_inflight_written(to, sm_fence_hold(job->fence));
    to->arriving = true;
    to->arrivals++;
    if (job->internal) {
        sm_count_up(SM_COUNT_h2d_transfers, 1);
        sm_count_up(SM_COUNT_h2d_bytes, size);
        count_for_object(SM_H2D, size);
    }
    return SYNCED_MEM_OK;
}

static int compare_parts(const void *a, const void *b)
{
    const struct sm_file_part *const first = a;
    const struct sm_file_part *const second = b;
    if (first->file != second->file)
        return (uintptr_t)first->file < (uintptr_t)second->file ? -1 : 1;
    return (first->offset > second->offset) - (first->offset < second->offset);
}

static struct sm_extent get_extent(const struct sm_file_part *part)
{
    return (struct sm_extent){.begin = part->offset, .end = sm_file_part_end(part)};
}

/* Sorts the parts by file and offset, and makes one of those that follow one another in the file and in memory, as the
 * pieces of a root do. Those on a device must be in one allocation, as the runtime refuses copies that reach into the
 * next one. */
static void sort_and_join_parts(struct sm_file_job *job)
{
    size_t count = 1;
    if (job->count > 1)
        qsort(job->parts, job->count, sizeof *job->parts, compare_parts);
    for (size_t i = 1; i < job->count; i++) {
        struct sm_file_part *const last = &job->parts[count - 1];
        const struct sm_file_part *const next = &job->parts[i];
        const bool follows = !next->range && next->file == last->file && next->internal == last->internal &&
                             next->offset == sm_file_part_end(last) && next->memory == last->memory + last->size &&
                             (next->owner == last->owner || !(job->internal || next->internal));
        if (follows) {
            last->size += next->size;
            if (!job->writes)
                sm_file_drop(next->file);
        } else {
            job->parts[count++] = *next;
        }
    }
    job->count = count;
    for (size_t i = 0; i < count; i++)
        job->extents[i].extent = get_extent(&job->parts[i]);
}

static void enter_reads(struct sm_file_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        sm_file_enter_read(job->parts[i].file, &job->extents[i], job->fence);
}

void sm_file_reads_begin(struct sm_file_reads *reads)
{
    struct sm_file_job *const job = reads->job;
    if (!job)
        return;
    sort_and_join_parts(job);
    reads->job = NULL;
    job->by_kernel = reads->by_kernel;
    enter_reads(job);
    sm_file_work_begin(job);
}

/* ---- Writes ---- */

/* Without memory for another wait the thread waits at once. */
static void wait_if_full(struct sm_file_job *job, struct sm_waits *waits)
{
    bool ended;
    if (!waits->full)
        return;
    sm_file_job_note(job, sm_waits_wait(waits, &ended));
    sm_waits_end(waits);
}

synced_mem_status sm_file_writes_make(struct sm_file_writes *writes)
{
    writes->reserved = sm_inflight_reserve_many(writes->room);
    size_t uses = 0;
    for (const struct sm_use *use = writes->reserved; use; use = use->next)
        uses++;
    synced_mem_status status =
        uses == writes->room
            ? SYNCED_MEM_OK
            : sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu writes", writes->room);
    if (status == SYNCED_MEM_OK)
        status = make_job(writes->room, true, NULL, &writes->job);
    if (status == SYNCED_MEM_OK) {
        writes->job->file = writes->file;
        sm_file_hold(writes->file);
        if (writes->stored) {
            writes->job->stored = sm_stored_hold(writes->stored);
            writes->stored->fence = sm_fence_hold(writes->job->fence);
        }
    } else {
        sm_inflight_unreserve_many(writes->reserved);
        writes->reserved = NULL;
    }
    return status;
}

void sm_file_writes_add(struct sm_file_writes *writes, const struct sm_file_source *source, uint64_t offset)
{
    struct sm_file_job *const job = writes->job;
    struct sm_file_part *const part = &job->parts[job->count++];
    struct sm_use *const use = writes->reserved;
    struct sm_replaced replaced = {.uses = NULL};
    assert(job->count <= writes->room && source->size > 0);
    writes->reserved = use->next;
    use->next = NULL;
    *part = (struct sm_file_part){.file = writes->file,
                                  .offset = offset,
                                  .memory = sm_copy_data(source->copy),
                                  .size = source->size,
                                  .owner = source->copy,
                                  .internal = source->internal};
    job->bytes += source->size;
    wait_if_full(job, &job->arrivals);
    (void)sm_waits_add(&job->arrivals, source->after);
    sm_inflight_read(source->copy, use, sm_fence_hold(job->fence), &replaced);
    sm_replaced_drop(&replaced);
    if (source->internal) {
        sm_count_up(SM_COUNT_d2h_transfers, 1);
        sm_count_up(SM_COUNT_d2h_bytes, source->size);
        count_for_object(SM_D2H, source->size);
    }
}

void sm_file_writes_begin(struct sm_file_writes *writes)
{
    struct sm_file_job *const job = writes->job;
    struct synced_mem_file *const file = writes->file;
    sm_inflight_unreserve_many(writes->reserved);
    writes->reserved = NULL;
    writes->job = NULL;
    sort_and_join_parts(job);
    job->end = writes->end;
    job->writing.fence = job->fence;
    wait_if_full(job, &job->arrivals);
    /* Some threads may all wait for earlier jobs: these must be before them in the queue. */
    sm_mutex_lock(&file->order);
    while (!sm_file_enter_writes(file, &job->writing, job->extents, job->count, &job->earlier))
        wait_if_full(job, &job->earlier);
    sm_file_work_begin(job);
    sm_mutex_unlock(&file->order);
}

synced_mem_status sm_file_job_wait(struct sm_file_end *end)
{
    for (bool over = false; !over;) {
        const unsigned seen = sm_events_seen(&end->ended);
        sm_mutex_lock(&end->lock);
        over = end->is_over;
        sm_mutex_unlock(&end->lock);
        if (!over)
            sm_events_wait(&end->ended, seen);
    }
    return sm_outcome_end(&end->outcome);
}

void sm_file_jobs_shutdown(void)
{
    sm_file_threads_end();
}
