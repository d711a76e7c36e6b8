/*
 * Devices: their number, the current one, their attributes and peer access.
 */
#include "emu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Attributes ---- */

/* The value of an attribute that no test has set; 0 for all others. */
static int default_attribute(int attribute, int device)
{
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        return 9;
    case cudaDevAttrMultiProcessorCount:
        return 132;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return 1024;
    case cudaDevAttrMaxBlockDimZ:
        return 64;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxPitch:
        return INT_MAX;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        return 65535;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        return 32;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return 48 << 10;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        return 1 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return 228 << 10;
    case cudaDevAttrTotalConstantMemory:
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        return 64 << 10;
    case cudaDevAttrL2CacheSize:
        return 50 << 20;
    case cudaDevAttrGlobalMemoryBusWidth:
        return 5120;
    case cudaDevAttrWarpSize:
        return 32;
    case cudaDevAttrAsyncEngineCount:
        return 3;
    case cudaDevAttrPciBusId:
        return 16 + emu.devices[device].gpu;
    case cudaDevAttrTextureAlignment:
        return 512;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: /* the runtime's enum lacks these two */
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

void emu_attribute_set(int device, int attribute, int value)
{
    struct emu_device *one = &emu.devices[device];
    for (size_t i = 0; i < one->attribute_count; i++) {
        if (one->attributes[i].attribute == attribute) {
            one->attributes[i].value = value;
            return;
        }
    }
    struct emu_attribute *more = realloc(one->attributes, (one->attribute_count + 1) * sizeof *more);
    if (more == NULL)
        return;
    one->attributes = more;
    more[one->attribute_count++] = (struct emu_attribute){attribute, value};
}

int emu_attribute(int device, int attribute)
{
    const struct emu_device *one = &emu.devices[device];
    for (size_t i = 0; i < one->attribute_count; i++)
        if (one->attributes[i].attribute == attribute)
            return one->attributes[i].value;
    return default_attribute(attribute, device);
}

static cudaError_t get_attribute(int *value, int attribute, int device)
{
    if (!emu_device_exists(device))
        return cudaErrorInvalidDevice;
    if (value == NULL || attribute <= 0 || attribute > 1000)
        return cudaErrorInvalidValue;
    *value = emu_attribute(device, attribute);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    cudaError_t error = EMU_ENTER(cudaDeviceGetAttribute, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = get_attribute(value, (int)attr, device);
    return emu_leave(error);
}

CUresult emu_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    cudaError_t error = EMU_ENTER(cuDeviceGetAttribute, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = get_attribute(pi, (int)attrib, dev);
    return emu_leave_driver(error);
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    cudaError_t error = EMU_ENTER(cudaDeviceGetPCIBusId, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess) {
        if (!emu_device_exists(device))
            error = cudaErrorInvalidDevice;
        else if (pciBusId == NULL || len < 13)
            error = cudaErrorInvalidValue;
        else
            snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", (unsigned)(16 + emu.devices[device].gpu));
    }
    return emu_leave(error);
}

/* ---- Count, current device, versions ---- */

static cudaError_t count_in_function(int *count)
{
    emu_lock();
    *count = emu.device_count;
    emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    /* The real runtime permits this call in host functions, against the documentation. */
    if (emu_in_function() && count != NULL)
        return count_in_function(count);
    cudaError_t error = EMU_ENTER(cudaGetDeviceCount, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess && count == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *count = emu.device_count;
    return emu_leave(error);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = EMU_ENTER(cudaGetDevice, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess) {
        if (device == NULL)
            error = cudaErrorInvalidValue;
        else
            *device = emu_self()->device;
    }
    return emu_leave(error);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = EMU_ENTER(cudaSetDevice, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess && !emu_device_exists(device))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess) {
        emu_self()->device = device;
        /* Since CUDA 12 this creates the context. A broken device can still be made current. */
        (void)emu_context(device);
    }
    return emu_leave(error);
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    cudaError_t error = EMU_ENTER(cudaDriverGetVersion, EMU_NEEDS_NOTHING);
    if (error == cudaSuccess) {
        if (driverVersion == NULL)
            error = cudaErrorInvalidValue;
        else
            *driverVersion = emu.machine == EMU_NO_DRIVER ? 0 : emu.driver_version;
    }
    return emu_leave(error);
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    cudaError_t error = EMU_ENTER(cudaRuntimeGetVersion, EMU_NEEDS_NOTHING);
    if (error == cudaSuccess) {
        if (runtimeVersion == NULL)
            error = cudaErrorInvalidValue;
        else
            *runtimeVersion = CUDART_VERSION;
    }
    return emu_leave(error);
}

static cudaError_t wait_for_device(int device)
{
    struct emu_clock *queued = emu_device_clock(device);
    emu_force_device(device);
    emu_host_saw(queued);
    emu_order_saw_device(device);
    emu_ghosts_seen(device, 0);
    emu_pools_synchronized();
    return emu.devices[device].sticky;
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = EMU_ENTER(cudaDeviceSynchronize, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess) {
        const int device = emu_self()->device;
        error = emu_device_wait_permitted(device);
        if (error == cudaSuccess)
            error = wait_for_device(device);
    }
    return emu_leave(error);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    cudaError_t error = EMU_ENTER(cudaDeviceGetStreamPriorityRange, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess && leastPriority != NULL)
        *leastPriority = 0;
    if (error == cudaSuccess && greatestPriority != NULL)
        *greatestPriority = -5;
    return emu_leave(error);
}

/* ---- Peers ---- */

/* cudaDeviceEnablePeerAccess does not cover pools, which have access lists of their own. */
bool emu_peer_reachable(int device, int owner, const struct emu_pool *pool, bool write)
{
    if (device == owner)
        return true;
    if (pool == NULL)
        return emu.devices[device].peer_enabled[owner];
    return write ? pool->access[device] == cudaMemAccessFlagsProtReadWrite
                 : pool->access[device] != cudaMemAccessFlagsProtNone;
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    cudaError_t error = EMU_ENTER(cudaDeviceCanAccessPeer, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess) {
        if (!emu_device_exists(device) || !emu_device_exists(peerDevice))
            error = cudaErrorInvalidDevice;
        else if (canAccessPeer == NULL)
            error = cudaErrorInvalidValue;
        else
            *canAccessPeer = emu.devices[device].peer_possible[peerDevice];
    }
    return emu_leave(error);
}

static cudaError_t change_peer_access(int peer, bool enable)
{
    const int number = emu_self()->device;
    struct emu_device *device = &emu.devices[number];
    if (!emu_device_exists(peer))
        return cudaErrorInvalidDevice;
    if (enable && !device->peer_possible[peer])
        return cudaErrorPeerAccessUnsupported;
    if (device->peer_enabled[peer] == enable)
        return enable ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
    device->peer_enabled[peer] = enable;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaDeviceEnablePeerAccess, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = flags != 0 ? cudaErrorInvalidValue : change_peer_access(peerDevice, true);
    return emu_leave(error);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    cudaError_t error = EMU_ENTER(cudaDeviceDisablePeerAccess, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = change_peer_access(peerDevice, false);
    return emu_leave(error);
}
