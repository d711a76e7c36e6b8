/*
 * Open files, in which contents of objects are. The words:
 *
 *    backing   a range of the file that has contents of a living object; an extent
 *    read      a range of the file that a job (file_job.h) has yet to read; an extent
 *    write     a range of the file that is yet to be written, by a writing; an extent
 *    writing   what writes such ranges and has one fence: a file job
 *    cached    of a descriptor: its reads and writes go through the system's cache, unlike direct ones
 *
 * One lock guards the extents of all files.
 */
#ifndef SM_FILE_H
#define SM_FILE_H

#include "base/extents.h"
#include "base/mutex.h"
#include "base/status.h"
#include "stream/waits.h"
#include "system/file_at.h"

struct sm_file_writing {
    struct sm_fence *fence; /* done when all of its ranges are written, or it has failed */
    uint64_t number;        /* among those of its file */
    struct sm_file_writing *older;
    struct sm_file_writing *newer;
};

/* A read or a write. */
struct sm_file_extent {
    struct sm_extent extent;     /* first, as the tree gives it back */
    struct sm_fence *fence;      /* of its job; no longer queueing when the job has read, or written */
    bool is_covered;             /* a later write of all of its bytes comes after it, and is in the tree for both */
    struct sm_file_extent *next; /* in a list of those that a write covers */
};

struct synced_mem_file {
    atomic_uint references;
    unsigned generation; /* of the process that opened it */
    int descriptor;      /* the library's own */
    int cached;          /* of a direct file that can be written; else -1 */
    struct sm_file_facts facts;
    struct sm_mutex order; /* held from the entry of a write until its job is queued, so both have the same order */
    /* Guarded by the lock of all files: */
    struct sm_extents backings;
    struct sm_extents reads;
    struct sm_extents writes;
    struct sm_file_writing *oldest; /* of those that have not ended, in the order of their begin */
    struct sm_file_writing *newest;
    uint64_t begun;            /* counts them */
    struct sm_outcome failure; /* of the first that failed since the last sm_file_wait() */
    struct sm_events ended;
};

/* Opens the file behind the program's descriptor once more. ERR_INVALID_ARGUMENT: it can't be read at offsets, or is
 * not open. ERR_FILE: the system refuses. */
synced_mem_status sm_file_open(int descriptor, struct synced_mem_file **out);
/* Opens it once more, past the system's cache, where the system and the file system allow that. Else holds it.
 * ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_file_open_direct(struct synced_mem_file *file, struct synced_mem_file **out);
void sm_file_hold(struct synced_mem_file *file);
/* Removes a reference. The last one closes the file. Ignores NULL. */
void sm_file_drop(struct synced_mem_file *file);

/* Checks that the process may read the file, and that so many bytes can be at the offset. ERR_FORKED,
 * ERR_INVALID_ARGUMENT. */
synced_mem_status sm_file_check_range(const struct synced_mem_file *file, uint64_t offset, uint64_t size);
/* Checks that the file has so many bytes at the offset, unless it is about to be written. ERR_FILE. */
synced_mem_status sm_file_check_end(struct synced_mem_file *file, uint64_t offset, uint64_t size);

/* Take and release the lock of all files, for the functions of extents. Nothing else is called meanwhile. */
void sm_files_lock(void);
void sm_files_unlock(void);

/* Adds to waits the fences of the writings that have yet to write bytes of the range, or to make the file as long.
 * Returns SM_AGAIN if there are any. */
synced_mem_status sm_file_find_writes(struct synced_mem_file *file, uint64_t offset, uint64_t size,
                                      struct sm_waits *waits);

/* Enters a read, of which the extent is set. Later writes of these bytes come after it, also if the object whose
 * contents they are has left the file. */
void sm_file_enter_read(struct synced_mem_file *file, struct sm_file_extent *read, struct sm_fence *fence);
/* Ends the read, and removes a reference to the file. */
void sm_file_end_read(struct synced_mem_file *file, struct sm_file_extent *read);

/* Enters a writing with its writes, of which the extents are set. Adds to waits the fences of earlier jobs that read or
 * write the same bytes. Returns false if waits is full: nothing was entered, and the caller waits and calls again. */
bool sm_file_enter_writes(struct synced_mem_file *file, struct sm_file_writing *writing, struct sm_file_extent *writes,
                          size_t count, struct sm_waits *waits);
/* Ends the writing, with its failure or OK, and removes a reference to the file: when sm_file_wait() has returned, no
 * writing holds it. */
void sm_file_end_writes(struct synced_mem_file *file, struct sm_file_writing *writing, struct sm_file_extent *writes,
                        size_t count, const struct sm_outcome *outcome);

/* Waits for the writings that have begun, and returns why the first of all since the last call failed. Blocks. */
synced_mem_status sm_file_wait(struct synced_mem_file *file);

#endif
