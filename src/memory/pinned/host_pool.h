/*
 * The pool of page-locked host memory. It keeps memory for reuse: page-locking is slow, and freeing may wait for the
 * device. Its words:
 *
 * - segment: memory from the system, page-locked as one (segment.h). The public statistics count it in slabs.
 * - arena: all segments, and which parts of them are in use (arena.h).
 * - block: a contiguous part of a segment. tlsf: an index of free blocks by size (tlsf.h).
 * - run: a block that is cut into equal cells, for small requests (runs.h).
 * - place: the memory node that memory is on, or none in particular (host_node.h).
 * - cache: memory that was given back last, in shards. After a while it goes on to the arena (host_cache.h).
 * - prefault: touching fresh pages, with several threads (prefault.h).
 * - grow: add a segment. Reclaim: release all unused segments. Decay: release those unused for a set time.
 *
 * In a forked child of a process that used a GPU there is no pool. An allocation fails with ERR_FORKED, and memory that
 * is given back stays the parent's.
 */
#ifndef SM_HOST_POOL_H
#define SM_HOST_POOL_H

#include "memory/pinned/arena.h"

/* Allocates page-locked memory that every device can access, contents undefined. size: not 0. device: the one that uses
 * the memory most; new memory is page-locked in its context. ERR_OUT_OF_HOST_MEMORY, or another error of the
 * runtime. */
synced_mem_status sm_host_pool_alloc(int device, size_t size, struct sm_pinned *out);

/* Keeps the memory for reuse. data, bytes, block: as allocated. No work may be in flight on the memory. Calls no
 * function of the runtime. */
void sm_host_pool_free(void *data, size_t bytes, void *block);

/* Releases all unused memory to the system. Returns whether there was any. May wait for the device. */
bool sm_host_pool_reclaim(void);

/* Releases memory that was unused for the time of sm_host_pool_set_decay(). No effect if that is 0. */
void sm_host_pool_decay(void);

/* Returns whether an object's host copy may be pageable when no more memory can be page-locked for the device. */
bool sm_host_pool_may_fall_back(int device);

/* As the public functions of the same names. The device must exist. */
void sm_host_pool_set_fallback(bool allow);
void sm_host_pool_set_limit(size_t bytes);
void sm_host_pool_trim(size_t keep);
void sm_host_pool_set_decay(unsigned milliseconds);
synced_mem_status sm_host_pool_reserve(int device, size_t bytes);
void sm_host_pool_get_stats(synced_mem_host_pool_stats *stats);
void sm_host_pool_reset_peaks(void);

/* Releases all unused memory to the system. Returns why the runtime has refused to unregister some. */
synced_mem_status sm_host_pool_shutdown(void);

#endif
