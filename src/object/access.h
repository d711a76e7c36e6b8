/* Accesses: each does the work of its transition, waits for the work in flight, and returns a pointer. */
#ifndef SM_ACCESS_H
#define SM_ACCESS_H

#include "object/transaction.h"

/* The hot path of an access that has nothing to do, by the host or any stream: returns the published pointer; NULL:
 * sm_access() has work. Takes no lock. One acquire load makes visible all that the publishing thread did before. */
static inline void *sm_access_hot(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    return atomic_load_explicit(&mem->ready[side][mode != SM_READ], memory_order_acquire);
}

/* The same on a stream: stores the pointer, or returns false. A call that changes the copy or the stream's struct
 * conflicts with this one. */
static inline bool sm_access_hot_on(const struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle,
                                    void **out)
{
    const struct sm_stream *const on = atomic_load_explicit(&mem->on[mode != SM_READ], memory_order_acquire);
    if (atomic_load_explicit(&on->hot, memory_order_relaxed) != handle)
        return false;
    *out = atomic_load_explicit(atomic_load_explicit(&mem->gpu_data_at, memory_order_relaxed), memory_order_relaxed);
    return true;
}

/* The same to read, on one of several streams that read together. Not inline, so that the accessors, which compare with
 * one stream before, save no register. */
bool sm_access_hot_together(const struct synced_mem *mem, synced_mem_stream handle, void **out);

/* All other functions take and release the object's lock. None holds it during a wait for a fence on the host, or
 * during a callback. Three other things can block with the lock held: a copy from or to pageable memory that is too
 * small to be staged, the synchronization of a stream behind which no event could be recorded, and the page-locking of
 * a shareable object's memory for its first transfer. */

/* Makes the side's copy ready for an access by the host or any stream, and stores its pointer. Blocks until the work
 * that the access conflicts with has ended. The object owns the memory. If memory is refused, reclaims some and tries
 * again. On failure *out and the head are unchanged, except that lost contents leave the head. */
synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out);

/* Makes the device copy ready for an access in the order of the caller's stream, and stores its pointer. Blocks only
 * for work that no stream can wait for. Otherwise as sm_access(). ERR_CAPTURING: the stream captures, and the access
 * needs work or changes the head. */
synced_mem_status sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out);

/* Makes the side valid, and blocks until its contents have arrived. Gives out no pointer. If memory is refused,
 * reclaims some and tries again. Passes no gate of a shareable object. */
synced_mem_status sm_make_valid(struct synced_mem *mem, enum sm_side side);

/* Ends the stream's use of the device copy with an event on the stream. Does not block. On failure the use is still
 * open. ERR_CAPTURING: the stream captures. */
synced_mem_status sm_end_use_on(struct synced_mem *mem, synced_mem_stream handle);

/* Stores whether the library's own work on the object is pending. wait: blocks until it has ended instead, and pending
 * may be NULL. If contents were lost on arrival, returns why. */
synced_mem_status sm_query_or_wait(struct synced_mem *mem, bool wait, bool *pending);

/* Stores whether the side is valid and no work that brings its contents is pending. Does not block. If contents were
 * lost on arrival, returns why. */
synced_mem_status sm_has_arrived(struct synced_mem *mem, enum sm_side side, bool *arrived);

#endif
