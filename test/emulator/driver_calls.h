/*
 * The driver's calls that share device memory between processes, found by their names. For tests on the emulated and on
 * the real runtime.
 */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

#include "driver_functions.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <string.h>

struct driver_calls {
#define DRIVER_CALL_MEMBER(name, version) __typeof__(name) *name;
    DRIVER_FUNCTIONS(DRIVER_CALL_MEMBER)
#undef DRIVER_CALL_MEMBER
};

/* The version of CUDA that introduced the latest of the calls. */
#define DRIVER_CALLS_VERSION 11040

/* Sets *out to the function, or to NULL. Returns the runtime's code. */
static inline cudaError_t driver_call(const char *name, void **out)
{
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult result;
    return cudaGetDriverEntryPointByVersion(name, out, DRIVER_CALLS_VERSION, cudaEnableDefault, &result);
#elif CUDART_VERSION >= 12000
    enum cudaDriverEntryPointQueryResult result;
    return cudaGetDriverEntryPoint(name, out, cudaEnableDefault, &result);
#else
    return cudaGetDriverEntryPoint(name, out, cudaEnableDefault);
#endif
}

/* Returns false if a call is missing. */
static inline bool load_driver_calls(struct driver_calls *calls)
{
    void *found = NULL;
#define LOAD_DRIVER_CALL(name, version)                                                                                \
    if (driver_call(#name, &found) != cudaSuccess || found == NULL)                                                    \
        return false;                                                                                                  \
    memcpy(&calls->name, &found, sizeof found);
    DRIVER_FUNCTIONS(LOAD_DRIVER_CALL)
#undef LOAD_DRIVER_CALL
    return true;
}

/* The properties of device memory, exportable by file descriptor or not. */
static inline CUmemAllocationProp device_memory_properties(int device, bool exportable)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    prop.requestedHandleTypes = exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    return prop;
}

static inline CUmemAccessDesc access_of(int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = device;
    desc.flags = flags;
    return desc;
}

#endif
