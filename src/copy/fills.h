/* Fills of several device copies with one byte, of which a kernel makes the small ones. The runtime's own fills are
 * kernels too, one each. So this way needs no more multiprocessors, on whatever stream. */
#ifndef SM_FILLS_H
#define SM_FILLS_H

#include "copy/copy.h"

#include <stddef.h>

struct sm_fill {
    struct sm_copy *to;
    size_t size; /* from the copy's first byte on */
};

/* Queues the fills on the stream, behind the work in flight on the copies, and enters them as the copies' writes, with
 * one event. Blocks as sm_transfer_enter(). On failure some of the copies may be written or untracked. Errors: as
 * sm_transfer_fill(). */
synced_mem_status sm_fill_copies(const struct sm_fill *fills, size_t count, unsigned char value,
                                 struct sm_stream *stream);

#endif
