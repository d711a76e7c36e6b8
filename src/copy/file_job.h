/*
 * File jobs: bytes that threads move between files and memory, of the host or of a device. A job consists of parts,
 * each with bytes that are contiguous on both sides, and has one fence. The threads cut it into chunks, which they take
 * one by one (base/file_threads.h); a thread that waits for a job that reads to the host takes some too.
 *
 *    collect    add a part, with the locks of all objects concerned held; the job is entered as work in flight
 *    begin      let the threads work on it
 *
 * Of bytes on a device a chunk goes through a page-locked buffer of the thread, so there is never a host copy of all.
 */
#ifndef SM_FILE_JOB_H
#define SM_FILE_JOB_H

#include "copy/file.h"
#include "copy/inflight.h"
#include "copy/scratch.h"
#include "copy/stored.h"

/* The parts that a call reads. */
struct sm_file_reads {
    size_t room;                /* for so many parts */
    struct sm_stream *internal; /* the stream of transfers to a device; NULL: the parts are host memory */
    bool by_kernel;             /* a kernel may make these, as the call is on many and may wait for other kernels */
    struct sm_file_job *job;    /* NULL: none was added */
};

/* Adds size bytes of the file to the first bytes of the copy, and enters the job as its arriving write: nothing else
 * may be in flight on the copy, except on the internal stream. range: that the bytes are in, of the scratch file; the
 * job holds it until they are read. NULL: another file. owner: whose memory it is, the same for copies in one
 * allocation alone. Does not block. ERR_OUT_OF_HOST_MEMORY, ERR_FILE (there is no thread), and of a device ERR_CUDA:
 * nothing has changed. */
synced_mem_status sm_file_reads_add(struct sm_file_reads *reads, struct synced_mem_file *file, uint64_t offset,
                                    struct sm_scratch_range *range, struct sm_copy *to, size_t size, const void *owner);
/* Begins the job, if there is one. Does not block. The collection is then empty. */
void sm_file_reads_begin(struct sm_file_reads *reads);

/* The end of a job, for a caller that waits for it (sm_file_job_wait()). */
struct sm_file_end {
    struct sm_events ended;
    struct sm_mutex lock;
    bool is_over; /* guarded by the lock */
    struct sm_outcome outcome;
};

/* The parts that a call writes to one file. */
struct sm_file_writes {
    size_t room;
    struct synced_mem_file *file;
    struct sm_file_end *end;  /* gets a failure, of which the file then does not know; NULL: nobody waits */
    struct sm_stored *stored; /* learns how the job ends; NULL: nobody asks */
    struct sm_file_job *job;  /* made by sm_file_writes_make() */
    struct sm_use *reserved;  /* one for each part */
};

/* The source that a part is read from. */
struct sm_file_source {
    struct sm_copy *copy;
    size_t size;                /* of its first bytes */
    struct sm_stream *internal; /* for transfers from a device; NULL: host memory */
    struct sm_fence *after;     /* the work that brings the contents; NULL: none. The job takes a hold on it */
};

/* Makes the job. On failure nothing has changed. ERR_OUT_OF_HOST_MEMORY, ERR_FILE (there is no thread). */
synced_mem_status sm_file_writes_make(struct sm_file_writes *writes);
/* Adds a part, which goes to the offset in the file, and enters the job as a read of its copy. Does not block. Cannot
 * fail. */
void sm_file_writes_add(struct sm_file_writes *writes, const struct sm_file_source *source, uint64_t offset);
/* Begins the job, which has parts. It comes after earlier ones that read or write the same bytes. Does not block unless
 * the system has no memory. */
void sm_file_writes_begin(struct sm_file_writes *writes);

/* Waits for the job, and returns how it has ended. Blocks. */
synced_mem_status sm_file_job_wait(struct sm_file_end *end);

/* Ends the threads, after all jobs, and waits for them. */
void sm_file_jobs_shutdown(void);

#endif
