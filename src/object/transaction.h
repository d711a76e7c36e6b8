/*
 * Transactions: the begin and end of a call on one object, and how it waits in between. Calls on several objects use
 * the same steps with the locks of several.h. A transaction holds the object's lock from sm_enter() to sm_leave(), but
 * for waits and callbacks. Before each of these, and at its end, it publishes the pointers that the hot path may
 * return. After a failure the head is as it was at the beginning, without contents that were lost meanwhile.
 */
#ifndef SM_TRANSACTION_H
#define SM_TRANSACTION_H

#include "base/caller.h"
#include "base/process.h"
#include "copy/inflight.h"
#include "object/backing.h"
#include "object/head.h"
#include "object/object.h"
#include "object/listing.h"
#include "object/span.h"
#include "stream/waits.h"
#include "trace/trace.h"

/* New memory that is about to take the place of a side's, see replacement.h. */
struct sm_replacement {
    struct sm_copy *copy;       /* NULL: not obtained yet */
    const struct sm_copy *from; /* the old memory; NULL: nothing is being replaced */
    enum sm_side side;
    uint64_t writes; /* a number that changes with the old contents */
    size_t size;     /* of the contents */
    bool is_filled;  /* it has the contents, or they are arriving */
    bool is_zeroed;  /* it had only zeros when it was obtained, and is not filled */
};

/* The frame of one call on one object. */
struct sm_transaction {
    struct synced_mem *mem;
    bool
        restores_nothing; /* a failure restores no head, and reopens no use unless it replaces memory; the call joins no
                                pieces */
    bool is_published;    /* the call has succeeded, and has published each record that it has changed */
    struct sm_listing listing; /* for accesses; and the states before the call */
    struct sm_copy *detached;  /* the copies that sm_leave() retires, linked by their allocations' next */
    struct sm_replacement replacement;
    struct sm_waits waits; /* what the call waits for before it goes on */
    bool waits_ended;      /* of a wait that has failed: no failed work is open */
};

/* Begins a call: takes the object's lock, and takes lost contents out of the heads. Waits only for the lock. On failure
 * nothing is locked. ERR_FORKED: the object is the parent process's, and a child cannot know who holds its lock.
 * ERR_OUT_OF_HOST_MEMORY: only of an object in several pieces. */
synced_mem_status sm_enter(struct sm_transaction *transaction, struct synced_mem *mem);

/* Does the same as sm_enter() for a call that makes no side valid, and whose settled uses may end. Allocates nothing. ERR_FORKED. */
synced_mem_status sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem);

/* Ends a call: releases the lock, and retires the copies that the call gave up. If status is a failure, restores the
 * heads and reopens the uses that the call has settled. Returns status. Waits for no work. */
synced_mem_status sm_leave(struct sm_transaction *transaction, synced_mem_status status);

/* Begins an access, after sm_check_and_lock(), which notes the states of several records when it lists them. */
void sm_begin_access(struct sm_transaction *transaction, struct synced_mem *mem);

/* The part of sm_check_usable() for objects of the parent process, and for traces. */
synced_mem_status sm_check_any_usable(const struct synced_mem *mem);

void sm_note_wanted_object(const struct synced_mem *mem);
void sm_note_wanted_record(const struct sm_record *record);

/* Records the object that the caller's function works on. No effect while no caller is wanted. */
static inline void sm_note_object(const struct synced_mem *mem)
{
    if (sm_caller_is_wanted())
        sm_note_wanted_object(mem);
}

/* Does the same for the object of a record. If the object is noted already, adds only where the record's bytes are. */
static inline void sm_note_record(const struct sm_record *record)
{
    if (sm_caller_is_wanted())
        sm_note_wanted_record(record);
}

/* The steps of both, for calls on several objects, which may have one lock. sm_check_usable() checks as sm_enter()
 * does, and records the caller's object. sm_check_and_lock() does so too, and takes the lock. sm_begin() does the rest
 * of sm_enter(). sm_publish_object() joins the object's pieces and publishes. sm_publish_joined() does so for an object
 * in pieces, after the caller has published all records that it has changed. sm_unlock_root() releases the lock. */
static inline synced_mem_status sm_check_usable(const struct synced_mem *mem)
{
    const bool is_own = mem->generation == sm_process_generation();
    return is_own && !sm_caller_is_wanted() ? SYNCED_MEM_OK : sm_check_any_usable(mem);
}
synced_mem_status sm_check_and_lock(struct synced_mem *mem);
synced_mem_status sm_begin(struct sm_transaction *transaction, struct synced_mem *mem);
void sm_publish_object(struct synced_mem *mem);
void sm_publish_joined(struct synced_mem *mem);
void sm_unlock_root(struct synced_mem *owner);

/* Drops a record that a call has held while nothing was locked (piece.h), with no lock held. Makes the root undivided
 * again if it has no views. */
void sm_drop_held_record(struct sm_record *record);

/* Take and release the lock of a record that a call has held while nothing was locked. The second publishes all records
 * of the object that it is in. Errors: as sm_check_and_lock(), in a forked child. */
synced_mem_status sm_lock_record(struct sm_record *record);
void sm_unlock_record(struct sm_record *record);

/* Reopens the uses that a failed call has settled, with no lock held. Keeps the failure's detail. Waits only for the
 * lock. */
void sm_reopen_object(struct synced_mem *mem);

/* Ends an open write that the call has settled, for a call that succeeds and allows no stream to write. No other call
 * does so: the fence may be another call's that can still fail. */
static inline void sm_close_write(const struct sm_record *record)
{
    sm_inflight_close(sm_slot_of(record, SM_GPU));
}

/* Reaps retired copies and bounce buffers without a wait for work. Returns status; a failure keeps its detail. No lock
 * may be held. may_block: the call may block anyway. Otherwise memory that is to be unregistered stays for a call that
 * may block, as the runtime may wait for the device. */
synced_mem_status sm_reap_after(synced_mem_status status, bool may_block);

/* Does the same as sm_leave() and then sm_reap_after(). */
synced_mem_status sm_leave_and_reap(struct sm_transaction *transaction, synced_mem_status status, bool may_block);

/* Takes the side's copy out of the object, whose pieces must have none. sm_leave() retires it. */
void sm_detach_copy(struct sm_transaction *transaction, enum sm_side side);
/* Does the same for the object that owns the memory of the transaction's object. */
void sm_detach_copy_of(struct sm_transaction *transaction, struct synced_mem *owner, enum sm_side side);

/* sm_leave() retires the copy, which belongs to no object. */
void sm_retire_later(struct sm_transaction *transaction, struct sm_copy *copy);

/* Gives up the file's contents of a record that is in one, or about to be, for a call that writes other contents
 * (backing.c). */
static inline void sm_leave_file(struct sm_record *record)
{
    if (sm_has_backing(record))
        sm_give_up_backing(record);
}

/* Releases and retakes the object's lock around work that must not run under it. The unlock publishes the pointers that
 * the hot path may return meanwhile. The caller must read the object's state again afterwards. */
void sm_unlock_object(struct synced_mem *mem);
void sm_lock_object(struct synced_mem *mem);

/* For a loop that runs a step until it is done: returns whether to run it again. If *status is SM_AGAIN, waits on
 * the host for the transaction's waits, of which there are none afterwards, with the lock released. Blocks. After
 * failed work, contents that were to arrive are lost. If the wait fails, stores why and returns false;
 * transaction->waits_ended then says that the failed work no longer touches the memory, so that some calls can go on.
 * The step must read the object's state again. */
bool sm_wait_again(struct sm_transaction *transaction, synced_mem_status *status);

/* Returns the head of an object or view, from its records if it is in parts. Takes the lock for that. In a forked child
 * of a process that has used a GPU: MIXED. */
unsigned sm_read_head(const struct synced_mem *mem);

/* Initializes a new object, before other threads can find it. */
void sm_object_init(struct synced_mem *mem);
/* Returns whether the invariants in object.h hold. With the lock held. */
bool sm_object_is_valid(const struct synced_mem *mem);

#endif
