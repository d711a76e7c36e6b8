/* Jobs that move bytes between files and memory. */
#include "copy/file_job.h"

#include "base/file_threads.h"
#include "base/process.h"
#include "base/side.h"
#include "base/stats.h"
#include "copy/file_chunk.h"
#include "stream/stream.h"
#include "system/process.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Sixteen threads with chunks of 4 MiB fill a link of 55 GB/s from the system's cache; fewer do not, and smaller chunks
 * take longer to queue. */
enum { LEAST_THREADS = 4, MOST_THREADS = 16, CHUNK = 4194304, CHUNK_STEP = 65536, SMALLEST_CHUNK = 262144 };
/* Bytes between two parts in the file that are read with them, as that is faster than another read. */
enum { LARGEST_GAP = 65536 };
/* Larger parts of host memory are written from where they are, as that is faster than to gather them. */
enum { LARGEST_GATHERED = 65536 };

/* A place among the bytes of a job. */
struct place {
    size_t part;
    size_t taken; /* bytes of it that are before the place */
};

struct sm_file_job {
    struct sm_file_task task;
    struct sm_host_work work;
    bool writes;
    unsigned generation;          /* the process whose threads work on it */
    struct synced_mem_file *file; /* held until it is written; a part that is read holds its own */
    struct sm_stream *internal;   /* of a read to a device; else NULL */
    bool by_kernel;               /* and a kernel may make its transfers */
    struct sm_fence *fence;
    struct sm_fence on_host; /* the fence, of a job that is no read to a device */
    /* Of a write: the work that brings the contents, and earlier jobs on the same bytes of the file. */
    struct sm_waits arrivals, earlier;
    struct sm_events progress;
    size_t chunk;
    struct sm_mutex lock; /* guards the next members */
    struct place next;    /* the first bytes that are left to take */
    unsigned workers;     /* threads at work */
    bool over;
    synced_mem_status status;
    struct sm_detail why;
    struct sm_trace_who who; /* the first object of the job */
    struct sm_file_writing writing;
    struct sm_file_extent *extents; /* of each part */
    struct sm_file_end *end;        /* NULL: the failure is the file's */
    struct sm_stored *stored;       /* held until it has ended; or NULL */
    /* Constant once it has begun: */
    uint64_t bytes;
    size_t count;
    struct sm_file_part parts[];
};

static struct sm_file_job *get_job_of_task(struct sm_file_task *task)
{
    return (struct sm_file_job *)(void *)((char *)task - offsetof(struct sm_file_job, task));
}

static struct sm_file_job *get_job_of_work(struct sm_host_work *work)
{
    return (struct sm_file_job *)(void *)((char *)work - offsetof(struct sm_file_job, work));
}

static enum sm_file_threads get_kind(const struct sm_file_job *job)
{
    return job->writes ? SM_FILE_WRITERS : SM_FILE_READERS;
}

static void note_status(struct sm_file_job *job, synced_mem_status status)
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

static uint64_t get_end(const struct sm_file_part *part)
{
    return part->offset + part->size;
}

/* Adds the parts to the chunk that are read with its first one: they follow it in the file, perhaps with a small gap,
 * and the chunk has room. Of the last one for a device the chunk may have a part only; the host would have to copy it.
 * Returns where the next chunk begins. */
static struct place extend_chunk(const struct sm_file_job *job, struct sm_file_chunk *chunk, size_t first)
{
    const uint64_t limit = chunk->begin + job->chunk;
    size_t i = first + 1;
    for (; i < job->count; i++, chunk->count++) {
        const struct sm_file_part *const next = &job->parts[i];
        if (next->file != chunk->file || next->offset < chunk->begin || next->offset > chunk->end + LARGEST_GAP ||
            next->offset >= limit)
            break;
        if (get_end(next) > limit && (!job->internal || next->offset < chunk->end))
            break;
        if (get_end(next) > limit) {
            chunk->count++;
            chunk->end = limit;
            return (struct place){.part = i, .taken = (size_t)(limit - next->offset)};
        }
        if (get_end(next) > chunk->end)
            chunk->end = get_end(next);
    }
    return (struct place){.part = i};
}

static bool is_gathered(const struct sm_file_part *part)
{
    return part->internal || part->size <= LARGEST_GATHERED;
}

/* Adds the parts to the chunk that are written with its first one: they follow it in the file without a gap, and the
 * chunk has room for all of them. Returns where the next chunk begins. */
static struct place extend_write(const struct sm_file_job *job, struct sm_file_chunk *chunk, size_t first)
{
    const uint64_t limit = chunk->begin + job->chunk;
    size_t i = first + 1;
    for (; i < job->count && is_gathered(&job->parts[first]); i++, chunk->count++) {
        const struct sm_file_part *const next = &job->parts[i];
        if (next->offset != chunk->end || get_end(next) > limit || next->internal != chunk->parts->internal ||
            !is_gathered(next))
            break;
        chunk->end = get_end(next);
    }
    return (struct place){.part = i};
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
            job->next = (struct place){.part = first + 1};
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
    note_status(job, status);
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
    sm_file_threads_remove(get_kind(job), &job->task);
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
        note_status(job, move_chunk(job, &chunk, choose_buffer(job, buffers)));
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
        note_status(job, sm_file_buffer_end(&buffers.each[i]));
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
    note_status(job, sm_waits_wait(&job->arrivals, &ended));
    note_status(job, sm_waits_wait(&job->earlier, &ended));
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

/* ---- Making ---- */

/* Threads that wait for a disk, or for earlier work, need no processor. To count processors takes longer than to write
 * a small object. */
static synced_mem_status start_threads(enum sm_file_threads kind)
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
    SM_TRY(start_threads(writes ? SM_FILE_WRITERS : SM_FILE_READERS));
    const size_t size = sizeof(struct sm_file_part) + sizeof(struct sm_file_extent);
    struct sm_file_job *const job = calloc(1, sizeof *job + room * size);
    if (!job)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a file's transfers");
    job->task = (struct sm_file_task){.work = run_task, .free = free_task_job, .holders = 1};
    job->work = (struct sm_host_work){.finish = finish_work, .drop = drop_work};
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
           (!job->writes && last->file == first->file && get_end(last) - first->offset <= job->chunk);
}

static void begin_job(struct sm_file_job *job)
{
    job->chunk = choose_chunk_size(job->bytes);
    job->task.wait = job->arrivals.count + job->earlier.count > 0 ? wait_for_earlier_work : NULL;
    job->task.is_small = is_one_chunk(job);
    sm_file_threads_add(get_kind(job), &job->task);
    sm_file_task_drop(&job->task);
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
    return (struct sm_extent){.begin = part->offset, .end = get_end(part)};
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
                             next->offset == get_end(last) && next->memory == last->memory + last->size &&
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
    begin_job(job);
}

/* ---- Writes ---- */

/* Without memory for another wait the thread waits at once. */
static void wait_if_full(struct sm_file_job *job, struct sm_waits *waits)
{
    bool ended;
    if (!waits->full)
        return;
    note_status(job, sm_waits_wait(waits, &ended));
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
    struct sm_use *earlier = NULL;
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
    sm_inflight_read(source->copy, use, sm_fence_hold(job->fence), &earlier);
    sm_uses_free(earlier);
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
    begin_job(job);
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
