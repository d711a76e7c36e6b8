/* The public functions of the pool of page-locked memory, in the header's order. They check arguments. */
#include "api/argument.h"
#include "device/device.h"
#include "memory/pinned/host_pool.h"
#include "base/process.h"

static synced_mem_status check_pool_not_forked(void)
{
    return sm_process_check_not_forked("the pool of page-locked memory");
}

synced_mem_status synced_mem_host_pool_set_limit(size_t bytes)
{
    sm_caller_begin(__func__, NULL);
    const synced_mem_status status = check_pool_not_forked();
    if (status == SYNCED_MEM_OK)
        sm_host_pool_set_limit(bytes);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_host_pool_trim(size_t keep)
{
    sm_caller_begin(__func__, NULL);
    const synced_mem_status status = check_pool_not_forked();
    if (status == SYNCED_MEM_OK)
        sm_host_pool_trim(keep);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_host_pool_set_decay(unsigned milliseconds)
{
    sm_caller_begin(__func__, NULL);
    const synced_mem_status status = check_pool_not_forked();
    if (status == SYNCED_MEM_OK)
        sm_host_pool_set_decay(milliseconds);
    return sm_report(status, __func__, NULL);
}

static synced_mem_status reserve_memory(int device, size_t bytes)
{
    if (device < SYNCED_MEM_DEVICE_CURRENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "device %d is not valid: pass 0 or more, or SYNCED_MEM_DEVICE_CURRENT", device);
    if (bytes > (size_t)PTRDIFF_MAX)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%zu bytes are more than a process can address", bytes);
    const synced_mem_status status = sm_device_resolve(device, &device);
    return status == SYNCED_MEM_OK && bytes > 0 ? sm_host_pool_reserve(device, bytes) : status;
}

synced_mem_status synced_mem_host_pool_reserve(int device, size_t bytes)
{
    sm_caller_begin(__func__, NULL);
    return sm_report(reserve_memory(device, bytes), __func__, NULL);
}

synced_mem_status synced_mem_host_pool_get_stats(synced_mem_host_pool_stats *stats)
{
    const synced_mem_status status = SM_CHECK_STRUCT(stats, "stats");
    if (status == SYNCED_MEM_OK)
        sm_host_pool_get_stats(stats);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_host_pool_reset_peaks(void)
{
    sm_host_pool_reset_peaks();
    return SYNCED_MEM_OK;
}

void synced_mem_set_pageable_fallback(int allow)
{
    sm_host_pool_set_fallback(allow != 0);
}
