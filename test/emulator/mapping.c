/*
 * Address ranges from cuMemAddressReserve, and memory that cuMemMap maps there. A mapping is an allocation of device
 * memory. Like other device memory it has two addresses. The program's own address never gives the host access.
 *
 * The documentation calls cuMemUnmap and cuMemSetAccess synchronous "for most use cases". A program cannot rely on
 * that. So cuMemUnmap under pending work is reported.
 */
#include "emu.h"

#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

static char *pointer_of(CUdeviceptr address)
{
    return (char *)(uintptr_t)address;
}

static bool is_granular(uint64_t value)
{
    return value % EMU_GRANULARITY == 0;
}

/* ---- Address ranges ---- */

static cudaError_t reserve_range(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                                 unsigned long long flags)
{
    if (out == NULL || flags != 0 || size == 0 || size % PAGE != 0 || (alignment & (alignment - 1)) != 0 ||
        hint % PAGE != 0)
        return cudaErrorInvalidValue;
    if (alignment > EMU_GRANULARITY)
        return cudaErrorNotSupported;
    char *start = emu_span_take(emu_reserved_arena(), size);
    if (start == NULL)
        return cudaErrorMemoryAllocation;
    struct emu_reserved *range = emu_allocate(sizeof *range);
    *range = (struct emu_reserved){emu.reservations, start, size, emu_self()->origin};
    emu.reservations = range;
    emu.live[EMU_ADDRESS_RANGE]++;
    emu.live_bytes[EMU_ADDRESS_RANGE] += size;
    *out = (uintptr_t)start;
    return cudaSuccess;
}

static cudaError_t free_range(char *start, size_t size)
{
    struct emu_reserved **link = &emu.reservations;
    while (*link != NULL && ((*link)->start != start || (*link)->size != size))
        link = &(*link)->next;
    struct emu_reserved *range = *link;
    if (range == NULL)
        return cudaErrorInvalidValue;
    const struct emu_alloc *mapped = emu_find_overlap(start, size);
    if (mapped != NULL)
        return emu_misuse("the range has memory that is still mapped: %s", emu_describe(&mapped->born));
    *link = range->next;
    emu_span_give(&emu.reserved, start, size);
    emu.live[EMU_ADDRESS_RANGE]--;
    emu.live_bytes[EMU_ADDRESS_RANGE] -= size;
    free(range);
    return cudaSuccess;
}

/* The mappings go with the address space itself. */
void emu_reservations_reset(void)
{
    for (struct emu_reserved *range = emu.reservations, *next; range != NULL; range = next) {
        next = range->next;
        free(range);
    }
    emu.reservations = NULL;
}

static bool is_reserved(const char *start, size_t size)
{
    for (const struct emu_reserved *range = emu.reservations; range != NULL; range = range->next) {
        const size_t offset = (uintptr_t)start - (uintptr_t)range->start;
        if (offset < range->size && size <= range->size - offset)
            return true;
    }
    return false;
}

CUresult emu_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags)
{
    cudaError_t error = EMU_ENTER(cuMemAddressReserve, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = reserve_range(ptr, size, alignment, addr, flags);
    return emu_leave_driver(error);
}

CUresult emu_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    cudaError_t error = EMU_ENTER(cuMemAddressFree, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = free_range(pointer_of(ptr), size);
    return emu_leave_driver(error);
}

/* ---- Mappings ---- */

static cudaError_t map_memory(char *start, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                              unsigned long long flags)
{
    struct emu_memory *memory = NULL;
    /* The offset "currently must be zero". */
    if (flags != 0 || offset != 0 || size == 0 || !is_granular((uintptr_t)start) || !is_granular(size))
        return cudaErrorInvalidValue;
    const cudaError_t error = emu_memory_of(handle, &memory);
    if (error != cudaSuccess)
        return error;
    if (!is_reserved(start, size) || emu_find_overlap(start, size) != NULL)
        return cudaErrorInvalidValue;
    if (size > memory->size)
        return cudaErrorNotSupported; /* seen with driver 580 */
    if (mmap(emu_bytes(start), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file, 0) == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    struct emu_alloc *alloc = emu_alloc_new(EMU_DEVICE_MEMORY, start, size, size, memory->device);
    alloc->memory = memory;
    emu_memory_ref(memory);
    return cudaSuccess;
}

void emu_mapping_release(struct emu_alloc *alloc)
{
    (void)mmap(emu_bytes(alloc->start), alloc->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
               -1, 0);
    emu_memory_unref(alloc->memory);
}

bool emu_mapping_permits(const struct emu_alloc *alloc, int device)
{
    return alloc->memory == NULL || alloc->access[device];
}

/* Checks that the range consists of whole mappings, one beside the other, and that their devices are not lost. */
static cudaError_t check_mapped(const char *start, size_t size)
{
    while (size > 0) {
        const struct emu_alloc *alloc = emu_find(start);
        if (alloc == NULL || alloc->memory == NULL || alloc->start != start || alloc->size > size)
            return cudaErrorInvalidValue;
        if (emu.devices[alloc->device].sticky != cudaSuccess)
            return emu.devices[alloc->device].sticky;
        start += alloc->size;
        size -= alloc->size;
    }
    return cudaSuccess;
}

static bool is_empty_range(const char *start, size_t size)
{
    return is_granular((uintptr_t)start) && is_granular(size) && is_reserved(start, size) &&
           emu_find_overlap(start, size) == NULL;
}

/* The documentation requires a range that is mapped. Driver 580 was seen to return success for a reserved range without
 * mappings. The call reports it, and then returns success too. */
static cudaError_t unmap_range(char *start, size_t size)
{
    if (size > 0 && is_empty_range(start, size)) {
        (void)emu_misuse("nothing is mapped at %p, %zu bytes", (void *)start, size);
        return cudaSuccess;
    }
    cudaError_t error = size == 0 ? cudaErrorInvalidValue : check_mapped(start, size);
    for (struct emu_alloc *alloc; error == cudaSuccess && (alloc = emu_find_overlap(start, size)) != NULL;) {
        if (alloc->uses != NULL)
            return emu_misuse("memory is unmapped while queued work uses it: %s; it is from %s",
                              emu_describe(&alloc->uses->op->origin), emu_describe(&alloc->born));
        emu_race_host_free(alloc);
        emu_alloc_dead(alloc);
        emu_memory_release(alloc);
    }
    return error;
}

/* Reading alone is refused, as for pools. */
static cudaError_t check_access(const char *start, size_t size, const CUmemAccessDesc *desc)
{
    const int device = desc->location.id;
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return cudaErrorInvalidValue;
    if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return cudaErrorNotSupported;
    if (!emu_device_exists(device))
        return cudaErrorInvalidDevice;
    for (const char *end = start + size; start < end;) {
        const struct emu_alloc *alloc = emu_find(start);
        if (alloc->device != device && !emu.devices[device].peer_possible[alloc->device])
            return cudaErrorInvalidDevice;
        start += alloc->size;
    }
    return cudaSuccess;
}

static cudaError_t set_range_access(char *start, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    cudaError_t error = size == 0 || desc == NULL || count == 0 ? cudaErrorInvalidValue : check_mapped(start, size);
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        error = check_access(start, size, &desc[i]);
    if (error != cudaSuccess)
        return error;
    for (char *end = start + size; start < end;) {
        struct emu_alloc *alloc = emu_find(start);
        for (size_t i = 0; i < count; i++)
            alloc->access[desc[i].location.id] = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        start += alloc->size;
    }
    return cudaSuccess;
}

CUresult emu_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    cudaError_t error = EMU_ENTER(cuMemMap, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = map_memory(pointer_of(ptr), size, offset, handle, flags);
    return emu_leave_driver(error);
}

CUresult emu_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    cudaError_t error = EMU_ENTER(cuMemUnmap, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = unmap_range(pointer_of(ptr), size);
    return emu_leave_driver(error);
}

CUresult emu_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    cudaError_t error = EMU_ENTER(cuMemSetAccess, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = set_range_access(pointer_of(ptr), size, desc, count);
    return emu_leave_driver(error);
}
