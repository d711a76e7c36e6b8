/* Moving bytes between two copies, and filling one: queued in the order that the work in flight on them asks
 * for, and entered there as work in flight. */
#ifndef SM_TRANSFER_H
#define SM_TRANSFER_H

#include "copy/bounce.h"
#include "copy/inflight.h"
#include "base/side.h"

/* A transfer that is queued, and not entered yet. */
struct sm_transfer {
    enum sm_direction direction;
    struct sm_copy *to;
    struct sm_copy *from;
    size_t size;
    struct sm_use *read;      /* its place among the readers of from */
    struct sm_bounce *bounce; /* holds the bytes of from, which nothing reads then; NULL: none */
    bool staged;              /* it has begun and is entered, see staged.h: nothing of the above is to be done */
};

/* Makes the stream wait for all that is in flight on a copy that the library is about to write, and for kernels that
 * were launched through a pointer of before, which was given without a stream. */
synced_mem_status sm_transfer_order(struct sm_copy *to, struct sm_stream *stream);

/*
 * Queues what the transfer says on a stream of the device, and fills in read or bounce. A pageable source has been
 * read when this returns: it is copied into a bounce buffer, or where there is none the stream is synchronized. On
 * failure nothing changed, except that a copy may be untracked: a transfer runs that nobody can wait for. The one it
 * writes must then be let go of; the one it reads stays good to use.
 */
synced_mem_status sm_transfer_queue(struct sm_transfer *transfer, struct sm_stream *stream);

/*
 * A fence for what was just queued. Without an event to record the stream is waited for instead, and there is no work
 * left to hold a fence for: *fence is NULL. If that fails too it is untracked, nobody can tell when the work ends,
 * unless the device is lost: then it has.
 */
synced_mem_status sm_transfer_follow(struct sm_stream *stream, struct sm_fence **fence, bool *untracked);

/* Enters transfers that were queued on the stream since, with one event for all: each is a read of the one copy and the
 * write of the other, which is arriving. Failure: as above, for all. */
synced_mem_status sm_transfer_enter(struct sm_transfer *transfers, size_t count, struct sm_stream *stream);

/* Queues a fill of the bytes from begin to end of a device copy with the value, and enters it. Otherwise as above. */
synced_mem_status sm_transfer_fill(struct sm_copy *to, unsigned char value, size_t begin, size_t end,
                                   struct sm_stream *stream);

/* Makes a device copy's allocation on the stream its write: an access waits until the memory may be used. */
synced_mem_status sm_transfer_none(struct sm_copy *to, struct sm_stream *stream);

#endif
