/* Transfers between two copies, and fills of one. The work in flight on the copies decides the order in which they are
 * queued. A queued transfer is entered as work in flight. */
#ifndef SM_TRANSFER_H
#define SM_TRANSFER_H

#include "copy/arrival.h"
#include "copy/batch.h"
#include "copy/bounce.h"
#include "copy/inflight.h"
#include "base/side.h"

/* A transfer that is queued and not yet entered. */
struct sm_transfer {
    enum sm_direction direction;
    struct sm_copy *to;
    struct sm_copy *from;
    size_t from_offset; /* of the first byte to transfer */
    size_t size;
    struct sm_use *read;        /* the reservation of its place among the readers of from */
    struct sm_bounce *bounce;   /* holds the bytes of from, which the device then does not read; NULL: none */
    void *gathered;             /* the same, in a buffer of the batch's */
    struct sm_arrival *arrival; /* brings the bytes to pageable memory; NULL: none */
    const void *memory;         /* parts of the same memory are copied at once; NULL: not known */
    /* A batch for the copy, or NULL. sm_transfer_queue() sets it to NULL unless the batch has collected the copy. */
    struct sm_batch *batch;
    /* The caller waits at once for its end, or cancels it, if it is a staged pull. The runtime may read a small source
     * of pageable memory until the end. */
    bool is_awaited;
    bool is_left; /* of a staged pull: the caller does not wait for its end, and maybe nobody does */
    bool staged;  /* it has begun and is entered, see staged.h; the caller does no more */
};

/* Describes a transfer alone, from the first byte on. sm_transfer_queue() sets the other members. Compilers clear a
 * struct of this size by an instruction that takes longer than all of these stores. */
static inline void sm_transfer_describe(struct sm_transfer *transfer, enum sm_direction direction, struct sm_copy *to,
                                        struct sm_copy *from, size_t size)
{
    transfer->direction = direction;
    transfer->to = to;
    transfer->from = from;
    transfer->from_offset = 0;
    transfer->size = size;
    transfer->memory = NULL;
    transfer->batch = NULL;
    transfer->is_awaited = false;
    transfer->is_left = false;
    transfer->staged = false;
}

/* Adds a transfer of a whole copy to those that the caller expects. A kernel makes none of the caller's memory. */
static inline void sm_transfer_expect(struct sm_expected *expected, const struct sm_copy *to,
                                      const struct sm_copy *from, size_t size)
{
    if (size == 0 || size > SM_KERNEL_MOST_BYTES || sm_copy_is_of_user(to) || sm_copy_is_of_user(from))
        return;
    expected->count++;
    expected->bytes += size;
    if (size > expected->longest)
        expected->longest = size;
}

/* Returns the first byte to transfer. */
static inline char *sm_transfer_source(const struct sm_transfer *transfer)
{
    return (char *)sm_copy_data(transfer->from) + transfer->from_offset;
}

/* Returns whether a transfer may come after a caller's work. to, from: NULL if there is no such copy, as before memory
 * is obtained and for a fill. Queries no device. */
bool sm_transfer_follows_work(const struct sm_copy *to, const struct sm_copy *from);

/* Picks an internal stream for transfers of the direction. follows: they may come after a caller's work. Errors: as
 * sm_internal_stream(). */
synced_mem_status sm_transfer_stream(int device, enum sm_direction direction, bool follows, struct sm_stream **out);

/* Returns whether the stream is known to come after all work in flight on a copy that the library is about to write. */
static inline bool sm_transfer_is_ordered(const struct sm_copy *to, const struct sm_stream *stream)
{
    return !to->streamless && sm_inflight_is_behind(stream, to, true);
}

/* The part of sm_transfer_order() for a stream that is not known to come after all of the work. */
synced_mem_status sm_transfer_make_order(struct sm_copy *to, struct sm_stream *stream);

/* Makes the stream wait for all work in flight on a copy that the library is about to write. That includes kernels that
 * got the pointer earlier without a stream, for which it records one event on the legacy stream, unless such a use is
 * open. Blocks only for work that is still queueing. Errors: as sm_inflight_order(). ERR_CAPTURING: a blocking stream
 * captures, so that event can't be recorded now. */
static inline synced_mem_status sm_transfer_order(struct sm_copy *to, struct sm_stream *stream)
{
    return sm_transfer_is_ordered(to, stream) ? SYNCED_MEM_OK : sm_transfer_make_order(to, stream);
}

/*
 * Queues the transfer on a stream of the device, and fills in read, bounce or gathered, and arrival. A pageable source
 * has been read when this returns: it is copied into a bounce buffer, or with a batch into one that it shares. Without
 * a buffer this synchronizes the stream, which blocks. There is one exception: of an awaited transfer of few bytes the
 * runtime may read the source until the end, unless it refuses the caller's memory. On failure nothing has changed, but
 * a copy may be untracked: a transfer runs that nobody can wait for. The copy that it writes must then be retired; the
 * copy that it reads stays usable. A transfer that the batch has collected is queued by sm_batch_send(), on the same
 * stream. The caller enters the transfer even if that fails or is left out. Once it is entered, calls that write its
 * source wait for its end.
 */
synced_mem_status sm_transfer_queue(struct sm_transfer *transfer, struct sm_stream *stream);

/*
 * Stores a fence for the work that was just queued. The caller holds it. If no event can be recorded, it blocks and
 * synchronizes the stream: *fence is then NULL, as no work is left. If that fails too, *untracked is set: nobody can
 * tell when the work ends. With ERR_DEVICE_LOST it has ended.
 */
synced_mem_status sm_transfer_record(struct sm_stream *stream, struct sm_fence **fence, bool *untracked);

/* Gives back the buffers of a call's work, with what sm_transfer_record() has stored. gather: may be NULL. */
void sm_transfer_give_gathered(struct sm_gather *gather, struct sm_fence *fence, bool untracked);

/* Enters transfers that were just queued on the stream, with one event for all. Each becomes a read of its source and
 * the arriving write of its target. Gives back the buffers of gathered sources; NULL: there are none. Blocks as
 * sm_transfer_record(). On failure none is entered, and copies may be untracked. */
synced_mem_status sm_transfer_enter(struct sm_transfer *transfers, size_t count, struct sm_gather *gather,
                                    struct sm_stream *stream);

/* Queues a transfer that needs no more than a call of the runtime, and enters it: of at least one byte, between
 * page-locked memory of the library's own and the device, with no trace under way. Errors: as sm_transfer_queue() and
 * sm_transfer_enter(). */
synced_mem_status sm_transfer_direct(enum sm_direction direction, struct sm_copy *to, struct sm_copy *from, size_t size,
                                     struct sm_stream *stream);

/* Fills the bytes from begin to end of a device copy with the value. The fill becomes the copy's write. Otherwise as
 * sm_transfer_enter(). */
synced_mem_status sm_transfer_fill(struct sm_copy *to, unsigned char value, size_t begin, size_t end,
                                   struct sm_stream *stream);

/* Makes the work queued on the stream, such as the allocation of a device copy, its write. An access waits for it until
 * the memory is usable. Otherwise as sm_transfer_enter(). */
synced_mem_status sm_transfer_enter_write(struct sm_copy *to, struct sm_stream *stream);

#endif
