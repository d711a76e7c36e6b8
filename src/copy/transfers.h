/*
 * The transfers of one call, in one direction and on one stream. The call queues them one after the other, each in the
 * next place of a list. Then it sends those that the batch has collected, and enters all with one event. A staged
 * transfer is not in the list, because it runs beside the stream; the call holds its fence until it has followed it.
 */
#ifndef SM_TRANSFERS_H
#define SM_TRANSFERS_H

#include "copy/batch.h"
#include "copy/transfer.h"

struct sm_transfers {
    struct sm_transfer *list; /* queued and not entered */
    size_t queued;
    struct sm_batch batch;      /* the copies that go to the runtime in one call */
    struct sm_fence **arrivals; /* held: the targets' fences of the staged transfers */
    size_t staged;
    size_t room; /* of each array */
};

/* The memory of one transfer. */
struct sm_transfers_row {
    struct sm_transfer transfer;
    struct sm_fence *arrival;
    void *to;
    const void *from;
    size_t size;
    struct sm_list_entry entry;
    struct sm_gather_piece piece;
};

/* Lays the arrays out in a block of room rows. A batch of one transfer collects nothing. Returns the first byte behind
 * the arrays. */
void *sm_transfers_lay_out(struct sm_transfers *transfers, void *block, size_t room);

static inline struct sm_transfer *sm_transfers_next(const struct sm_transfers *transfers)
{
    return &transfers->list[transfers->queued];
}

/* Sends the batch, and enters what is queued even if the runtime refuses the batch: it may run all the same. The
 * list is empty afterwards. Errors: as sm_batch_send() and sm_transfer_enter(). */
synced_mem_status sm_transfers_enter(struct sm_transfers *transfers, struct sm_stream *stream);

/* Enters what is queued without the batch, which is forgotten. New device memory of its targets thus comes after its
 * allocation. status: of the call so far. Returns it, a failure with its detail; if it is SM_AGAIN and the entering
 * fails, returns that failure. */
synced_mem_status sm_transfers_enter_unsent(struct sm_transfers *transfers, struct sm_stream *stream,
                                            synced_mem_status status);

/* Makes a caller's stream come after a staged transfer, or waits on the host if it can't. stream NULL: waits on the
 * host until the contents have arrived. Of an internal stream only waits until the transfer is queued. Blocks until
 * then. Errors: as sm_fence_wait(). */
synced_mem_status sm_follow_staged(struct sm_fence *arrival, struct sm_stream *stream);

/* Does so for all staged transfers of the call, even after a failure, since heads count on them. Returns the first
 * failure. */
synced_mem_status sm_transfers_follow(struct sm_transfers *transfers, struct sm_stream *stream);

/* Ends the call's interest in its staged transfers. cancel: no head counts on them, so those that nobody works on end;
 * the detail of a failure is kept. */
void sm_transfers_drop_staged(struct sm_transfers *transfers, bool cancel);

#endif
