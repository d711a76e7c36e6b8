/*
 * Shared by the right and the wrong programs that map memory from cuMemCreate.
 */
#ifndef TRUST_MAPPINGS_H
#define TRUST_MAPPINGS_H

#include "driver_calls.h"
#include "trust.h"

enum { PIECE = 2 << 20 }; /* the granularity */

#define DRIVER_MUST(call) trust_must(#call, (cudaError_t)(call))

static inline struct driver_calls driver(void)
{
    struct driver_calls cu;

    CHECK(load_driver_calls(&cu));
    return cu;
}

static inline CUmemGenericAllocationHandle new_memory(const struct driver_calls *cu)
{
    const CUmemAllocationProp prop = device_memory_properties(0, true);
    CUmemGenericAllocationHandle handle;

    DRIVER_MUST(cu->cuMemCreate(&handle, PIECE, &prop, 0));
    return handle;
}

/* Maps the memory without access. */
static inline byte *map_closed(const struct driver_calls *cu, CUmemGenericAllocationHandle handle)
{
    CUdeviceptr start;

    DRIVER_MUST(cu->cuMemAddressReserve(&start, PIECE, 0, 0, 0));
    DRIVER_MUST(cu->cuMemMap(start, PIECE, 0, handle, 0));
    return (byte *)(uintptr_t)start;
}

static inline byte *map_open(const struct driver_calls *cu, CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    byte *const memory = map_closed(cu, handle);

    DRIVER_MUST(cu->cuMemSetAccess((uintptr_t)memory, PIECE, &access, 1));
    return memory;
}

static inline byte *new_mapping(const struct driver_calls *cu)
{
    const CUmemGenericAllocationHandle handle = new_memory(cu);
    byte *const memory = map_open(cu, handle);

    DRIVER_MUST(cu->cuMemRelease(handle));
    return memory;
}

static inline void end_mapping(const struct driver_calls *cu, byte *memory)
{
    DRIVER_MUST(cu->cuMemUnmap((uintptr_t)memory, PIECE));
    DRIVER_MUST(cu->cuMemAddressFree((uintptr_t)memory, PIECE));
}

#endif
