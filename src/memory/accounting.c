/* Counts the memory that the library holds. */
#include "memory/accounting.h"

#include "base/shard.h"
#include "base/stats.h"

#include <stdalign.h>

/* All threads write these numbers, so they are counted only on devices without pools. A pool counts by itself. */
static struct held {
    alignas(SM_APART) _Atomic uint64_t now;
    _Atomic uint64_t high;
} held[SM_MAX_DEVICES];

/* The library's memory on each device, used or not, that in the device cache, and page-locked memory, in shards, so
 * that threads seldom contend. */
static struct owned {
    alignas(SM_APART) _Atomic uint64_t on[SM_MAX_DEVICES];
    _Atomic uint64_t cached[SM_MAX_DEVICES];
    _Atomic uint64_t pinned;
} owned[SM_SHARDS];

/* Returns whether the device has a pool. The answer stays the same while the library has memory of the device. */
static bool has_pool(int device)
{
    return sm_device_frees_in_order(device);
}

static void add_used(int device, size_t bytes)
{
    if (!has_pool(device)) {
        struct held *const on = &held[device];
        const uint64_t now = atomic_fetch_add_explicit(&on->now, bytes, memory_order_relaxed) + bytes;
        uint64_t high = atomic_load_explicit(&on->high, memory_order_relaxed);
        bool raised = false;
        while (!raised && high < now)
            raised = atomic_compare_exchange_weak_explicit(&on->high, &high, now, memory_order_relaxed,
                                                           memory_order_relaxed);
    }
    sm_count_up(SM_COUNT_gpu_allocations, 1);
    sm_count_up(SM_COUNT_gpu_bytes, bytes);
}

static void subtract_used(int device, size_t bytes)
{
    if (!has_pool(device))
        atomic_fetch_sub_explicit(&held[device].now, bytes, memory_order_relaxed);
    sm_count_down(SM_COUNT_gpu_bytes, bytes);
}

void sm_gpu_obtained(int device, size_t bytes)
{
    add_used(device, bytes);
    atomic_fetch_add_explicit(&owned[sm_shard()].on[device], bytes, memory_order_relaxed);
}

void sm_gpu_freed(int device, size_t bytes)
{
    subtract_used(device, bytes);
    sm_gpu_spare_freed(device, bytes);
}

void sm_gpu_spared(int device, size_t bytes)
{
    subtract_used(device, bytes);
}

void sm_gpu_reused(int device, size_t bytes)
{
    add_used(device, bytes);
}

void sm_gpu_spare_freed(int device, size_t bytes)
{
    atomic_fetch_sub_explicit(&owned[sm_shard()].on[device], bytes, memory_order_relaxed);
}

/* Another thread may free what this one has obtained, between two loads. The sum can thus be negative, and counts as
 * 0. */
uint64_t sm_gpu_bytes(int device)
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&owned[i].on[device], memory_order_relaxed);
    return sum <= INT64_MAX ? sum : 0;
}

void sm_host_obtained(size_t bytes, bool pinned)
{
    if (pinned)
        atomic_fetch_add_explicit(&owned[sm_shard()].pinned, bytes, memory_order_relaxed);
    else
        sm_count_up(SM_COUNT_pageable_bytes, bytes);
}

void sm_pinned_freed(size_t bytes)
{
    atomic_fetch_sub_explicit(&owned[sm_shard()].pinned, bytes, memory_order_relaxed);
}

uint64_t sm_host_in_use(void)
{
    uint64_t sum = sm_count_of(SM_COUNT_pageable_bytes);
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&owned[i].pinned, memory_order_relaxed);
    return sum <= INT64_MAX ? sum : 0;
}

uint64_t sm_gpu_cached(int device)
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&owned[i].cached[device], memory_order_relaxed);
    return sum <= INT64_MAX ? sum : 0;
}

void sm_gpu_cache_add(int device, size_t bytes)
{
    atomic_fetch_add_explicit(&owned[sm_shard()].cached[device], bytes, memory_order_relaxed);
}

void sm_gpu_cache_remove(int device, size_t bytes)
{
    atomic_fetch_sub_explicit(&owned[sm_shard()].cached[device], bytes, memory_order_relaxed);
}

/* Repeats if the held bytes have grown beyond the new peak meanwhile. */
void sm_gpu_begin_peak(int device)
{
    struct held *const on = &held[device];
    uint64_t now;
    do {
        now = atomic_load_explicit(&on->now, memory_order_relaxed);
        atomic_store_explicit(&on->high, now, memory_order_relaxed);
    } while (atomic_load_explicit(&on->now, memory_order_relaxed) > now);
}

void sm_gpu_forget_peaks(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        sm_gpu_begin_peak(device);
}

synced_mem_status sm_gpu_numbers(int device, struct sm_pool_numbers *numbers)
{
    const synced_mem_status status = sm_device_pool_numbers(device, numbers);
    if (status != SYNCED_MEM_OK || numbers->known)
        return status;
    numbers->used = atomic_load_explicit(&held[device].now, memory_order_relaxed);
    numbers->used_high = atomic_load_explicit(&held[device].high, memory_order_relaxed);
    numbers->reserved = numbers->used + sm_gpu_cached(device);
    numbers->reserved_high = numbers->used_high > numbers->reserved ? numbers->used_high : numbers->reserved;
    return SYNCED_MEM_OK;
}
