/* The public functions on devices: what they can do, and the library's memory pools on them. */
#include "gpu.h"

#include "caller.h"
#include "copy.h"
#include "spare.h"
#include "stats.h"
#include "status.h"

/* ---- What is held ---- */

static struct held {
    _Atomic uint64_t now, high;
} held[SM_MAX_DEVICES];

void sm_gpu_obtained(int device, size_t bytes)
{
    struct held *const on = &held[device];
    const uint64_t now = atomic_fetch_add_explicit(&on->now, bytes, memory_order_relaxed) + bytes;
    uint64_t high = atomic_load_explicit(&on->high, memory_order_relaxed);
    sm_count_up(SM_COUNT_gpu_allocations, 1);
    sm_count_up(SM_COUNT_gpu_bytes, bytes);
    bool raised = false;
    while (!raised && high < now)
        raised =
            atomic_compare_exchange_weak_explicit(&on->high, &high, now, memory_order_relaxed, memory_order_relaxed);
}

void sm_gpu_freed(int device, size_t bytes)
{
    atomic_fetch_sub_explicit(&held[device].now, bytes, memory_order_relaxed);
    sm_count_down(SM_COUNT_gpu_bytes, bytes);
}

/* Again, if meanwhile there was more than ever. */
static void begin_peak(struct held *on)
{
    uint64_t now;
    do {
        now = atomic_load_explicit(&on->now, memory_order_relaxed);
        atomic_store_explicit(&on->high, now, memory_order_relaxed);
    } while (atomic_load_explicit(&on->now, memory_order_relaxed) > now);
}

void sm_gpu_forget_peaks(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        begin_peak(&held[device]);
}

synced_mem_status sm_gpu_numbers(int device, struct sm_pool_numbers *numbers)
{
    const synced_mem_status status = sm_device_pool_numbers(device, numbers);
    if (status != SYNCED_MEM_OK || numbers->known)
        return status;
    numbers->used = atomic_load_explicit(&held[device].now, memory_order_relaxed);
    numbers->used_high = atomic_load_explicit(&held[device].high, memory_order_relaxed);
    numbers->reserved = numbers->used + sm_spare_bytes(device);
    numbers->reserved_high = numbers->used_high > numbers->reserved ? numbers->used_high : numbers->reserved;
    return SYNCED_MEM_OK;
}

/* ---- Arguments ---- */

static synced_mem_status find(int wanted, int *device)
{
    if (wanted < SYNCED_MEM_DEVICE_CURRENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "no device can have the number %d", wanted);
    return sm_device_resolve(wanted, device);
}

/* ---- Devices ---- */

static synced_mem_status get_info(int device, synced_mem_device_info *info)
{
    const synced_mem_status status = SM_CHECK_STRUCT(info, "info");
    if (status != SYNCED_MEM_OK)
        return status;
    if (device < SYNCED_MEM_DEVICE_CURRENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "no device can have the number %d", device);
    return sm_device_info(device, info);
}

synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info)
{
    return sm_report(get_info(device, info), __func__, NULL);
}

/* ---- Pools ---- */

/* What is over it is freed with all the rest. */
static void set_spare_limit(int device, uint64_t bytes)
{
    sm_spare_set_limit(device, bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX);
    if (sm_spare_bytes(device) > bytes)
        (void)sm_copy_free_spares(device);
}

synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes)
{
    int on;
    sm_caller_begin(__func__, NULL);
    synced_mem_status status = find(device, &on);
    if (status == SYNCED_MEM_OK)
        status = sm_device_pool_set_threshold(on, bytes);
    if (status == SYNCED_MEM_OK)
        set_spare_limit(on, bytes);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep)
{
    int on;
    sm_caller_begin(__func__, NULL);
    synced_mem_status status = find(device, &on);
    if (status == SYNCED_MEM_OK) {
        (void)sm_copy_reap(false);
        (void)sm_copy_free_spares(on);
        sm_stream_look_at_frees(on);
        status = sm_device_pool_trim(on, keep);
    }
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes)
{
    int on;
    sm_caller_begin(__func__, NULL);
    const synced_mem_status status = find(device, &on);
    if (status == SYNCED_MEM_OK)
        set_spare_limit(on, bytes);
    return sm_report(status, __func__, NULL);
}

static synced_mem_status get_stats(int device, synced_mem_gpu_pool_stats *stats)
{
    int on;
    struct sm_pool_numbers numbers;
    synced_mem_status status = SM_CHECK_STRUCT(stats, "stats");
    if (status == SYNCED_MEM_OK)
        status = find(device, &on);
    if (status == SYNCED_MEM_OK)
        status = sm_gpu_numbers(on, &numbers);
    if (status == SYNCED_MEM_OK)
        *stats = (synced_mem_gpu_pool_stats){.struct_size = sizeof *stats,
                                             .reserved = numbers.reserved,
                                             .reserved_high = numbers.reserved_high,
                                             .used = numbers.used,
                                             .used_high = numbers.used_high};
    return status;
}

synced_mem_status synced_mem_gpu_pool_get_stats(int device, synced_mem_gpu_pool_stats *stats)
{
    return sm_report(get_stats(device, stats), __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_reset_peaks(int device)
{
    int on;
    synced_mem_status status = find(device, &on);
    if (status == SYNCED_MEM_OK)
        status = sm_device_pool_reset_peaks(on);
    if (status == SYNCED_MEM_OK)
        begin_peak(&held[on]);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies)
{
    int on;
    synced_mem_status status = find(device, &on);
    if (status == SYNCED_MEM_OK && (policies & ~(unsigned)SYNCED_MEM_GPU_POOL_REUSE_ALL) != 0)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "no policies have the bits %#x", policies);
    if (status == SYNCED_MEM_OK)
        status = sm_device_pool_set_reuse(on, policies);
    return sm_report(status, __func__, NULL);
}

static synced_mem_status allow_peer(int device, int peer, bool allow)
{
    int on;
    int from;
    synced_mem_status status = find(device, &on);
    if (status == SYNCED_MEM_OK)
        status = find(peer, &from);
    if (status != SYNCED_MEM_OK)
        return status;
    if (on == from)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "device %d is no peer of itself", on);
    return sm_device_pool_allow_peer(on, from, allow);
}

synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow)
{
    return sm_report(allow_peer(device, peer, allow != 0), __func__, NULL);
}
