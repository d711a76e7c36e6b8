/*
 * What every call on an object does at its beginning and at its end, and how it waits in between. transaction.c is the
 * one file that writes the head.
 */
#ifndef SM_TRANSACTION_H
#define SM_TRANSACTION_H

#include "object/object.h"

/* What a call keeps from its beginning to its end. */
struct sm_transaction {
    struct synced_mem *mem;
    unsigned head;                    /* at the beginning */
    bool ends_nothing;                /* whose use another call wants to end is then that call's business */
    unsigned given[SM_SIDES];         /* at the beginning, of the copies that were there */
    struct sm_copy *let_go[SM_SIDES]; /* by the call if it succeeds */
    struct sm_fence *lost;            /* held: contents that were to arrive with it had been lost at the beginning */
    bool moves;                       /* its transfer is queued, see push_pull.c */
    unsigned writes;                  /* to the device copy, when the head counted on that */
};

/* Takes the object's lock. ERR_FORKED: a parent's object, of which a child can't know who holds the lock. */
synced_mem_status sm_enter(struct sm_transaction *call, struct synced_mem *mem);

/* Releases the lock, and retires what the call let go of. After a failure all is as it was at the beginning. Returns
 * the status given. */
synced_mem_status sm_leave(struct sm_transaction *call, synced_mem_status status);

/* The call has succeeded, and no stream may write the device copy any more without asking again. Of calls that want
 * something else the open write is not to end: it may be one that another call, which fails yet, is about to end. */
void sm_close_write(struct synced_mem *mem);

/* What calls had to leave behind is looked at, and the status answered; a failure's detail stays. */
synced_mem_status sm_reap_after(synced_mem_status status);

/* As sm_leave(), for calls that may block, with that behind it. */
synced_mem_status sm_leave_and_reap(struct sm_transaction *call, synced_mem_status status);

/* The copy is the object's no more once the call succeeds. */
void sm_let_go(struct sm_transaction *call, enum sm_side side);

/* The one way to change the head. */
void sm_set_head(struct synced_mem *mem, unsigned head);

/* Around what the object's lock must not be held for: what the hot path may hand out meanwhile is what is so then. */
void sm_unlock_object(struct synced_mem *mem);
void sm_lock_object(struct synced_mem *mem);

/* Waits on the host with the lock released, so that everything has to be looked at again afterwards. If the work has
 * failed, contents that were to arrive are lost. *over: it has ended, if with a failure. */
synced_mem_status sm_wait_unlocked(struct synced_mem *mem, struct sm_fence *fence, bool *over);

/* As that, but only until a stream can wait for the fence. */
synced_mem_status sm_wait_queued_unlocked(struct synced_mem *mem, struct sm_fence *fence, bool *over);

/* Whether the host copy alone is valid, and its contents never arrived: what relies on them fails. */
bool sm_is_lost(const struct synced_mem *mem);

/* Made before anything is published; what a new object has. */
void sm_object_init(struct synced_mem *mem);
bool sm_object_is_valid(const struct synced_mem *mem);

#endif
