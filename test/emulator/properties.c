/*
 * cudaGetDeviceProperties: the device's attributes in one struct, with a name and an identity.
 */
#include "emu.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(struct cudaDeviceProp, member)

struct property {
    size_t at;
    enum cudaDeviceAttr attribute;
};

/* Members of four bytes. */
static const struct property ints[] = {
    {AT(regsPerBlock), cudaDevAttrMaxRegistersPerBlock},
    {AT(warpSize), cudaDevAttrWarpSize},
    {AT(maxThreadsPerBlock), cudaDevAttrMaxThreadsPerBlock},
    {AT(maxThreadsDim[0]), cudaDevAttrMaxBlockDimX},
    {AT(maxThreadsDim[1]), cudaDevAttrMaxBlockDimY},
    {AT(maxThreadsDim[2]), cudaDevAttrMaxBlockDimZ},
    {AT(maxGridSize[0]), cudaDevAttrMaxGridDimX},
    {AT(maxGridSize[1]), cudaDevAttrMaxGridDimY},
    {AT(maxGridSize[2]), cudaDevAttrMaxGridDimZ},
    {AT(major), cudaDevAttrComputeCapabilityMajor},
    {AT(minor), cudaDevAttrComputeCapabilityMinor},
    {AT(multiProcessorCount), cudaDevAttrMultiProcessorCount},
    {AT(integrated), cudaDevAttrIntegrated},
    {AT(canMapHostMemory), cudaDevAttrCanMapHostMemory},
    {AT(concurrentKernels), cudaDevAttrConcurrentKernels},
    {AT(ECCEnabled), cudaDevAttrEccEnabled},
    {AT(pciBusID), cudaDevAttrPciBusId},
    {AT(pciDeviceID), cudaDevAttrPciDeviceId},
    {AT(pciDomainID), cudaDevAttrPciDomainId},
    {AT(tccDriver), cudaDevAttrTccDriver},
    {AT(asyncEngineCount), cudaDevAttrAsyncEngineCount},
    {AT(unifiedAddressing), cudaDevAttrUnifiedAddressing},
    {AT(memoryBusWidth), cudaDevAttrGlobalMemoryBusWidth},
    {AT(l2CacheSize), cudaDevAttrL2CacheSize},
    {AT(maxThreadsPerMultiProcessor), cudaDevAttrMaxThreadsPerMultiProcessor},
    {AT(streamPrioritiesSupported), cudaDevAttrStreamPrioritiesSupported},
    {AT(globalL1CacheSupported), cudaDevAttrGlobalL1CacheSupported},
    {AT(localL1CacheSupported), cudaDevAttrLocalL1CacheSupported},
    {AT(regsPerMultiprocessor), cudaDevAttrMaxRegistersPerMultiprocessor},
    {AT(managedMemory), cudaDevAttrManagedMemory},
    {AT(isMultiGpuBoard), cudaDevAttrIsMultiGpuBoard},
    {AT(multiGpuBoardGroupID), cudaDevAttrMultiGpuBoardGroupID},
    {AT(hostNativeAtomicSupported), cudaDevAttrHostNativeAtomicSupported},
    {AT(pageableMemoryAccess), cudaDevAttrPageableMemoryAccess},
    {AT(concurrentManagedAccess), cudaDevAttrConcurrentManagedAccess},
    {AT(computePreemptionSupported), cudaDevAttrComputePreemptionSupported},
    {AT(canUseHostPointerForRegisteredMem), cudaDevAttrCanUseHostPointerForRegisteredMem},
    {AT(cooperativeLaunch), cudaDevAttrCooperativeLaunch},
    {AT(pageableMemoryAccessUsesHostPageTables), cudaDevAttrPageableMemoryAccessUsesHostPageTables},
    {AT(directManagedMemAccessFromHost), cudaDevAttrDirectManagedMemAccessFromHost},
    {AT(maxBlocksPerMultiProcessor), cudaDevAttrMaxBlocksPerMultiprocessor},
    {AT(hostRegisterSupported), cudaDevAttrHostRegisterSupported},
    {AT(hostRegisterReadOnlySupported), cudaDevAttrHostRegisterReadOnlySupported},
    {AT(memoryPoolsSupported), cudaDevAttrMemoryPoolsSupported},
    {AT(gpuDirectRDMASupported), cudaDevAttrGPUDirectRDMASupported},
    {AT(memoryPoolSupportedHandleTypes), cudaDevAttrMemoryPoolSupportedHandleTypes},
    {AT(deviceNumaConfig), cudaDevAttrNumaConfig},
    {AT(deviceNumaId), cudaDevAttrNumaId},
    {AT(hostNumaId), cudaDevAttrHostNumaId},
};

/* Members of type size_t. */
static const struct property sizes[] = {
    {AT(sharedMemPerBlock), cudaDevAttrMaxSharedMemoryPerBlock},
    {AT(memPitch), cudaDevAttrMaxPitch},
    {AT(totalConstMem), cudaDevAttrTotalConstantMemory},
    {AT(textureAlignment), cudaDevAttrTextureAlignment},
    {AT(sharedMemPerMultiprocessor), cudaDevAttrMaxSharedMemoryPerMultiprocessor},
    {AT(sharedMemPerBlockOptin), cudaDevAttrMaxSharedMemoryPerBlockOptin},
    {AT(reservedSharedMemPerBlock), cudaDevAttrReservedSharedMemoryPerBlock},
};

static void describe(struct cudaDeviceProp *out, int device)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "Emulated GPU");
    emu_uuid(device, &out->uuid);
    out->totalGlobalMem = emu.devices[device].limit;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        const int value = emu_attribute(device, ints[i].attribute);
        memcpy((char *)out + ints[i].at, &value, sizeof value);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t value = (size_t)emu_attribute(device, sizes[i].attribute);
        memcpy((char *)out + sizes[i].at, &value, sizeof value);
    }
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t error = EMU_ENTER(cudaGetDeviceProperties, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess) {
        if (!emu_device_exists(device))
            error = cudaErrorInvalidDevice;
        else if (prop == NULL)
            error = cudaErrorInvalidValue;
        else
            describe(prop, device);
    }
    return emu_leave(error);
}
