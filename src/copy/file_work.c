/* Threads that work on file jobs. */
#include "copy/file_work.h"

#include "base/process.h"
#include "copy/scratch.h"
#include "system/process.h"

#include <stddef.h>
#include <stdlib.h>

/* Sixteen threads with two chunks of 2 MiB each fill a link of 53 GB/s from the system's cache; fewer threads do not.
 * With 4 MiB they reach 41 GB/s, as the processor's cache does not keep the chunks until the device has read them.
 * Copies of 1 MiB reach 47 GB/s, whoever queues them. (H100, 2026-11-27) */
enum { LEAST_THREADS = 4, MOST_THREADS = 16, CHUNK = 2097152, CHUNK_STEP = 65536, SMALLEST_CHUNK = 262144 };
/* Bytes between two parts in the file that are read with them, as that is faster than another read. */
enum { LARGEST_GAP = 65536 };
/* Larger parts of host memory are written from where they are, as that is faster than to gather them. */
enum { LARGEST_GATHERED = 65536 };

static struct sm_file_job *get_job_of_task(struct sm_file_task *task)
{
    return (struct sm_file_job *)(void *)((char *)task - offsetof(struct sm_file_job, task));
}

static struct sm_file_job *get_job_of_work(struct sm_host_work *work)
{
    return (struct sm_file_job *)(void *)((char *)work - offsetof(struct sm_file_job, work));
}

void sm_file_job_note(struct sm_file_job *job, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        return;
    sm_mutex_lock(&job->lock);
    if (job->status == SYNCED_MEM_OK) {
        job->status = status;
        job->why = sm_detail_get();
    }
    sm_mutex_unlock(&job->lock);
}

static synced_mem_status get_job_status(struct sm_file_job *job)
{
    sm_mutex_lock(&job->lock);
    const synced_mem_status status = job->status;
    sm_mutex_unlock(&job->lock);
    return status;
}

/* ---- Chunks ---- */

/* Adds the parts to the chunk that are read with its first one: they follow it in the file, perhaps with a small gap,
 * and the chunk has room. Of the last one for a device the chunk may have a part only; the host would have to copy it.
 * Returns where the next chunk begins. */
static struct sm_file_place extend_chunk(const struct sm_file_job *job, struct sm_file_chunk *chunk, size_t first)
{
    const uint64_t limit = chunk->begin + job->chunk;
    size_t i = first + 1;
    for (; i < job->count; i++, chunk->count++) {
        const struct sm_file_part *const next = &job->parts[i];
        if (next->file != chunk->file || next->offset < chunk->begin || next->offset > chunk->end + LARGEST_GAP ||
            next->offset >= limit)
            break;
        if (sm_file_part_end(next) > limit && (!job->internal || next->offset < chunk->end))
            break;
        if (sm_file_part_end(next) > limit) {
            chunk->count++;
            chunk->end = limit;
            return (struct sm_file_place){.part = i, .taken = (size_t)(limit - next->offset)};
        }
        if (sm_file_part_end(next) > chunk->end)
            chunk->end = sm_file_part_end(next);
    }
    return (struct sm_file_place){.part = i};
}

static bool is_gathered(const struct sm_file_part *part)
{
    return part->internal || part->size <= LARGEST_GATHERED;
}

/* Adds the parts to the chunk that are written with its first one: they follow it in the file without a gap, and the
 * chunk has room for all of them. Returns where the next chunk begins. */
static struct sm_file_place extend_write(const struct sm_file_job *job, struct sm_file_chunk *chunk, size_t first)
{
    const uint64_t limit = chunk->begin + job->chunk;
    size_t i = first + 1;
    for (; i < job->count && is_gathered(&job->parts[first]); i++, chunk->count++) {
        const struct sm_file_part *const next = &job->parts[i];
        if (next->offset != chunk->end || sm_file_part_end(next) > limit || next->internal != chunk->parts->internal ||
            !is_gathered(next))
            break;
        chunk->end = sm_file_part_end(next);
    }
    return (struct sm_file_place){.part = i};
}

/* Takes the next bytes for the thread. A part that is larger than a chunk is taken piece by piece. Returns false if no
 * bytes are left, or the job has failed. */
static bool take_chunk(struct sm_file_job *job, struct sm_file_chunk *chunk)
{
    sm_mutex_lock(&job->lock);
    const bool any = job->status == SYNCED_MEM_OK && job->next.part < job->count;
    if (any) {
        const size_t first = job->next.part;
        const struct sm_file_part *const part = &job->parts[first];
        const size_t rest = part->size - job->next.taken;
        *chunk = (struct sm_file_chunk){.internal = job->internal,
                                        .by_kernel = job->by_kernel,
                                        .file = part->file,
                                        .begin = part->offset + job->next.taken,
                                        .parts = part,
                                        .count = 1,
                                        .most = job->chunk,
                                        .who = &job->who};
        chunk->end = chunk->begin + (rest < job->chunk ? rest : job->chunk);
        if (rest > job->chunk)
            job->next.taken += job->chunk;
        else if (!job->internal && job->next.taken > 0)
            job->next = (struct sm_file_place){.part = first + 1};
        else
            job->next = job->writes ? extend_write(job, chunk, first) : extend_chunk(job, chunk, first);
    }
    sm_mutex_unlock(&job->lock);
    return any;
}

static bool has_taken_all(const struct sm_file_job *job)
{
    return job->next.part == job->count || job->status != SYNCED_MEM_OK;
}

/* ---- A thread's part ---- */

/* Counts the thread as a worker. */
static bool enter_job(struct sm_file_job *job)
{
    sm_mutex_lock(&job->lock);
    const bool is_open = !job->over && (job->next.part < job->count || job->status != SYNCED_MEM_OK);
    job->workers += is_open;
    sm_mutex_unlock(&job->lock);
    return is_open;
}

/* Returns how the device's part of a read has ended. Once all of its copies are queued, a stream can wait for it. */
static void end_read_to_device(struct sm_file_job *job)
{
    const struct sm_stream *const internal = job->internal;
    if (get_job_status(job) == SYNCED_MEM_OK && sm_fence_record_event(job->fence, internal->handle) == SYNCED_MEM_OK)
        return;
    const synced_mem_status status = sm_device_stream_sync(internal->device, internal->handle);
    const bool stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    sm_file_job_note(job, status);
    sm_fence_close(job->fence, get_job_status(job) == SYNCED_MEM_OK ? SM_FENCE_DONE : SM_FENCE_LOST, stray);
}

/* Ends a write, whose failure is the file's, or that of the caller who waits: the object is as before. */
static void end_write(struct sm_file_job *job)
{
    const struct sm_outcome outcome = {.status = job->status, .detail = job->why};
    const struct sm_outcome none = {.status = SYNCED_MEM_OK};
    struct sm_file_end *const end = job->end;
    struct synced_mem_file *const file = job->file;
    struct sm_stored *const stored = job->stored;
    job->file = NULL;
    job->stored = NULL;
    if (stored)
        sm_stored_end(stored, outcome.status == SYNCED_MEM_OK);
    sm_stored_drop(stored);
    sm_file_end_writes(file, &job->writing, job->extents, job->count, end ? &none : &outcome);
    sm_fence_close(job->fence, SM_FENCE_DONE, false);
    if (!end)
        return;
    end->outcome = outcome;
    sm_mutex_lock(&end->lock); /* the caller may give up the struct as soon as it is over */
    end->is_over = true;
    sm_events_add(&end->ended);
    sm_mutex_unlock(&end->lock);
}

/* Other contents may be written there from now on. */
static void drop_ranges(struct sm_file_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        sm_scratch_drop(job->parts[i].range);
}

/* The fence may be held long after the reads. Each member is NULL before its reference goes, as the child of a fork
 * drops what is left. */
static void end_reads_of_files(struct sm_file_job *job)
{
    for (size_t i = 0; i < job->count && !job->writes; i++) {
        struct synced_mem_file *const file = job->parts[i].file;
        job->parts[i].file = NULL;
        sm_file_end_read(file, &job->extents[i]);
    }
}

/* The last worker calls it. */
static void end_job(struct sm_file_job *job)
{
    drop_ranges(job);
    const bool failed = get_job_status(job) != SYNCED_MEM_OK;
    end_reads_of_files(job);
    if (job->writes)
        end_write(job);
    else if (job->internal)
        end_read_to_device(job);
    else
        sm_fence_close(job->fence, failed ? SM_FENCE_LOST : SM_FENCE_DONE, false);
    sm_events_add(&job->progress);
    sm_file_threads_remove(sm_file_job_kind(job), &job->task);
    sm_fence_drop(job->fence);
}

static void leave_job(struct sm_file_job *job)
{
    sm_mutex_lock(&job->lock);
    job->workers--;
    const bool is_last = job->workers == 0 && !job->over && has_taken_all(job);
    job->over = job->over || is_last;
    sm_mutex_unlock(&job->lock);
    if (is_last)
        end_job(job);
}

static synced_mem_status move_chunk(const struct sm_file_job *job, const struct sm_file_chunk *chunk,
                                    struct sm_file_buffer *buffer)
{
    return job->writes ? sm_file_chunk_write(chunk, buffer) : sm_file_chunk_read(chunk, buffer);
}

/* The buffers of a thread. It uses those for devices in turn. A read to the host has one of its own: those of an
 * earlier job may wait for a kernel, which may be for the host to end. */
enum { BUFFERS = 3, FOR_DEVICES = 2, FOR_HOST = 2 };
struct buffers {
    struct sm_file_buffer each[BUFFERS];
    unsigned turn;
};

static struct sm_file_buffer *choose_buffer(const struct sm_file_job *job, struct buffers *buffers)
{
    const bool is_to_host = !job->writes && !job->internal;
    return &buffers->each[is_to_host ? FOR_HOST : buffers->turn++ % FOR_DEVICES];
}

static void move_chunks(struct sm_file_job *job, struct buffers *buffers)
{
    struct sm_file_chunk chunk;
    while (take_chunk(job, &chunk))
        sm_file_job_note(job, move_chunk(job, &chunk, choose_buffer(job, buffers)));
}

/* The thread keeps its buffers, whose transfers may be in flight, for the next job, which it begins at once: so the
 * file is read meanwhile. */
static _Thread_local struct buffers kept;

static void work_as_thread(struct sm_file_job *job)
{
    if (!enter_job(job))
        return;
    move_chunks(job, &kept);
    for (int i = 0; i < BUFFERS; i++)
        sm_file_buffer_leave_job(&kept.each[i]);
    leave_job(job);
}

/* Gives up the calling thread's buffers. */
static bool rest(bool waits)
{
    bool any = false;
    for (int i = 0; i < BUFFERS; i++) {
        const bool stays = !waits && sm_file_buffer_is_in_use(&kept.each[i]);
        any = any || stays;
        if (!stays)
            (void)sm_file_buffer_end(&kept.each[i]);
    }
    return !any;
}

/* For a read to the host. */
static void work_as_caller(struct sm_file_job *job)
{
    struct buffers buffers = {.turn = 0};
    if (!enter_job(job))
        return;
    move_chunks(job, &buffers);
    for (int i = 0; i < BUFFERS; i++)
        sm_file_job_note(job, sm_file_buffer_end(&buffers.each[i]));
    leave_job(job);
}

/* ---- Waiting ---- */

static void run_task(struct sm_file_task *task)
{
    struct sm_file_job *const job = get_job_of_task(task);
    if (job->internal)
        sm_device_stay(job->internal->device);
    work_as_thread(job);
}

/* A job that has failed goes on to wait for earlier ones too: later ones may wait for it alone. */
static void wait_for_earlier_work(struct sm_file_task *task)
{
    struct sm_file_job *const job = get_job_of_task(task);
    bool ended;
    sm_file_job_note(job, sm_waits_wait(&job->arrivals, &ended));
    sm_file_job_note(job, sm_waits_wait(&job->earlier, &ended));
}

/* In the child of a fork the job may not have ended. */
static void free_task_job(struct sm_file_task *task)
{
    struct sm_file_job *const job = get_job_of_task(task);
    sm_waits_end(&job->arrivals);
    sm_waits_end(&job->earlier);
    for (size_t i = 0; i < job->count && !job->writes; i++)
        sm_file_drop(job->parts[i].file);
    sm_file_drop(job->file);
    sm_stored_drop(job->stored);
    free(job);
}

/* In a forked child nobody works on the parent's jobs, and nobody knows how far they have come. */
static synced_mem_status give_up_as_child(const struct sm_file_job *job)
{
    if (sm_fence_state(job->fence) == SM_FENCE_QUEUEING)
        sm_fence_close(job->fence, job->writes ? SM_FENCE_DONE : SM_FENCE_LOST, false);
    return job->writes ? SYNCED_MEM_OK
                       : sm_fail(SYNCED_MEM_ERR_FORKED, "the parent process was reading the contents from a file");
}

/* A thread that waits for a read to the host takes part. Of a read to a device it would have to wait until the copies
 * from its buffers have ended, so it could not go on as soon as all are queued. A write could raise a signal. */
static synced_mem_status finish_work(struct sm_host_work *work, const struct sm_fence *fence)
{
    struct sm_file_job *const job = get_job_of_work(work);
    if (job->generation != sm_process_generation())
        return give_up_as_child(job);
    if (!job->writes && !job->internal && sm_fence_state(fence) == SM_FENCE_QUEUEING)
        work_as_caller(job);
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
    sm_file_task_drop(&get_job_of_work(work)->task);
}

/* ---- The begin ---- */

/* Threads that wait for a disk, or for earlier work, need no processor. To count processors takes longer than to write
 * a small object. */
synced_mem_status sm_file_work_start_threads(enum sm_file_threads kind)
{
    static atomic_uint known;
    unsigned processors = atomic_load_explicit(&known, memory_order_relaxed);
    if (processors == 0) {
        processors = sm_processors();
        atomic_store_explicit(&known, processors, memory_order_relaxed);
    }
    const unsigned least = processors < LEAST_THREADS ? LEAST_THREADS : processors;
    if (sm_file_threads_start(kind, least < MOST_THREADS ? least : MOST_THREADS, rest))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FILE, "the system allows no thread to read or write files");
}

void sm_file_work_prepare(struct sm_file_job *job)
{
    job->task = (struct sm_file_task){.work = run_task, .free = free_task_job, .holders = 1};
    job->work = (struct sm_host_work){.finish = finish_work, .drop = drop_work};
}

/* One chunk for every thread, but none larger than a buffer, nor so small that its system call takes longer than its
 * bytes. */
static size_t choose_chunk_size(uint64_t bytes)
{
    const uint64_t even = (bytes / MOST_THREADS + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
    return even < SMALLEST_CHUNK ? SMALLEST_CHUNK : even < CHUNK ? (size_t)even : CHUNK;
}

/* Returns whether one chunk has all parts, or so many as lie side by side: parts of a read that lie far apart in the
 * file take a read each, which threads can wait for together. The parts are sorted. */
static bool is_one_chunk(const struct sm_file_job *job)
{
    const struct sm_file_part *const first = &job->parts[0];
    const struct sm_file_part *const last = &job->parts[job->count - 1];
    if (job->bytes > job->chunk)
        return false;
    return job->count == 1 ||
           (!job->writes && last->file == first->file && sm_file_part_end(last) - first->offset <= job->chunk);
}

void sm_file_work_begin(struct sm_file_job *job)
{
    job->chunk = choose_chunk_size(job->bytes);
    job->task.wait = job->arrivals.count + job->earlier.count > 0 ? wait_for_earlier_work : NULL;
    job->task.is_small = is_one_chunk(job);
    sm_file_threads_add(sm_file_job_kind(job), &job->task);
    sm_file_task_drop(&job->task);
}
