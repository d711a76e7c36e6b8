/*
 * One copy between two objects. The words:
 *
 *    pair      an object whose contents are overwritten (to), and the one whose contents it gets (from)
 *    source    the copy of from that is read; target: the copy of to that is written
 *    way       how the contents get there: nothing is to be moved, the host copies them, or a transfer does
 *    begun     a transfer that can fail after it has begun: the host waits for it, and only then the head is set
 *    redone    copied once more, because another thread's call used the target meanwhile
 *
 * All functions need the locks of both objects, unless they say otherwise. They release none.
 */
#ifndef SM_PAIR_H
#define SM_PAIR_H

#include "object/transaction.h"
#include "copy/transfer.h"

struct sm_pair {
    struct synced_mem *to;
    struct synced_mem *from;
    bool done;   /* the contents are in to, or come without the host */
    bool queued; /* the transfer is queued on the caller's stream and not entered */
    struct sm_stream
        *fresh; /* the target's memory was obtained in this stream's order, and no fence says so; or NULL */
    /* A begun transfer: the fence that brings the contents, held; NULL: none. The rest says whether somebody used the
     * copies meanwhile. */
    struct sm_fence *arrival;
    struct sm_copy *target;
    struct sm_copy *source;
    unsigned target_writes;
    unsigned source_writes;
    size_t size;   /* of to then */
    unsigned head; /* of to since then */
    bool kept;     /* that head counts on the contents that arrive */
};

/* What all pairs of a call have in common. */
struct sm_pairs {
    enum sm_side side;        /* of the targets */
    struct sm_stream *stream; /* the caller's; NULL: the targets are the host's */
};

/* The wait that a pair needs. */
struct sm_pair_wait {
    struct sm_fence *fence; /* NULL: none; the caller does not hold it */
    bool until_queued;      /* it is enough that a stream can wait for the fence */
    bool of_source;         /* without the fence's work there are no contents */
};

/* Returns whether there are contents to move. */
static inline bool sm_pair_moves(const struct sm_pair *pair)
{
    return sm_head(pair->from) != SYNCED_MEM_UNINITIALIZED;
}

/* Returns the copy of from that is read: the one on the targets' side if it is valid. */
struct sm_copy *sm_pair_source(const struct sm_pairs *pairs, const struct sm_pair *pair);

/* Stores the stream in whose order new memory for the target is usable. NULL: it is the host's. Does not block. */
synced_mem_status sm_pair_allocation_stream(const struct sm_pairs *pairs, const struct sm_pair *pair,
                                            struct sm_stream **stream);

/* Gets memory for the target. *without: an allocator of the caller's has to be called, with nothing locked. Does not
 * block. On failure the object may have new memory. */
synced_mem_status sm_pair_obtain(const struct sm_pairs *pairs, struct sm_pair *pair, bool *without);

/* Finds the next wait of the host, before the contents can be copied. Does not block. */
synced_mem_status sm_pair_find_wait(const struct sm_pairs *pairs, const struct sm_pair *pair,
                                    struct sm_pair_wait *wait);

/* Copies the contents, or queues or begins the transfer. No wait is left. If the pair is queued afterwards, the caller
 * enters the transfer and calls sm_pair_commit(). Otherwise the pair is done, or it has begun. Blocks as
 * sm_transfer_queue(). On failure nothing has changed, but the target has no contents if they are untracked. */
synced_mem_status sm_pair_copy(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_transfer *transfer);

/* Sets the heads after the queued transfer was entered with this status. */
void sm_pair_commit(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status);

/* Enters the allocation of the target's new memory, to which nothing was queued. Never fails a call. */
void sm_pair_keep_fresh(const struct sm_pairs *pairs, struct sm_pair *pair);

/* Ends a begun transfer, for which the host has waited with this status. No lock may be held. Takes the locks of the
 * two objects, one after the other. The pair is done afterwards, or has to be redone. */
void sm_pair_finish(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status);

/* Gives up the object's contents: the head becomes UNINITIALIZED. The memory stays. */
void sm_give_up_contents(struct synced_mem *mem);

#endif
