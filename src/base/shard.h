/*
 * What all threads use is in a few parts, each with a lock or a cache line of its own, so that they seldom meet. Which
 * of them is a thread's is settled at its first use, by turns.
 */
#ifndef SM_SHARD_H
#define SM_SHARD_H

enum { SM_SHARDS = 16, SM_CACHE_LINE = 64 };

/* The calling thread's, less than SM_SHARDS. */
unsigned sm_shard(void);

#endif
