/*
 * The states of records before a call, noted to restore them after a failure. A call restores only what no other call
 * counts on by then. All functions need the root's lock.
 */
#ifndef SM_RESTORE_H
#define SM_RESTORE_H

#include "copy/inflight.h"
#include "object/span.h"

/* A record's state, noted to restore it after a failure. */
struct sm_state {
    size_t offset, end; /* in the root */
    unsigned head;
    unsigned given[SM_SIDES]; /* the count of each copy */
};

/* Returns how often the pointer of the record's copy was given out. A piece without a copy has the count that its part
 * will inherit. */
static inline unsigned sm_given_of(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *copy = sm_slot_of(record, side);
    if (copy == &sm_no_copy && record->kind == SM_PIECE)
        copy = sm_slot_of(sm_own_record(sm_piece_of(record)->root), side);
    return copy->given;
}

/* Returns a record's state, to note it after sm_drop_lost(). */
static inline struct sm_state sm_state_of(const struct sm_record *record)
{
    return (struct sm_state){.offset = sm_begin_of(record),
                             .end = sm_begin_of(record) + sm_size_of(record),
                             .head = sm_head(record),
                             .given = {sm_given_of(record, SM_CPU), sm_given_of(record, SM_GPU)}};
}

/* Restores the heads of the records from one on to the end of the bytes that the call had, from the states up to last.
 * A record that was cut meanwhile has the state that the whole had. One without a noted state stays as it is. */
void sm_restore_heads(struct sm_record *first, size_t end, const struct sm_state *before, const struct sm_state *last);

/* Reopens the uses of the record's device copy that a call has settled. */
static inline void sm_reopen_uses_of(const struct sm_record *record)
{
    if (sm_copy_of(record, SM_GPU))
        sm_inflight_reopen(sm_copy_of(record, SM_GPU));
}

/* Does what sm_leave() does after a failure, for a record without a transaction, whose state was noted. */
void sm_restore_record(struct sm_record *record, const struct sm_state *before);

#endif
