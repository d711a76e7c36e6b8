/* Assigns shards to threads. */
#include "base/shard.h"

#include <stdatomic.h>

unsigned sm_shard(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine; /* plus one; 0: none yet */
    if (mine == 0)
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SM_SHARDS;
    return mine - 1;
}
