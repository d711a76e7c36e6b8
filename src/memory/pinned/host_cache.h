/*
 * The cache of the pool: blocks of page-locked memory that were given back last, for requests of the same rounded size.
 * Each shard has its own lock and counts, so that threads seldom contend.
 */
#ifndef SM_HOST_CACHE_H
#define SM_HOST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_cached {
    size_t key; /* the rounded size and the place */
    void *data;
    void *block;
};

/* Takes a block with the key and counts size, the bytes requested. Returns false if there is none. The caller then
 * finds a block elsewhere and calls sm_host_cache_count(); a refused request is not counted. */
bool sm_host_cache_take(size_t key, size_t size, struct sm_cached *out);
void sm_host_cache_count(size_t size);

/* Takes a block with the key from another thread's shard. Counts nothing. Returns false if there is none. */
bool sm_host_cache_take_others(size_t key, struct sm_cached *out);

/* Keeps a block. size: as counted. Returns true if the block has displaced another one, *out, which the caller then
 * owns. */
bool sm_host_cache_put(const struct sm_cached *in, size_t size, struct sm_cached *out);

/* Empties all shards: calls give() for each block, without a lock. Returns whether there was any block. */
bool sm_host_cache_flush(void (*give)(const struct sm_cached *cached));

/* Return the requested bytes that are not given back, and their peak. The peak is exact for one thread. If several
 * threads take from their own shards, the sum is read only when one shard has a new peak. */
uint64_t sm_host_cache_requested(void);
uint64_t sm_host_cache_peak(void);
void sm_host_cache_reset_peak(void);

/* Return the number of allocations, from the cache or elsewhere, and the sum of visit() over all cached blocks. */
uint64_t sm_host_cache_allocations(void);
uint64_t sm_host_cache_sum(uint64_t (*visit)(const struct sm_cached *cached));

#endif
