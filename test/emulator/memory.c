/*
 * Allocations of every kind, and device memory without pools.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_ROUNDING ((size_t)512)
/* The oldest ghosts can be dropped, as they serve only reports of double frees. */
#define MOST_GHOSTS 256

/* ---- Allocations ---- */

static void leave_tree(struct emu_alloc *alloc)
{
    if (!alloc->in_tree)
        return;
    emu_tree_remove(alloc);
    emu_alloc_unref(alloc);
}

static void ghost_gone(struct emu_alloc *ghost)
{
    if (ghost->ghost_before != NULL)
        ghost->ghost_before->ghost_after = ghost->ghost_after;
    else
        emu.ghosts = ghost->ghost_after;
    if (ghost->ghost_after != NULL)
        ghost->ghost_after->ghost_before = ghost->ghost_before;
    else
        emu.oldest_ghost = ghost->ghost_before;
    emu.ghost_count--;
    leave_tree(ghost);
}

/* Makes a freed allocation a ghost. Its memory may be used again, but a second free of it is still misuse. */
void emu_alloc_ghost(struct emu_alloc *alloc)
{
    alloc->state = EMU_GHOST;
    if (!alloc->in_tree)
        return;
    alloc->ghost_before = NULL;
    alloc->ghost_after = emu.ghosts;
    if (emu.ghosts != NULL)
        emu.ghosts->ghost_before = alloc;
    else
        emu.oldest_ghost = alloc;
    emu.ghosts = alloc;
    if (++emu.ghost_count > MOST_GHOSTS)
        ghost_gone(emu.oldest_ghost);
}

/* Notes that the host has waited for this stream (0: for the whole device), and so for the frees on it. */
void emu_ghosts_seen(int device, uint64_t stream_id)
{
    for (struct emu_alloc *ghost = emu.ghosts; ghost != NULL;) {
        struct emu_alloc *next = ghost->ghost_after;
        if (stream_id == 0 ? ghost->device == device : ghost->freeing_stream == stream_id)
            ghost_gone(ghost);
        ghost = next;
    }
}

/* Removes the record of freed memory at this address. Live memory cannot be there. */
static void clear_address(const char *start, size_t size)
{
    for (struct emu_alloc *old; (old = emu_find_overlap(start, size)) != NULL;) {
        if (old->state == EMU_GHOST)
            ghost_gone(old);
        else
            leave_tree(old);
    }
}

struct emu_alloc *emu_alloc_new(enum emu_kind kind, char *start, size_t size, size_t span, int device)
{
    struct emu_alloc *alloc = emu_allocate(sizeof *alloc);
    clear_address(start, size);
    alloc->refs = 1;
    alloc->start = start;
    alloc->size = size;
    alloc->span = span;
    alloc->kind = kind;
    alloc->device = device;
    alloc->born = emu_self()->origin;
    emu_tree_insert(alloc);
    emu.live[kind]++;
    emu.live_bytes[kind] += size;
    return alloc;
}

void emu_alloc_ref(struct emu_alloc *alloc)
{
    alloc->refs++;
}

void emu_alloc_unref(struct emu_alloc *alloc)
{
    if (--alloc->refs > 0)
        return;
    emu_history_clear(&alloc->history);
    free(alloc);
}

void emu_alloc_dead(struct emu_alloc *alloc)
{
    emu.live[alloc->kind]--;
    emu.live_bytes[alloc->kind] -= alloc->size;
    /* A queued free counts its bytes as unused at once, though they stay reserved. */
    if (alloc->pool != NULL)
        alloc->pool->used -= alloc->size;
    alloc->freed = emu_self()->origin;
}

static void forget_tree(struct emu_alloc *alloc)
{
    if (alloc == NULL)
        return;
    forget_tree(alloc->left);
    forget_tree(alloc->right);
    if (alloc->block != NULL && !alloc->block->listed)
        free(alloc->block);
    emu_history_clear(&alloc->history);
    free(alloc);
}

void emu_memory_reset(void)
{
    forget_tree(emu.tree);
    emu.tree = emu.ghosts = emu.oldest_ghost = NULL;
    emu.ghost_count = 0;
}

void emu_memory_release(struct emu_alloc *alloc)
{
    switch (alloc->kind) {
    case EMU_DEVICE_MEMORY:
        if (alloc->pool != NULL) {
            emu_block_freed(alloc);
        } else if (alloc->memory != NULL) {
            emu_mapping_release(alloc);
        } else {
            emu.devices[alloc->device].used -= alloc->span;
            emu_span_give(&emu.devices[alloc->device].arena, alloc->start, alloc->span);
        }
        break;
    case EMU_PINNED:
        emu.pinned_used -= alloc->span;
        emu_order_given_back(alloc->start);
        emu_span_give(&emu.host, alloc->start, alloc->span);
        break;
    case EMU_MANAGED:
        emu_order_given_back(alloc->start);
        emu_span_give(&emu.host, alloc->start, alloc->span);
        break;
    case EMU_REGISTERED:
        emu.pinned_used -= alloc->span;
        break;
    case EMU_STREAM:
    case EMU_EVENT:
    case EMU_POOL:
    case EMU_GRAPH:
    case EMU_GRAPH_EXEC:
    case EMU_MEMORY_HANDLE:
    case EMU_ADDRESS_RANGE:
    case EMU_LIBRARY:
    case EMU_KINDS:
        break;
    }
    if (alloc->state == EMU_FREEING)
        emu_alloc_ghost(alloc);
    else
        leave_tree(alloc);
}

/* Device memory is always an allocation; other memory may be pageable. A range that begins inside an allocation and
 * leaves it is refused, as on the real runtime. */
cudaError_t emu_resolve(const void *start, size_t size, struct emu_alloc **out)
{
    struct emu_alloc *alloc = emu_find(start);
    *out = NULL;
    if (alloc == NULL) {
        if (emu_is_device_address(start))
            return emu_misuse("%p is not, or no longer, allocated device memory", start);
        return start == NULL ? cudaErrorInvalidValue : cudaSuccess;
    }
    if (alloc->state != EMU_LIVE)
        return emu_misuse("%p is in memory that was freed: %s", start, emu_describe(&alloc->freed));
    if (size > alloc->size - (size_t)((const char *)start - alloc->start))
        return cudaErrorInvalidValue;
    *out = alloc;
    return cudaSuccess;
}

/* ---- cudaMalloc and cudaFree ---- */

static cudaError_t device_malloc(void **out, size_t size)
{
    const int number = emu_self()->device;
    struct emu_device *device = &emu.devices[number];
    if (out == NULL)
        return cudaErrorInvalidValue;
    if (size == 0) {
        *out = NULL;
        return cudaSuccess;
    }
    if (size > SIZE_MAX / 2)
        return cudaErrorMemoryAllocation;
    const size_t span = (size + DEVICE_ROUNDING - 1) / DEVICE_ROUNDING * DEVICE_ROUNDING;
    if (!emu_memory_fits(number, span))
        return cudaErrorMemoryAllocation;
    char *start = emu_span_take(emu_device_arena(number), span);
    if (start == NULL)
        return cudaErrorMemoryAllocation;
    device->used += span;
    memset(emu_bytes(start), EMU_FRESH, span);
    (void)emu_alloc_new(EMU_DEVICE_MEMORY, start, size, span, number);
    *out = start;
    return cudaSuccess;
}

/* The driver assumes that the work on pool memory is done, and does not wait for it. */
static cudaError_t free_pool_memory(struct emu_alloc *alloc)
{
    if (alloc->uses != NULL)
        return emu_misuse("memory of a pool is freed while queued work uses it: %s; it is from %s",
                          emu_describe(&alloc->uses->op->origin), emu_describe(&alloc->born));
    emu_race_host_free(alloc);
    emu_alloc_dead(alloc);
    emu_memory_release(alloc);
    return cudaSuccess;
}

static cudaError_t wait_and_free(struct emu_alloc *alloc)
{
    /* Kernels run with the lock released. So another thread may free the same memory meanwhile. */
    emu_alloc_ref(alloc);
    struct emu_clock *queued = emu_device_clock(alloc->device);
    emu_force_device(alloc->device);
    emu_force_uses(alloc);
    emu_host_saw(queued);
    emu_order_saw_device(alloc->device);
    emu_order_saw_uses(alloc);
    emu_race_uses_done(alloc);
    emu_race_host_free(alloc);
    cudaError_t error = emu.devices[alloc->device].sticky;
    if (alloc->state != EMU_LIVE || !alloc->in_tree) {
        error = emu_misuse("memory is freed by two threads at the same time: %s", emu_describe(&alloc->freed));
    } else {
        emu_alloc_dead(alloc);
        emu_memory_release(alloc);
    }
    emu_alloc_unref(alloc);
    return error;
}

cudaError_t emu_find_to_free(const void *start, struct emu_alloc **out)
{
    struct emu_alloc *alloc = emu_find(start);
    if (alloc != NULL && alloc->state != EMU_LIVE)
        return emu_misuse("%p was freed before, and the host has not synchronized with that free: %s", start,
                          emu_describe(&alloc->freed));
    if (alloc == NULL || alloc->start != start || (alloc->kind != EMU_DEVICE_MEMORY && alloc->kind != EMU_MANAGED) ||
        alloc->memory != NULL)
        return cudaErrorInvalidValue;
    *out = alloc;
    return cudaSuccess;
}

static cudaError_t device_free(void *start)
{
    if (start == NULL)
        return cudaSuccess;
    struct emu_alloc *alloc;
    const cudaError_t error = emu_find_to_free(start, &alloc);
    if (error != cudaSuccess)
        return error;
    return alloc->pool != NULL ? free_pool_memory(alloc) : wait_and_free(alloc);
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    cudaError_t error = EMU_ENTER(cudaMalloc, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = device_malloc(devPtr, size);
    return emu_leave(error);
}

cudaError_t cudaFree(void *devPtr)
{
    cudaError_t error = EMU_ENTER(cudaFree, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = device_free(devPtr);
    return emu_leave(error);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    cudaError_t error = EMU_ENTER(cudaMemGetInfo, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess) {
        const struct emu_device *device = &emu.devices[emu_self()->device];
        if (free == NULL || total == NULL) {
            error = cudaErrorInvalidValue;
        } else {
            *total = device->limit;
            *free = device->used < device->limit ? device->limit - device->used : 0;
        }
    }
    return emu_leave(error);
}

/* ---- Pointer attributes ---- */

static void describe_pointer(struct cudaPointerAttributes *out, const void *pointer)
{
    const struct emu_alloc *alloc = emu_find(pointer);
    void *address = (void *)(uintptr_t)pointer;
    memset(out, 0, sizeof *out);
    out->type = cudaMemoryTypeUnregistered;
    out->device = cudaInvalidDeviceId;
    if (alloc == NULL || alloc->state != EMU_LIVE) {
        out->hostPointer = address;
        return;
    }
    out->device = alloc->device;
    out->devicePointer = address;
    if (alloc->kind == EMU_DEVICE_MEMORY) {
        out->type = cudaMemoryTypeDevice;
        if (!emu_mapping_permits(alloc, emu_self()->device))
            out->devicePointer = NULL;
        return;
    }
    out->type = alloc->kind == EMU_MANAGED ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    out->hostPointer = address;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    cudaError_t error = EMU_ENTER(cudaPointerGetAttributes, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess) {
        if (attributes == NULL)
            error = cudaErrorInvalidValue;
        else
            describe_pointer(attributes, ptr);
    }
    return emu_leave(error);
}

bool emu_extent(const void *address, void **base, size_t *size)
{
    emu_lock();
    const struct emu_alloc *alloc = emu_find(address);
    const bool found = alloc != NULL && alloc->state == EMU_LIVE;
    if (found && base != NULL)
        *base = alloc->start;
    if (found && size != NULL)
        *size = alloc->size;
    emu_unlock();
    return found;
}

bool emu_peek(const void *device_address, void *to, size_t size)
{
    emu_lock();
    const struct emu_alloc *alloc = emu_find(device_address);
    const bool inside = alloc != NULL && alloc->state == EMU_LIVE &&
                        size <= alloc->size - (size_t)((const char *)device_address - alloc->start);
    if (inside)
        memcpy(to, emu_bytes(device_address), size);
    emu_unlock();
    return inside;
}
