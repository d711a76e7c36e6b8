/* The seam on the CUDA runtime: memory that host and device both use. */
#include "device/cuda/runtime.h"

#include "base/status.h"

static synced_mem_status attribute(int device, enum cudaDeviceAttr name, bool *set)
{
    int value = 0;
    const synced_mem_status status =
        check(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute", device, 0);
    *set = value != 0;
    return status;
}

synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts)
{
    struct before before;
    bool managed = false;
    bool concurrent = false;
    SM_TRY(enter(device, &before));
    synced_mem_status status = attribute(device, cudaDevAttrIntegrated, &facts->integrated);
    if (status == SYNCED_MEM_OK)
        status = attribute(device, cudaDevAttrManagedMemory, &managed);
    if (status == SYNCED_MEM_OK)
        status = attribute(device, cudaDevAttrConcurrentManagedAccess, &concurrent);
    facts->managed = managed && concurrent;
    return leave(device, &before, status);
}

synced_mem_status sm_device_check_mapped(int device, void *data)
{
    struct before before;
    void *there = NULL;
    SM_TRY(enter(device, &before));
    synced_mem_status status = check(cudaHostGetDevicePointer(&there, data, 0), "cudaHostGetDevicePointer", device, 0);
    if (status == SYNCED_MEM_OK && there != data)
        status = sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                         "device %d has host memory %p at another address, %p: mapped placement is not possible",
                         device, data, there);
    return leave(device, &before, status);
}

synced_mem_status sm_device_managed_alloc(int device, size_t size, void **out)
{
    struct before before;
    SM_TRY(enter(device, &before));
    return leave(device, &before,
                 check(cudaMallocManaged(out, size, cudaMemAttachGlobal), "cudaMallocManaged", device, size));
}

synced_mem_status sm_device_managed_free(int device, void *data)
{
    struct before before;
    SM_TRY(enter(device, &before));
    return leave(device, &before, check(cudaFree(data), "cudaFree", device, 0));
}

/* CUDA 13 names a location by a struct, earlier versions by a device's number. */
#if CUDART_VERSION >= 13000
static struct cudaMemLocation place(int device, bool host)
{
    return (struct cudaMemLocation){.type = host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                                    .id = host ? 0 : device};
}

static cudaError_t prefetch(const void *data, size_t size, int device, bool host, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(data, size, place(device, host), 0, stream);
}

static cudaError_t prefer(const void *data, size_t size, int device)
{
    return cudaMemAdvise(data, size, cudaMemAdviseSetPreferredLocation, place(device, false));
}
#else
static cudaError_t prefetch(const void *data, size_t size, int device, bool host, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(data, size, host ? cudaCpuDeviceId : device, stream);
}

static cudaError_t prefer(const void *data, size_t size, int device)
{
    return cudaMemAdvise(data, size, cudaMemAdviseSetPreferredLocation, device);
}
#endif

synced_mem_status sm_device_managed_prefetch(int device, const void *data, size_t size, bool host,
                                             synced_mem_stream stream)
{
    struct before before;
    SM_TRY(enter(device, &before));
    return leave(device, &before,
                 check(prefetch(data, size, device, host, stream), "cudaMemPrefetchAsync", device, size));
}

synced_mem_status sm_device_managed_advise(int device, const void *data, size_t size)
{
    struct before before;
    SM_TRY(enter(device, &before));
    return leave(device, &before, check(prefer(data, size, device), "cudaMemAdvise", device, size));
}
