/* Eviction: the copies of victims go, and their memory is free for others. */
#ifndef SM_EVICT_H
#define SM_EVICT_H

#include "object/evictable.h"
#include "stream/stream.h"

/* The evictions of one call. All zeros: none yet. */
struct sm_evictions {
    struct sm_stream *stream; /* in whose order device memory is freed, and which waits for the work on it; NULL: the
                               * library chooses the stream */
    size_t gone;
    bool passes_over;        /* victims that would go late stay, if others that are nearly as good go in their place */
    struct sm_member *late;  /* those victims. They go on leaving, as the others below do. */
    struct sm_member *busy;  /* victims that stay, as other threads had their locks */
    struct sm_member *stuck; /* those that stay for another reason */
    struct sm_outcome first; /* the first failure */
};

/*
 * Evicts each victim of the list whose lock no thread has, and that is not held by now. Host copies are those of
 * evict_host.h. Of a device copy, contents that the host or a file has are dropped; others are pulled first, which may
 * evict host copies. No lock may be held. Waits for no device if the host copy is page-locked; a staged pull is waited
 * for. Call sm_evict_end() at last.
 */
void sm_evict(struct sm_evictions *evictions, struct sm_member *victims);

/* Evicts the victims that would go late after all. Passes over none from now on. Returns whether there were any. */
bool sm_evict_late(struct sm_evictions *evictions);

/* Waits for the locks of the victims that were busy, and evicts those. Returns whether there were any. */
bool sm_evict_busy(struct sm_evictions *evictions);

/* Makes the victims that have not gone candidates again. */
void sm_evict_end(struct sm_evictions *evictions);

/* A device may be SM_BUDGET_HOST in the next two functions. */

/* Evicts so many bytes on the device, or as many as there are. Waits for locks if none went without. Returns whether
 * any went. As sm_evict(). Keeps the thread's error detail. */
bool sm_evict_bytes(int device, uint64_t bytes);

/* Evicts until the library has no more than the device's budget, as far as it can. waits: also waits for work on
 * retired memory. Returns by how many bytes the library still exceeds the budget. *failure: why members that would have
 * to go stay; OK: none has failed to go, or there is no excess. NULL: ignored. Keeps the thread's error detail. */
uint64_t sm_evict_excess(int device, bool waits, struct sm_outcome *failure);

/* Notes the memory of an evictable object after a call that may have changed it. Without effect on others. No lock may
 * be held. */
void sm_evictable_refresh(struct synced_mem *mem);
/* Does the same for several. */
void sm_evictables_refresh(struct synced_mem *const *mems, size_t count);

/* Publishes and notes all evictable objects after the budget for host copies was set or removed. */
void sm_evictables_refresh_all(void);

#endif
