/*
 * Copies from one buffer to many places on a device, as a chunk of a file needs them (file_chunk.h). A kernel makes the
 * small ones if that is faster, copy engines make the others, and these go to the runtime in one call.
 */
#ifndef SM_SCATTER_H
#define SM_SCATTER_H

#include "device/copy_list.h"
#include "stream/stream.h"

struct sm_scatter {
    struct sm_stream *stream;
    size_t room;                   /* for so many copies */
    bool by_kernel;                /* a kernel may make copies, although one that waits holds up the stream */
    size_t count;                  /* of copies for engines */
    size_t listed;                 /* of copies for a kernel */
    struct sm_list_entry *entries; /* of the kernel, from the first on; of engines, from the last on */
    void **to;
    const void **from;
    size_t *sizes;
};

/* Gets the memory. by_kernel, stream, room: set. Returns false if there is none: the caller queues each copy alone. */
bool sm_scatter_begin(struct sm_scatter *scatter);
/* Adds a copy to a place that no other one overlaps. own: of library memory of the stream's device. The buffer is
 * page-locked memory of the library's own. */
void sm_scatter_add(struct sm_scatter *scatter, void *to, const void *from, size_t size, bool own);
/* Queues the copies, and gives up the memory. On failure any of them may be queued. Errors: of the device. */
synced_mem_status sm_scatter_end(struct sm_scatter *scatter);

#endif
