/* The seam on the CUDA runtime: memory that host and device both use. */
#include "device/cuda/runtime.h"

#include "base/status.h"

static synced_mem_status query_attribute(int device, enum cudaDeviceAttr name, bool *set)
{
    int value = 0;
    const synced_mem_status status =
        check_code(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute", device, 0);
    *set = value != 0;
    return status;
}

synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts)
{
    struct before before;
    bool managed = false;
    bool concurrent = false;
    SM_TRY(enter_device(device, &before));
    synced_mem_status status = query_attribute(device, cudaDevAttrIntegrated, &facts->integrated);
    if (status == SYNCED_MEM_OK)
        status = query_attribute(device, cudaDevAttrManagedMemory, &managed);
    if (status == SYNCED_MEM_OK)
        status = query_attribute(device, cudaDevAttrConcurrentManagedAccess, &concurrent);
    facts->managed = managed && concurrent;
    return leave_device(device, &before, status);
}

synced_mem_status sm_device_check_mapped(int device, void *data)
{
    struct before before;
    void *there = NULL;
    SM_TRY(enter_device(device, &before));
    synced_mem_status status =
        check_code(cudaHostGetDevicePointer(&there, data, 0), "cudaHostGetDevicePointer", device, 0);
    if (status == SYNCED_MEM_OK && there != data)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                         "device %d has host memory %p at another address, %p: mapped placement is not possible",
                         device, data, there);
    return leave_device(device, &before, status);
}

synced_mem_status sm_device_managed_alloc(int device, size_t size, void **out)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(
        device, &before,
        check_code(cudaMallocManaged(out, size, cudaMemAttachGlobal), "cudaMallocManaged", device, size));
}

synced_mem_status sm_device_managed_free(int device, void *data)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaFree(data), "cudaFree", device, 0));
}

/* CUDA 13 names a location by a struct, earlier versions by a device's number. */
#if CUDART_VERSION >= 13000
static struct cudaMemLocation make_location(int device, bool host)
{
    return (struct cudaMemLocation){.type = host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                                    .id = host ? 0 : device};
}

static cudaError_t prefetch_pages(const void *data, size_t size, int device, bool host, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(data, size, make_location(device, host), 0, stream);
}

static cudaError_t advise_location(const void *data, size_t size, int device)
{
    return cudaMemAdvise(data, size, cudaMemAdviseSetPreferredLocation, make_location(device, false));
}
#else
static cudaError_t prefetch_pages(const void *data, size_t size, int device, bool host, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(data, size, host ? cudaCpuDeviceId : device, stream);
}

static cudaError_t advise_location(const void *data, size_t size, int device)
{
    return cudaMemAdvise(data, size, cudaMemAdviseSetPreferredLocation, device);
}
#endif

synced_mem_status sm_device_managed_prefetch(int device, const void *data, size_t size, bool host,
                                             synced_mem_stream stream)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(
        device, &before,
        check_code(prefetch_pages(data, size, device, host, stream), "cudaMemPrefetchAsync", device, size));
}

synced_mem_status sm_device_managed_advise(int device, const void *data, size_t size)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before,
                        check_code(advise_location(data, size, device), "cudaMemAdvise", device, size));
}
