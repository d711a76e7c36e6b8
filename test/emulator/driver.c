/*
 * The entry points of the driver, found by name, and the driver's queries of devices. The driver's functions have no
 * symbols of their own, as a program that uses the runtime alone does not link with the driver.
 */
#include "emu.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int version;
    void (*function)(void);
} functions[] = {
#define NAMED_FUNCTION(name, version) {#name, version, (void (*)(void))emu_##name},
    DRIVER_FUNCTIONS(NAMED_FUNCTION)
#undef NAMED_FUNCTION
};

/* The version limits the search. A function that is not found is no error: the result is then in *status. */
static cudaError_t find_function(const char *name, void **out, int version, unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *status)
{
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    if (name == NULL || out == NULL || flags > cudaEnablePerThreadDefaultStream)
        return cudaErrorInvalidValue;
    *out = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(name, functions[i].name) != 0)
            continue;
        result = cudaDriverEntryPointVersionNotSufficent;
        if (functions[i].version <= version) {
            result = cudaDriverEntryPointSuccess;
            memcpy(out, &functions[i].function, sizeof *out);
        }
    }
    if (status != NULL)
        *status = result;
    return cudaSuccess;
}

static cudaError_t find_for_runtime(const char *name, void **out, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status, const void *site)
{
    cudaError_t error = emu_enter(EMU_cudaGetDriverEntryPoint, EMU_NEEDS_DRIVER, site);
    if (error == cudaSuccess)
        error = find_function(name, out, CUDART_VERSION < emu.driver_version ? CUDART_VERSION : emu.driver_version,
                              flags, status);
    return emu_leave(error);
}

static cudaError_t find_by_version(const char *name, void **out, unsigned version, unsigned long long flags,
                                   enum cudaDriverEntryPointQueryResult *status, const void *site)
{
    cudaError_t error = emu_enter(EMU_cudaGetDriverEntryPointByVersion, EMU_NEEDS_DRIVER, site);
    if (error == cudaSuccess && version > (unsigned)emu.driver_version)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = find_function(name, out, (int)version, flags, status);
    return emu_leave(error);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return find_for_runtime(symbol, funcPtr, flags, driverStatus, __builtin_return_address(0));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return find_by_version(symbol, funcPtr, cudaVersion, flags, driverStatus, __builtin_return_address(0));
}

/* ---- The names for programs that use per-thread streams for NULL; no function here has a stream ---- */

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *driverStatus);

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return find_for_runtime(symbol, funcPtr, flags, driverStatus, __builtin_return_address(0));
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return find_by_version(symbol, funcPtr, cudaVersion, flags, driverStatus, __builtin_return_address(0));
}

/* ---- Devices ---- */

/* The identity is the physical GPU's. So it is the same in each process that sees the GPU. */
void emu_uuid(int device, CUuuid *uuid)
{
    memset(uuid, 0, sizeof *uuid);
    snprintf(uuid->bytes, sizeof uuid->bytes, "emulated GPU %d", emu.devices[device].gpu);
}

CUresult emu_cuDeviceGet(CUdevice *device, int ordinal)
{
    cudaError_t error = EMU_ENTER(cuDeviceGet, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess) {
        if (!emu_device_exists(ordinal))
            error = cudaErrorInvalidDevice;
        else if (device == NULL)
            error = cudaErrorInvalidValue;
        else
            *device = ordinal;
    }
    return emu_leave_driver(error);
}

CUresult emu_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    cudaError_t error = EMU_ENTER(cuDeviceGetUuid, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess) {
        if (!emu_device_exists(dev))
            error = cudaErrorInvalidDevice;
        else if (uuid == NULL)
            error = cudaErrorInvalidValue;
        else
            emu_uuid(dev, uuid);
    }
    return emu_leave_driver(error);
}
