/*
 * Blocks of page-locked memory that were given back last, for the next that asks for the very size: a few shards, each
 * with a lock and counts of its own, so that threads seldom meet.
 */
#ifndef SM_HOST_CACHE_H
#define SM_HOST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_cached {
    size_t key; /* what it is sought by: the rounded size and the place */
    void *data;
    void *owner;
};

/* Takes a block with the key, and counts the size, which is what was asked for. If there is none the caller finds one
 * elsewhere and counts it: what is refused is not counted. */
bool sm_host_cache_take(size_t key, size_t size, struct sm_cached *out);
void sm_host_cache_count(size_t size);

/* Takes a block with the key from another thread's shard; nothing is counted. */
bool sm_host_cache_take_others(size_t key, struct sm_cached *out);

/* Keeps a block that had the size. True: another one had to make room, and is the caller's. */
bool sm_host_cache_put(const struct sm_cached *in, size_t size, struct sm_cached *out);

/* Empties all shards, each with its lock held only while it is looked at. Whether there was anything in them. */
bool sm_host_cache_flush(void (*give)(const struct sm_cached *cached));

/* The sum of what was asked for and not given back, and how much of that there has been at a time. One thread's is
 * exact; of several that take from their own shards, the sum is looked at when one of them has more than ever. */
uint64_t sm_host_cache_requested(void);
uint64_t sm_host_cache_peak(void);
void sm_host_cache_reset_peak(void);

/* How many were taken, from here or elsewhere; the sum of what visit() answers for all that is kept. */
uint64_t sm_host_cache_allocations(void);
uint64_t sm_host_cache_sum(uint64_t (*visit)(const struct sm_cached *cached));

#endif
