/* The public functions on devices: facts, and the library's memory pools on them. */
#include "memory/accounting.h"
#include "api/argument.h"
#include "copy/copy.h"
#include "copy/device_cache.h"

#include "base/status.h"

/* ---- Arguments ---- */

static synced_mem_status find_device(int wanted, int *device)
{
    if (wanted < SYNCED_MEM_DEVICE_CURRENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                       "device %d is not valid: pass 0 or more, or SYNCED_MEM_DEVICE_CURRENT", wanted);
    return sm_device_resolve(wanted, device);
}

/* ---- Devices ---- */

static synced_mem_status get_device_info(int device, synced_mem_device_info *info)
{
    SM_TRY(SM_CHECK_STRUCT(info, "info"));
    if (device < SYNCED_MEM_DEVICE_CURRENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                       "device %d is not valid: pass 0 or more, or SYNCED_MEM_DEVICE_CURRENT", device);
    return sm_device_info(device, info);
}

synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info)
{
    return sm_report(get_device_info(device, info), __func__, NULL);
}

/* ---- Pools ---- */

/* Sets the limit. If more is kept, all cached memory is freed. */
static void set_cache_limit(int device, uint64_t bytes)
{
    sm_device_cache_set_limit(device, bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX);
    if (sm_gpu_cached(device) > bytes)
        (void)sm_copy_free_cached(device);
}

synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes)
{
    int on;
    sm_caller_begin(__func__, NULL);
    synced_mem_status status = find_device(device, &on);
    if (status == SYNCED_MEM_OK)
        status = sm_device_pool_set_threshold(on, bytes);
    if (status == SYNCED_MEM_OK)
        set_cache_limit(on, bytes);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep)
{
    int on;
    sm_caller_begin(__func__, NULL);
    synced_mem_status status = find_device(device, &on);
    if (status == SYNCED_MEM_OK) {
        (void)sm_copy_reap(false);
        (void)sm_copy_free_cached(on);
        sm_stream_poll_frees(on);
        status = sm_device_pool_trim(on, keep);
    }
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes)
{
    int on;
    sm_caller_begin(__func__, NULL);
    const synced_mem_status status = find_device(device, &on);
    if (status == SYNCED_MEM_OK)
        set_cache_limit(on, bytes);
    return sm_report(status, __func__, NULL);
}

static synced_mem_status get_pool_stats(int device, synced_mem_gpu_pool_stats *stats)
{
    int on;
    struct sm_pool_numbers numbers;
    synced_mem_status status = SM_CHECK_STRUCT(stats, "stats");
    if (status == SYNCED_MEM_OK)
        status = find_device(device, &on);
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
    return sm_report(get_pool_stats(device, stats), __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_reset_peaks(int device)
{
    int on;
    synced_mem_status status = find_device(device, &on);
    if (status == SYNCED_MEM_OK)
        status = sm_device_pool_reset_peaks(on);
    if (status == SYNCED_MEM_OK)
        sm_gpu_begin_peak(on);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies)
{
    int on;
    synced_mem_status status = find_device(device, &on);
    if (status == SYNCED_MEM_OK && (policies & ~(unsigned)SYNCED_MEM_GPU_POOL_REUSE_ALL) != 0)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "policies has unknown bits %#x", policies);
    if (status == SYNCED_MEM_OK)
        status = sm_device_pool_set_reuse(on, policies);
    return sm_report(status, __func__, NULL);
}

static synced_mem_status allow_peer(int device, int peer, bool allow)
{
    int on;
    int from;
    synced_mem_status status = find_device(device, &on);
    if (status == SYNCED_MEM_OK)
        status = find_device(peer, &from);
    if (status != SYNCED_MEM_OK)
        return status;
    if (on == from)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "device and peer are both %d: pass two devices", on);
    return sm_device_pool_allow_peer(on, from, allow);
}

synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow)
{
    return sm_report(allow_peer(device, peer, allow != 0), __func__, NULL);
}
