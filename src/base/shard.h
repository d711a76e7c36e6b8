/*
 * Shards: a structure that all threads use is split into SM_SHARDS parts. Each has a lock or a cache line of its own,
 * so threads seldom contend. A thread gets its shard at first use, in rotation.
 */
#ifndef SM_SHARD_H
#define SM_SHARD_H

enum { SM_SHARDS = 16, SM_CACHE_LINE = 64 };

/* Returns the calling thread's shard, less than SM_SHARDS. */
unsigned sm_shard(void);

#endif
