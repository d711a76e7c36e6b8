/*
 * Page-locked host memory: allocated or registered. With unified addressing the devices use the host's addresses.
 */
#include "emu.h"

#include <stdio.h>
#include <string.h>

#define PAGE ((size_t)4096)
/* The smallest range that current drivers refuse to register in one call, with any amount of memory. */
#define TOO_LARGE ((size_t)1 << 39)

static size_t whole_pages(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

static bool over_limit(size_t span)
{
    return emu.pinned_used > emu.pinned_limit || span > emu.pinned_limit - emu.pinned_used;
}

/* ---- Allocated ---- */

static cudaError_t host_alloc(void **out, size_t size, unsigned flags)
{
    const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (out == NULL || (flags & ~known) != 0)
        return cudaErrorInvalidValue;
    if (size == 0) {
        *out = NULL;
        return cudaSuccess;
    }
    if (size > SIZE_MAX / 2)
        return cudaErrorMemoryAllocation;
    const size_t span = whole_pages(size);
    char *start = over_limit(span) ? NULL : emu_span_take(emu_host_arena(), span);
    if (start == NULL)
        return cudaErrorMemoryAllocation;
    emu.pinned_used += span;
    emu_order_handed_out(start);
    memset(start, EMU_FRESH, span);
    struct emu_alloc *alloc = emu_alloc_new(EMU_PINNED, start, size, span, emu_self()->device);
    /* Unified addressing maps every allocation. */
    alloc->flags = flags | cudaHostAllocMapped;
    *out = start;
    return cudaSuccess;
}

static cudaError_t free_host(void *start)
{
    if (start == NULL)
        return cudaSuccess;
    struct emu_alloc *alloc = emu_find(start);
    if (alloc == NULL || alloc->start != start || alloc->kind != EMU_PINNED)
        return cudaErrorInvalidValue;
    emu_alloc_ref(alloc);
    emu_force_uses(alloc);
    emu_race_uses_done(alloc);
    emu_order_saw_uses(alloc);
    emu_race_host_free(alloc);
    /* Kernels run with the lock released. So another thread may have freed the same memory meanwhile. */
    const bool ours = alloc->in_tree;
    if (ours) {
        emu_alloc_dead(alloc);
        emu_memory_release(alloc);
    }
    const cudaError_t error =
        ours ? emu.devices[alloc->device].sticky : emu_misuse("%p is freed by two threads at the same time", start);
    emu_alloc_unref(alloc);
    return error;
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    cudaError_t error = EMU_ENTER(cudaMallocHost, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = host_alloc(ptr, size, cudaHostAllocDefault);
    return emu_leave(error);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaHostAlloc, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = host_alloc(pHost, size, flags);
    return emu_leave(error);
}

cudaError_t cudaFreeHost(void *ptr)
{
    cudaError_t error = EMU_ENTER(cudaFreeHost, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = free_host(ptr);
    return emu_leave(error);
}

/* ---- Registered ---- */

/* Returns whether the memory can be read and, unless the registration is read-only, written. The driver needs both to
 * lock the pages. */
static bool is_open(const void *start, size_t size, bool read_only)
{
    uintptr_t next = (uintptr_t)start;
    const uintptr_t end = next + size;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return true;
    while (next < end && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        char access[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, access) != 3 || next < from || next >= to)
            continue;
        if (access[0] != 'r' || (access[1] != 'w' && !read_only))
            break;
        next = to;
    }
    fclose(maps);
    return next >= end;
}

static cudaError_t register_host(void *start, size_t size, unsigned flags)
{
    const unsigned known =
        cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    if (start == NULL || size == 0 || (flags & ~known) != 0 || (uintptr_t)start + size < (uintptr_t)start)
        return cudaErrorInvalidValue;
    /* Two ranges may share a page, but no byte. */
    const struct emu_alloc *other = emu_find_overlap(start, size);
    if (other != NULL)
        return other->kind == EMU_REGISTERED ? cudaErrorHostMemoryAlreadyRegistered : cudaErrorInvalidValue;
    if (!is_open(start, size, (flags & cudaHostRegisterReadOnly) != 0))
        return cudaErrorInvalidValue;
    const size_t span = whole_pages(size);
    if (size >= TOO_LARGE || over_limit(span))
        return cudaErrorMemoryAllocation;
    emu.pinned_used += span;
    struct emu_alloc *alloc = emu_alloc_new(EMU_REGISTERED, start, size, span, emu_self()->device);
    alloc->flags = flags | cudaHostRegisterMapped;
    return cudaSuccess;
}

static cudaError_t unregister_host(void *start)
{
    struct emu_alloc *alloc = emu_find(start);
    if (start == NULL)
        return cudaErrorInvalidValue;
    if (alloc == NULL)
        return cudaErrorHostMemoryNotRegistered;
    if (alloc->kind != EMU_REGISTERED || alloc->start != start)
        return cudaErrorInvalidValue;
    if (alloc->uses != NULL)
        return emu_misuse("memory is unregistered while queued work uses it: %s",
                          emu_describe(&alloc->uses->op->origin));
    emu_race_host_free(alloc);
    emu_alloc_dead(alloc);
    emu_memory_release(alloc);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaHostRegister, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = register_host(ptr, size, flags);
    return emu_leave(error);
}

cudaError_t cudaHostUnregister(void *ptr)
{
    cudaError_t error = EMU_ENTER(cudaHostUnregister, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = unregister_host(ptr);
    return emu_leave(error);
}

/* ---- Device access to host memory ---- */

static bool is_host_memory(const struct emu_alloc *alloc)
{
    return alloc != NULL && alloc->kind != EMU_DEVICE_MEMORY;
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaHostGetDevicePointer, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess) {
        if (pDevice == NULL || flags != 0 || !is_host_memory(emu_find(pHost)))
            error = cudaErrorInvalidValue;
        else
            *pDevice = pHost;
    }
    return emu_leave(error);
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    cudaError_t error = EMU_ENTER(cudaHostGetFlags, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess) {
        const struct emu_alloc *alloc = emu_find(pHost);
        if (pFlags == NULL || !is_host_memory(alloc) || alloc->kind == EMU_MANAGED)
            error = cudaErrorInvalidValue;
        else
            *pFlags = alloc->flags;
    }
    return emu_leave(error);
}
