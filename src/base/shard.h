/*
 * Shards: a structure that all threads use is split into SM_SHARDS parts. Each has a lock or a cache line of its own,
 * so threads seldom contend. A thread gets its shard at first use, in rotation.
 */
#ifndef SM_SHARD_H
#define SM_SHARD_H

enum { SM_SHARDS = 16, SM_CACHE_LINE = 64 };

/* The least distance between what different threads write: some processors fetch cache lines in pairs. */
enum { SM_APART = 2 * SM_CACHE_LINE };

/* The calling thread's shard plus one; 0: it has none yet. */
extern _Thread_local unsigned sm_shard_of_thread;

/* Gives the calling thread a shard, and returns it. */
__attribute__((cold)) unsigned sm_shard_assign(void);

/* Returns the calling thread's shard, less than SM_SHARDS. */
static inline unsigned sm_shard(void)
{
    return sm_shard_of_thread ? sm_shard_of_thread - 1 : sm_shard_assign();
}

#endif
