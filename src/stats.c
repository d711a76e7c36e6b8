/* The library's counters, and how the caller reads them. */
#include "stats.h"

#include "status.h"

struct sm_counts sm_counts[SM_SHARDS];

/* What one thread has counted up another may count down in its own shard, between two looks: not below nothing. */
uint64_t sm_count_of(enum sm_counter counter)
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&sm_counts[i].of[counter], memory_order_relaxed);
    return sum <= INT64_MAX ? sum : 0;
}

synced_mem_status synced_mem_get_stats(synced_mem_stats *stats)
{
    const synced_mem_status status = SM_CHECK_STRUCT(stats, "stats");
    if (status != SYNCED_MEM_OK)
        return sm_report(status, __func__, NULL);
#define READ(field) stats->field = sm_count_of(SM_COUNT_##field);
    SM_COUNTER_MAP(READ)
#undef READ
    return SYNCED_MEM_OK;
}
