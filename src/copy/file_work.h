/*
 * A file job, as its threads see it: they take its bytes chunk by chunk, and the last of them ends it. file_job.h has
 * what makes jobs.
 */
#ifndef SM_FILE_WORK_H
#define SM_FILE_WORK_H

#include "base/file_threads.h"
#include "copy/file_chunk.h"
#include "copy/file_job.h"

/* A place among the bytes of a job. */
struct sm_file_place {
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
    struct sm_mutex lock;      /* guards the next members */
    struct sm_file_place next; /* the first bytes that are left to take */
    unsigned workers;          /* threads at work */
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

static inline uint64_t sm_file_part_end(const struct sm_file_part *part)
{
    return part->offset + part->size;
}

static inline enum sm_file_threads sm_file_job_kind(const struct sm_file_job *job)
{
    return job->writes ? SM_FILE_WRITERS : SM_FILE_READERS;
}

/* Notes a failure of the job, if it is the first. */
void sm_file_job_note(struct sm_file_job *job, synced_mem_status status);

/* Sets what threads do for the new job, and what those do that wait for its fence. */
void sm_file_work_prepare(struct sm_file_job *job);

/* Starts the threads, unless they are there. ERR_FILE: the system allows none. */
synced_mem_status sm_file_work_start_threads(enum sm_file_threads kind);

/* Lets the threads work on the job, whose parts are complete. Takes over the caller's hold on it. Does not block. */
void sm_file_work_begin(struct sm_file_job *job);

#endif
