/* The arrays of counters. */
#include "base/stats.h"

struct sm_counts sm_counts[SM_SHARDS];

/* One thread may count up in its shard, and another count down in its own, between two loads. The sum can thus be
 * negative: it is then reported as 0. */
uint64_t sm_count_of(enum sm_counter counter)
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&sm_counts[i].of[counter], memory_order_relaxed);
    return sum <= INT64_MAX ? sum : 0;
}
