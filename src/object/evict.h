/* Eviction: the copies of victims go, and their memory is free for others. */
#ifndef SM_EVICT_H
#define SM_EVICT_H

#include "object/evictable.h"
#include "stream/stream.h"

/*
 * Evicts each victim of the list, unless it is held by now, or another thread works on it. Host copies are those of
 * evict_host.h. Of a device copy, contents that the host or a file has are dropped; others are pulled first, which may
 * evict host copies. The memory is freed in the order of the stream, which waits for the
 * work on it; NULL: the library chooses the stream. No lock may be held. Waits for no device if the host copy is
 * page-locked; a staged pull is waited for. *stuck: gets the victims that can't go, which go on leaving until
 * sm_evict_keep(). *late: gets victims that are at work, where others that are nearly as good have gone in their place.
 * They go on leaving too: keep them, or evict them after all. NULL: none is passed over. Returns the first failure.
 */
synced_mem_status sm_evict(struct sm_member *victims, struct sm_stream *stream, struct sm_member **stuck,
                           struct sm_member **late);

/* Makes victims that stay candidates again. */
void sm_evict_keep(struct sm_member *stuck);

/* A device may be SM_BUDGET_HOST in the next two functions. */

/* Evicts so many bytes on the device, or as many as there are. Returns whether any went. As sm_evict(). Keeps the
 * thread's error detail. */
bool sm_evict_bytes(int device, uint64_t bytes);

/* Evicts until the library has no more than the device's budget, as far as it can. waits: also waits for work on
 * retired memory. Returns by how many bytes the library still exceeds the budget. */
uint64_t sm_evict_excess(int device, bool waits);

/* Notes the memory of an evictable object after a call that may have changed it. Without effect on others. No lock may
 * be held. */
void sm_evictable_refresh(struct synced_mem *mem);

/* Publishes and notes all evictable objects after the budget for host copies was set or removed. */
void sm_evictables_refresh(void);

#endif
