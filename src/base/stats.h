/*
 * Counters: relaxed atomics, updated off the hot path only. Each shard has its own. A counter's value is the sum over
 * all shards.
 */
#ifndef SM_STATS_H
#define SM_STATS_H

#include "base/shard.h"
#include "synced_mem.h"

#include <stdalign.h>
#include <stdatomic.h>

/* Every counter, by its field in synced_mem_stats. */
#define SM_COUNTER_MAP(X)                                                                                              \
    X(objects)                                                                                                         \
    X(h2d_transfers)                                                                                                   \
    X(h2d_bytes)                                                                                                       \
    X(d2h_transfers)                                                                                                   \
    X(d2h_bytes)                                                                                                       \
    X(events)                                                                                                          \
    X(event_records)                                                                                                   \
    X(staged_transfers)                                                                                                \
    X(host_allocations)                                                                                                \
    X(pageable_bytes)                                                                                                  \
    X(pinned_bytes)                                                                                                    \
    X(pageable_fallbacks)                                                                                              \
    X(gpu_allocations)                                                                                                 \
    X(gpu_bytes)                                                                                                       \
    X(retired)                                                                                                         \
    X(quarantined)                                                                                                     \
    X(stream_waits)                                                                                                    \
    X(host_waits)                                                                                                      \
    X(oom_reaps)                                                                                                       \
    X(oom_waits)                                                                                                       \
    X(oom_trims)                                                                                                       \
    X(oom_callbacks)                                                                                                   \
    X(oom_failures)                                                                                                    \
    X(gpu_spare_bytes)                                                                                                 \
    X(managed_bytes)                                                                                                   \
    X(prefetches)                                                                                                      \
    X(unprotected)                                                                                                     \
    X(kernel_copies)                                                                                                   \
    X(file_reads)                                                                                                      \
    X(file_read_bytes)                                                                                                 \
    X(file_writes)                                                                                                     \
    X(file_write_bytes)                                                                                                \
    X(hold_hits)                                                                                                       \
    X(hold_misses)                                                                                                     \
    X(hold_nanoseconds)                                                                                                \
    X(clean_evictions)                                                                                                 \
    X(dirty_evictions)                                                                                                 \
    X(evicted_bytes)                                                                                                   \
    X(host_evictions)                                                                                                  \
    X(spills)                                                                                                          \
    X(host_evicted_bytes)

enum sm_counter {
#define SM_COUNTER_ENUM(field) SM_COUNT_##field,
    SM_COUNTER_MAP(SM_COUNTER_ENUM)
#undef SM_COUNTER_ENUM
        SM_COUNTERS
};

struct sm_counts {
    alignas(SM_APART) _Atomic uint64_t of[SM_COUNTERS];
};
extern struct sm_counts sm_counts[SM_SHARDS];

static inline void sm_count_up(enum sm_counter counter, uint64_t by)
{
    atomic_fetch_add_explicit(&sm_counts[sm_shard()].of[counter], by, memory_order_relaxed);
}

/* Does so for two counters. */
static inline void sm_count_up_both(enum sm_counter counter, uint64_t by, enum sm_counter other, uint64_t other_by)
{
    _Atomic uint64_t *const counts = sm_counts[sm_shard()].of;
    atomic_fetch_add_explicit(&counts[counter], by, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts[other], other_by, memory_order_relaxed);
}

static inline void sm_count_down(enum sm_counter counter, uint64_t by)
{
    atomic_fetch_sub_explicit(&sm_counts[sm_shard()].of[counter], by, memory_order_relaxed);
}

/* Returns the counter's value. While other threads count, it may include a decrement without the matching increment, or
 * the reverse. */
uint64_t sm_count_of(enum sm_counter counter);

#endif
