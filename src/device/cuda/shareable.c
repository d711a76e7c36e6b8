/*
 * The seam on the CUDA runtime: device memory that processes share, by the driver's calls for virtual memory. The
 * runtime finds these calls by their names, so that no other library is linked. Their codes are the runtime's.
 */
#include "device/cuda/runtime.h"

#include "base/status.h"
#include "system/file.h"

#include <cuda.h>
#include <string.h>

#define DRIVER_CALLS(X)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetUuid)                                                                                                 \
    X(cuMemGetAllocationGranularity)                                                                                   \
    X(cuMemCreate)                                                                                                     \
    X(cuMemRelease)                                                                                                    \
    X(cuMemGetAllocationPropertiesFromHandle)                                                                          \
    X(cuMemExportToShareableHandle)                                                                                    \
    X(cuMemImportFromShareableHandle)                                                                                  \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemMap)                                                                                                        \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemSetAccess)

struct driver {
#define DECLARE_CALL(name) __typeof__(name) *name;
    DRIVER_CALLS(DECLARE_CALL)
#undef DECLARE_CALL
};

/* The version of CUDA that has the latest of the calls. */
enum { CALLS_VERSION = 11040 };

/* ---- Calls ---- */

static synced_mem_status find_call(int device, const char *name, void **out)
{
    cudaError_t code;
    *out = NULL;
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult result;
    code = cudaGetDriverEntryPointByVersion(name, out, CALLS_VERSION, cudaEnableDefault, &result);
#elif CUDART_VERSION >= 12000
    enum cudaDriverEntryPointQueryResult result;
    code = cudaGetDriverEntryPoint(name, out, cudaEnableDefault, &result);
#else
    code = cudaGetDriverEntryPoint(name, out, cudaEnableDefault);
#endif
    SM_TRY(check_code(code, "cudaGetDriverEntryPoint", device, 0));
    return *out ? SYNCED_MEM_OK : sm_fail(SYNCED_MEM_ERR_CUDA, "the driver has no %s", name);
}

static synced_mem_status find_calls(int device, struct driver *driver)
{
    void *found;
#define FIND_CALL(name)                                                                                                \
    SM_TRY(find_call(device, #name, &found));                                                                          \
    memcpy(&driver->name, &found, sizeof found);
    DRIVER_CALLS(FIND_CALL)
#undef FIND_CALL
    return SYNCED_MEM_OK;
}

static synced_mem_status check_driver(CUresult code, const char *call, int device, size_t size)
{
    return check_code((cudaError_t)code, call, device, size);
}

/* Giving something up is tried twice: after a failure it would stay. */
#define TRY_TWICE(call) ((call) == CUDA_SUCCESS ? CUDA_SUCCESS : (call))

/* The device is not made current: that would create its context. */
synced_mem_status sm_device_uuid(int device, unsigned char uuid[SM_DEVICE_UUID_BYTES])
{
    struct driver driver;
    CUdevice handle;
    CUuuid found;
    SM_TRY(sm_cuda_resolve(device, &device));
    SM_TRY(find_calls(device, &driver));
    SM_TRY(check_driver(driver.cuDeviceGet(&handle, device), "cuDeviceGet", device, 0));
    SM_TRY(check_driver(driver.cuDeviceGetUuid(&found, handle), "cuDeviceGetUuid", device, 0));
    _Static_assert(sizeof found.bytes == SM_DEVICE_UUID_BYTES, "a UUID has 16 bytes");
    memcpy(uuid, found.bytes, SM_DEVICE_UUID_BYTES);
    return SYNCED_MEM_OK;
}

/* ---- Mappings ---- */

/* Maps the memory at an address, which it frees after a failure. If the memory cannot be unmapped, as on a lost device,
 * the address stays too. */
static synced_mem_status map_here(const struct driver *driver, int device, CUmemGenericAllocationHandle handle,
                                  size_t bytes, CUdeviceptr data)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    synced_mem_status status = check_driver(driver->cuMemMap(data, bytes, 0, handle, 0), "cuMemMap", device, bytes);
    bool is_mapped = status == SYNCED_MEM_OK;
    if (is_mapped)
        status = check_driver(driver->cuMemSetAccess(data, bytes, &access, 1), "cuMemSetAccess", device, bytes);
    if (status == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    if (is_mapped)
        is_mapped = TRY_TWICE(driver->cuMemUnmap(data, bytes)) != CUDA_SUCCESS;
    if (!is_mapped)
        (void)TRY_TWICE(driver->cuMemAddressFree(data, bytes));
    return status;
}

/* The mapping keeps the memory, so the handle is released. */
static synced_mem_status map_and_release(const struct driver *driver, int device, CUmemGenericAllocationHandle handle,
                                         size_t bytes, size_t alignment, void **out)
{
    CUdeviceptr data;
    synced_mem_status status =
        check_driver(driver->cuMemAddressReserve(&data, bytes, alignment, 0, 0), "cuMemAddressReserve", device, bytes);
    if (status == SYNCED_MEM_OK)
        status = map_here(driver, device, handle, bytes, data);
    (void)TRY_TWICE(driver->cuMemRelease(handle));
    if (status == SYNCED_MEM_OK)
        *out = (void *)(uintptr_t)data;
    return status;
}

/* ---- Making ---- */

static CUmemAllocationProp describe_memory(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

/* Exports the memory, and maps it. Takes over the handle. */
static synced_mem_status export_and_map(const struct driver *driver, int device, CUmemGenericAllocationHandle handle,
                                        size_t alignment, struct sm_device_shareable *made)
{
    synced_mem_status status = check_driver(
        driver->cuMemExportToShareableHandle(&made->file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle", device, made->bytes);
    if (status != SYNCED_MEM_OK) {
        (void)TRY_TWICE(driver->cuMemRelease(handle));
        return status;
    }
    sm_file_close_on_exec(made->file);
    status = map_and_release(driver, device, handle, made->bytes, alignment, &made->data);
    if (status != SYNCED_MEM_OK)
        (void)sm_file_close(made->file);
    return status;
}

static synced_mem_status make_memory(int device, size_t size, size_t alignment, struct sm_device_shareable *out)
{
    const CUmemAllocationProp description = describe_memory(device);
    struct driver driver;
    size_t granularity;
    CUmemGenericAllocationHandle handle;
    SM_TRY(find_calls(device, &driver));
    SM_TRY(
        check_driver(driver.cuMemGetAllocationGranularity(&granularity, &description, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                     "cuMemGetAllocationGranularity", device, 0));
    struct sm_device_shareable made = {.bytes = (size + granularity - (size > 0)) / granularity * granularity};
    SM_TRY(check_driver(driver.cuMemCreate(&handle, made.bytes, &description, 0), "cuMemCreate", device, made.bytes));
    SM_TRY(export_and_map(&driver, device, handle, alignment, &made));
    *out = made;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_device_share(int device, size_t size, size_t alignment, struct sm_device_shareable *out)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, make_memory(device, size, alignment, out));
}

/* ---- Importing ---- */

static synced_mem_status check_location(const struct driver *driver, int device, CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp found;
    SM_TRY(check_driver(driver->cuMemGetAllocationPropertiesFromHandle(&found, handle),
                        "cuMemGetAllocationPropertiesFromHandle", device, 0));
    if (found.location.type == CU_MEM_LOCATION_TYPE_DEVICE && found.location.id == device)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent memory that is not of device %d", device);
}

static synced_mem_status import_memory(const struct driver *driver, int device, int file, size_t bytes,
                                       size_t alignment, void **out)
{
    CUmemGenericAllocationHandle handle;
    SM_TRY(check_driver(driver->cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)file,
                                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                        "cuMemImportFromShareableHandle", device, bytes));
    const synced_mem_status status = check_location(driver, device, handle);
    if (status != SYNCED_MEM_OK) {
        (void)TRY_TWICE(driver->cuMemRelease(handle));
        return status;
    }
    return map_and_release(driver, device, handle, bytes, alignment, out);
}

synced_mem_status sm_device_import(int device, int file, size_t bytes, size_t alignment, void **out)
{
    struct before before;
    struct driver driver;
    SM_TRY(enter_device(device, &before));
    synced_mem_status status = find_calls(device, &driver);
    if (status == SYNCED_MEM_OK) {
        status = import_memory(&driver, device, file, bytes, alignment, out);
        /* A file that is no device memory, or of another size, is the other process's doing. */
        status = status == SYNCED_MEM_ERR_CUDA ? SYNCED_MEM_ERR_PEER : status;
    }
    return leave_device(device, &before, status);
}

/* ---- Giving up ---- */

static synced_mem_status find_calls_here(int device, struct driver *driver, struct before *before)
{
    SM_TRY(enter_device(device, before));
    const synced_mem_status status = find_calls(device, driver);
    return status == SYNCED_MEM_OK ? SYNCED_MEM_OK : leave_device(device, before, status);
}

static synced_mem_status unmap_memory(const struct driver *driver, int device, void *data, size_t bytes)
{
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)data;
    SM_TRY(check_driver(TRY_TWICE(driver->cuMemUnmap(at, bytes)), "cuMemUnmap", device, bytes));
    return check_driver(TRY_TWICE(driver->cuMemAddressFree(at, bytes)), "cuMemAddressFree", device, bytes);
}

synced_mem_status sm_device_unmap(int device, void *data, size_t bytes)
{
    struct before before;
    struct driver driver;
    if (find_calls_here(device, &driver, &before) != SYNCED_MEM_OK)
        SM_TRY(find_calls_here(device, &driver, &before));
    return leave_device(device, &before, unmap_memory(&driver, device, data, bytes));
}
