/* The library's counters. */
#include "base/stats.h"

struct sm_counts sm_counts[SM_SHARDS];

/* What one thread has counted up another may count down in its own shard, between two looks: not below nothing. */
uint64_t sm_count_of(enum sm_counter counter)
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&sm_counts[i].of[counter], memory_order_relaxed);
    return sum <= INT64_MAX ? sum : 0;
}
