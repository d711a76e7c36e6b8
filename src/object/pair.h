/*
 * One copy between two records of objects. The words:
 *
 *    pair      a record that is overwritten (to), and the record whose contents it gets (from), or a part of them
 *    source    the copy of from that is read
 *    target    the copy of to that is written
 *    way       the host copies the contents, or a transfer does
 *    begun     of a transfer that can still fail: the host waits for it before the head counts on its contents
 *    redone    copied once more, because another thread's call has used the target meanwhile
 *
 * All functions need the locks of both records, unless stated otherwise. They release none.
 */
#ifndef SM_PAIR_H
#define SM_PAIR_H

#include "object/transaction.h"
#include "copy/host_transfer.h"
#include "copy/transfer.h"

/* A direct pair of whole objects uses the first cache line alone, and the rest of it has no values. */
struct sm_pair {
    _Alignas(SM_CACHE_LINE) struct sm_record *to;
    struct sm_record *from;
    size_t of;          /* the index of the caller's pair */
    size_t from_offset; /* of the contents in from */
    size_t size;        /* of to */
    /* The copy that was read; NULL: none. With its pointer, to the first byte that was read, and its count of writes
     * then. */
    struct sm_copy *source;
    const char *source_data;
    unsigned source_writes;
    bool reads_gpu; /* it is the device copy, or shared */
    bool done;      /* the contents are in to, or arrive without the host */
    bool direct;    /* neither a wait nor memory is needed, and the transfer stays on the stream's device */
    bool queued;    /* the transfer is queued on the caller's stream and not entered */
    size_t offset;  /* in the caller's pair, if some have parts; the first member of the rest */
    /* The target's new memory is usable in this stream's order, and has no fence yet; NULL: it is not new. */
    struct sm_stream *fresh;
    /* The fence of a begun transfer, held; NULL: none. The members below show whether another call has used the target
     * meanwhile. */
    struct sm_fence *arrival;
    struct sm_copy *target;
    unsigned target_writes;
    unsigned target_given;
    unsigned head; /* of to after the begin */
    bool counted;  /* this head counts on the arriving contents */
};

/* The part that all pairs of a call have in common. */
struct sm_pairs {
    enum sm_side side;                  /* of the targets */
    struct sm_stream *stream;           /* the caller's; NULL: the targets are host copies */
    bool unlocked;                      /* the host copies contents with no lock held, as some object is in parts */
    struct sm_host_collection *by_host; /* of these contents, in one round */
    struct sm_batch *batch;             /* of copies on the stream's device */
};

/* Returns the fence of a begun transfer; NULL: none has begun. */
static inline struct sm_fence *sm_pair_arrival(const struct sm_pair *pair)
{
    return pair->direct ? NULL : pair->arrival;
}

/* Returns whether from has contents. */
static inline bool sm_pair_moves(const struct sm_pair *pair)
{
    return sm_head(pair->from) != SYNCED_MEM_UNINITIALIZED;
}

/* Finds out whether the pair is direct, as most of a large call are, and then expects its transfer. The locks are held
 * until it is copied. */
void sm_pair_plan(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_expected *expected);

/* Stores the stream in whose order new memory for the target is usable. NULL: host memory. Does not block. */
synced_mem_status sm_pair_allocation_stream(const struct sm_pairs *pairs, const struct sm_pair *pair,
                                            struct sm_stream **stream);

/* Gets memory for the target of a pair that is not direct. SM_AGAIN: the memory must come from a user allocator, or
 * takes the place of read-only memory; both with nothing locked. Blocks as sm_find_pin(). On failure the object may
 * have new memory. */
synced_mem_status sm_pair_obtain(const struct sm_pairs *pairs, struct sm_pair *pair);

/* Finds the next fence that the host waits for before it can copy the contents, and returns SM_AGAIN. Blocks as
 * sm_find_pin(). Not for a direct pair. */
synced_mem_status sm_pair_find_wait(const struct sm_pairs *pairs, const struct sm_pair *pair, struct sm_waits *waits);

/* Copies the contents, or queues or begins the transfer. sm_pair_find_wait() must have found no wait. If the pair is
 * queued afterwards, the caller enters the transfer and calls sm_pair_set_heads(). Otherwise the pair is done or begun.
 * Blocks as sm_transfer_queue(). On failure nothing has changed, except that an untracked target has no contents. */
synced_mem_status sm_pair_copy(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_transfer *transfer);

/* Sets the heads after the queued transfer was entered with this status. */
void sm_pair_set_heads(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status);

/* Enters the allocation of the target's new memory if nothing was queued to it. Ignores failures. */
void sm_pair_keep_fresh(const struct sm_pairs *pairs, struct sm_pair *pair);

/* Ends a begun transfer, after the host has waited for it with this status. No lock may be held. Takes the lock of to.
 * Afterwards the pair is done, has failed, or must be redone. */
void sm_pair_finish(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status);

/* Ends the open write of from that the call has settled; if the writer is the caller's stream, reopens it. For a call
 * that has succeeded for all pairs. Needs the lock of from alone. */
void sm_pair_end_source_write(const struct sm_pairs *pairs, const struct sm_pair *pair);

/* Gives up a record's contents: the head becomes UNINITIALIZED. The memory stays. */
void sm_give_up_contents(struct sm_record *record);

#endif
