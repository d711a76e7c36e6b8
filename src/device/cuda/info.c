/* The seam on the CUDA runtime: properties of a device. */
#include "device/cuda/runtime.h"

#include "base/status.h"

#include <string.h>

/* Older drivers don't know the attribute. */
enum { DRIVER_WITH_POOLS = 11020, DRIVER_WITH_HANDLE_TYPES = 11030, DRIVER_WITH_HOST_NUMA_ID = 12030 };

/* Only newer headers name it. */
enum { HOST_NUMA_ID = 134 };

static const struct attribute {
    size_t where; /* offset of an int in synced_mem_device_info */
    int number;   /* enum cudaDeviceAttr */
    int driver;   /* the oldest that knows the attribute */
} attributes[] = {
    {offsetof(synced_mem_device_info, memory_pools), cudaDevAttrMemoryPoolsSupported, DRIVER_WITH_POOLS},
    {offsetof(synced_mem_device_info, pool_handles), cudaDevAttrMemoryPoolSupportedHandleTypes,
     DRIVER_WITH_HANDLE_TYPES},
    {offsetof(synced_mem_device_info, managed_memory), cudaDevAttrManagedMemory, 0},
    {offsetof(synced_mem_device_info, concurrent_managed_access), cudaDevAttrConcurrentManagedAccess, 0},
    {offsetof(synced_mem_device_info, pageable_memory_access), cudaDevAttrPageableMemoryAccess, 0},
    {offsetof(synced_mem_device_info, integrated), cudaDevAttrIntegrated, 0},
    {offsetof(synced_mem_device_info, can_map_host_memory), cudaDevAttrCanMapHostMemory, 0},
    {offsetof(synced_mem_device_info, host_register), cudaDevAttrHostRegisterSupported, 0},
    {offsetof(synced_mem_device_info, unified_addressing), cudaDevAttrUnifiedAddressing, 0},
    {offsetof(synced_mem_device_info, async_engines), cudaDevAttrAsyncEngineCount, 0},
};

static synced_mem_status query_attributes(int device, synced_mem_device_info *info)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0] && status == SYNCED_MEM_OK; i++) {
        const struct attribute *const one = &attributes[i];
        int value = 0;
        if (info->driver_version >= one->driver)
            status = check_code(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)one->number, device),
                                "cudaDeviceGetAttribute", device, 0);
        memcpy((char *)info + one->where, &value, sizeof value);
    }
    return status;
}

/* Returns the node, or -1. A runtime that does not know the attribute refuses it. */
static int query_numa_node(int device, int driver)
{
    int node = -1;
    if (driver < DRIVER_WITH_HOST_NUMA_ID)
        return -1;
    if (check_code(cudaDeviceGetAttribute(&node, (enum cudaDeviceAttr)HOST_NUMA_ID, device), "cudaDeviceGetAttribute",
                   device, 0) != SYNCED_MEM_OK)
        return -1;
    return node;
}

static synced_mem_status query_info(int device, synced_mem_device_info *info)
{
    size_t free;
    size_t total;
    SM_TRY(check_code(cudaDriverGetVersion(&info->driver_version), "cudaDriverGetVersion", device, 0));
    SM_TRY(check_code(cudaRuntimeGetVersion(&info->runtime_version), "cudaRuntimeGetVersion", device, 0));
    synced_mem_status status = query_attributes(device, info);
    if (status == SYNCED_MEM_OK)
        status = check_code(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", device, 0);
    if (status == SYNCED_MEM_OK)
        status = check_code(cudaDeviceGetPCIBusId(info->pci_bus_id, (int)sizeof info->pci_bus_id, device),
                            "cudaDeviceGetPCIBusId", device, 0);
    if (status != SYNCED_MEM_OK)
        return status;
    info->total_memory = total;
    info->numa_node = query_numa_node(device, info->driver_version);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_device_info(int wanted, synced_mem_device_info *info)
{
    struct before before;
    synced_mem_device_info found = {.struct_size = sizeof found};
    synced_mem_status status = sm_cuda_resolve(wanted, &found.device);
    if (status == SYNCED_MEM_OK)
        status = enter_device(found.device, &before);
    if (status == SYNCED_MEM_OK)
        status = leave_device(found.device, &before, query_info(found.device, &found));
    if (status == SYNCED_MEM_OK)
        *info = found;
    return status;
}
