/*
 * Chunks of files: bytes that one thread reads or writes at once. A direct file (system/file_at.h) is read in whole
 * blocks, of which the bytes outside the chunk are not used. The edges of blocks are written through the system's
 * cache.
 */
#ifndef SM_FILE_CHUNK_H
#define SM_FILE_CHUNK_H

#include "copy/file.h"
#include "memory/pinned/host_pool.h"
#include "stream/stream.h"
#include "trace/trace.h"

/* Bytes that are contiguous in a file and in memory. */
struct sm_file_part {
    struct synced_mem_file *file;
    uint64_t offset;
    char *memory; /* of a device if the chunk or the part has a stream, else of the host */
    size_t size;
    const void *owner;              /* whose memory it is: the same for parts of one allocation, or of one copy */
    struct sm_stream *internal;     /* of a part that is written: for transfers from its device; NULL: host memory */
    bool own;                       /* of a part that is read: library memory, which a kernel may write */
    struct sm_scratch_range *range; /* of a part that is read from the scratch file: held until then; else NULL */
};

struct sm_file_chunk {
    struct synced_mem_file *file;
    uint64_t begin; /* in the file */
    uint64_t end;
    const struct sm_file_part *parts; /* whose bytes these are, each within the chunk; or one, of which it has some */
    size_t count;
    struct sm_stream *internal; /* of a chunk that is read: for transfers to the device; NULL: host memory */
    bool by_kernel;             /* and a kernel may make them */
    size_t most;                /* no chunk of the job has more bytes */
    const struct sm_trace_who *who;
};

/* A buffer of one thread. All zeros: it has no memory yet. */
struct sm_file_buffer {
    struct sm_pinned pinned; /* page-locked memory for the device, or */
    int device;
    void *pageable;         /* memory of the heap */
    size_t bytes;           /* of the memory; 0: none */
    struct sm_stream *on;   /* the stream of the last transfer from it */
    struct sm_fence *fence; /* of that transfer; NULL once it is done */
    bool of_earlier;        /* the job of that transfer has ended: its fence has a failure too */
    bool stray;             /* nobody can tell when the device is done with it; never used again */
};

/* Reads the chunk into the memory of its parts, or queues the transfers to it from the buffer. Blocks. ERR_FILE, GPU
 * errors, ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_file_chunk_read(const struct sm_file_chunk *chunk, struct sm_file_buffer *buffer);

/* Writes the chunk from the memory of its parts, which have one side and follow one another. Blocks. Errors: as above.
 */
synced_mem_status sm_file_chunk_write(const struct sm_file_chunk *chunk, struct sm_file_buffer *buffer);

/* Lets the job of the buffer's last transfer end. The next chunk is of another one. */
void sm_file_buffer_leave_job(struct sm_file_buffer *buffer);
/* Returns whether the device may still use the buffer. Does not block. */
bool sm_file_buffer_is_in_use(const struct sm_file_buffer *buffer);
/* Waits for the buffer's last transfer, and gives up the memory. Returns why the transfer failed. */
synced_mem_status sm_file_buffer_end(struct sm_file_buffer *buffer);

#endif
