/*
 * Page-locked host memory, kept for reuse: to page-lock memory is slow, and to free it may wait for the device.
 *
 * The memory is in slabs (segment.h), which the store (arena.h) divides. What is given back stays with a shard
 * of the cache (host_cache.h) for a while and goes from there to the store.
 *
 * In a child of a process that used a GPU there is no pool: to allocate is refused, and what is given back stays the
 * parent's.
 */
#ifndef SM_HOST_POOL_H
#define SM_HOST_POOL_H

#include "memory/pinned/arena.h"

/* Memory of the size, which is not 0, that every device can reach; contents undefined. device: which it will be
 * used with most, and in whose context new memory is page-locked. ERR_OUT_OF_HOST_MEMORY, or what the runtime
 * answers. */
synced_mem_status sm_host_pool_alloc(int device, size_t size, struct sm_pinned *out);

/* Keeps the memory for the next that asks for as much: no work may be in flight on it. All three as they were given
 * out. Calls no function of the runtime's. */
void sm_host_pool_free(void *data, size_t bytes, void *owner);

/* Gives back to the system all that nobody uses; whether that was anything. May wait for the device. */
bool sm_host_pool_reclaim(void);

/* Gives back what nobody has used for the time that was set, if one was. */
void sm_host_pool_decay(void);

/* Whether an object's host copy may be pageable where no more memory can be page-locked for the device. */
bool sm_host_pool_may_fall_back(int device);

/* As the public functions that are named like them, for a device that is there. */
void sm_host_pool_set_fallback(bool allow);
void sm_host_pool_set_limit(size_t bytes);
void sm_host_pool_trim(size_t keep);
void sm_host_pool_set_decay(unsigned milliseconds);
synced_mem_status sm_host_pool_reserve(int device, size_t bytes);
void sm_host_pool_get_stats(synced_mem_host_pool_stats *stats);
void sm_host_pool_reset_peaks(void);

/* Gives back to the system all that nobody uses, and says why if the runtime refused to let go of some. */
synced_mem_status sm_host_pool_shutdown(void);

#endif
