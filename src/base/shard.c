/* Assigns shards to threads. */
#include "base/shard.h"

#include <stdatomic.h>

_Thread_local unsigned sm_shard_of_thread;

unsigned sm_shard_assign(void)
{
    static atomic_uint threads;
    sm_shard_of_thread = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SM_SHARDS;
    return sm_shard_of_thread - 1;
}
