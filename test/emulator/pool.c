/*
 * Memory pools: their life, attributes and access lists. A pool keeps the memory that it has reserved. It gives memory
 * back when it is trimmed, or when a synchronization finds it above its release threshold.
 */
#include "emu.h"

#include <stdlib.h>

#if CUDART_VERSION >= 12020
#define MAX_SIZE_OF(props) ((props)->maxSize)
#else
#define MAX_SIZE_OF(props) ((size_t)0)
#endif

/* ---- Blocks ---- */

size_t emu_block_class(const struct emu_block *block)
{
    size_t span;
    return emu_size_class(block->span, 512, &span);
}

void emu_block_list(struct emu_block **list, struct emu_block *block)
{
    block->before = NULL;
    block->after = *list;
    if (*list != NULL)
        (*list)->before = block;
    *list = block;
    block->listed = true;
}

void emu_block_unlist(struct emu_block **list, struct emu_block *block)
{
    if (block->before != NULL)
        block->before->after = block->after;
    else
        *list = block->after;
    if (block->after != NULL)
        block->after->before = block->before;
    block->listed = false;
}

void emu_pool_release(struct emu_pool *pool, uint64_t keep)
{
    for (int i = 0; i < EMU_CLASSES && pool->unused > 0; i++) {
        while (pool->free[i] != NULL && pool->reserved > keep) {
            struct emu_block *block = pool->free[i];
            emu_block_unlist(&pool->free[i], block);
            pool->unused -= block->span;
            pool->reserved -= block->span;
            emu.devices[pool->device].used -= block->span;
            emu_span_give(&emu.devices[pool->device].arena, block->start, block->span);
            free(block);
        }
    }
}

/* Memory with a queued cudaFreeAsync counts, and is not waited for. Unused memory of pools is taken from them. */
bool emu_memory_fits(int device, size_t span)
{
    const struct emu_device *one = &emu.devices[device];
    for (struct emu_pool *pool = emu.pools; pool != NULL; pool = pool->next) {
        if (one->used <= one->limit && span <= one->limit - one->used)
            return true;
        if (pool->device == device)
            emu_pool_release(pool, 0);
    }
    return one->used <= one->limit && span <= one->limit - one->used;
}

void emu_pools_synchronized(void)
{
    for (struct emu_pool *pool = emu.pools; pool != NULL; pool = pool->next)
        if (pool->unused > 0 && pool->reserved > pool->threshold)
            emu_pool_release(pool, pool->threshold);
}

/* ---- Life ---- */

bool emu_pools_supported(int device)
{
    const struct emu_device *one = &emu.devices[device];
    for (size_t i = 0; i < one->attribute_count; i++)
        if (one->attributes[i].attribute == (int)cudaDevAttrMemoryPoolsSupported)
            return one->attributes[i].value != 0;
    return true;
}

static struct emu_pool *new_pool(int device, size_t max_size)
{
    struct CUmemPoolHandle_st *handle = emu_slot_take(&emu.pool_handles);
    if (handle == NULL)
        return NULL;
    struct emu_pool *pool = emu_allocate(sizeof *pool);
    pool->handle = handle;
    pool->device = device;
    pool->max_size = max_size;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->access[device] = cudaMemAccessFlagsProtReadWrite;
    pool->born = emu_self()->origin;
    pool->next = emu.pools;
    emu.pools = pool;
    handle->pool = pool;
    return pool;
}

struct emu_pool *emu_default_pool(int device)
{
    struct emu_device *one = &emu.devices[device];
    if (one->default_pool == NULL)
        one->default_pool = new_pool(device, 0);
    if (one->current_pool == NULL)
        one->current_pool = one->default_pool;
    return one->default_pool;
}

/* Frees a destroyed pool with the last of its allocations. */
void emu_pool_forget_if_unused(struct emu_pool *pool)
{
    if (pool->handle != NULL || pool->users > 0)
        return;
    emu_pool_release(pool, 0);
    struct emu_pool **link = &emu.pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

void emu_pools_reset(void)
{
    for (struct emu_pool *pool = emu.pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        for (int i = 0; i < 2 * EMU_CLASSES; i++) {
            struct emu_block *block = i < EMU_CLASSES ? pool->free[i] : pool->freeing[i - EMU_CLASSES];
            for (struct emu_block *after; block != NULL; block = after) {
                after = block->after;
                free(block);
            }
        }
        free(pool);
    }
    emu.pools = NULL;
}

cudaError_t emu_pool_of(cudaMemPool_t handle, struct emu_pool **pool)
{
    if (handle == NULL)
        return cudaErrorInvalidValue;
    if (!emu_slot_is_live(&emu.pool_handles, handle))
        return emu_misuse("%p is not, or no longer, a memory pool", (void *)handle);
    *pool = handle->pool;
    return cudaSuccess;
}

static cudaError_t create(cudaMemPool_t *out, const struct cudaMemPoolProps *props)
{
    if (out == NULL || props == NULL || props->allocType != cudaMemAllocationTypePinned)
        return cudaErrorInvalidValue;
    if (props->location.type != cudaMemLocationTypeDevice || props->handleTypes != cudaMemHandleTypeNone)
        return props->location.type == cudaMemLocationTypeInvalid ? cudaErrorInvalidValue : cudaErrorNotSupported;
    if (!emu_device_exists(props->location.id))
        return cudaErrorInvalidValue;
    if (!emu_pools_supported(props->location.id))
        return cudaErrorNotSupported;
    struct emu_pool *pool = new_pool(props->location.id, MAX_SIZE_OF(props));
    if (pool == NULL)
        return cudaErrorMemoryAllocation;
    emu.live[EMU_POOL]++;
    *out = pool->handle;
    return cudaSuccess;
}

static cudaError_t destroy(cudaMemPool_t handle)
{
    struct emu_pool *pool = NULL;
    const cudaError_t error = emu_pool_of(handle, &pool);
    if (error != cudaSuccess)
        return error;
    struct emu_device *device = &emu.devices[pool->device];
    if (pool == device->default_pool)
        return cudaErrorInvalidValue;
    if (pool == device->current_pool)
        device->current_pool = device->default_pool;
    emu_slot_give(&emu.pool_handles, handle);
    emu.live[EMU_POOL]--;
    pool->handle = NULL;
    emu_pool_forget_if_unused(pool);
    return cudaSuccess;
}

/* ---- Attributes ---- */

/* The high-water marks can only be reset, with 0. */
static cudaError_t set_attribute(struct emu_pool *pool, enum cudaMemPoolAttr attribute, const void *value)
{
    switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
        pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies] = *(const int *)value != 0;
        return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
        pool->threshold = *(const uint64_t *)value;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
        if (*(const uint64_t *)value != 0)
            return cudaErrorInvalidValue;
        if (attribute == cudaMemPoolAttrReservedMemHigh)
            pool->reserved_high = pool->reserved;
        else
            pool->used_high = pool->used;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
        break;
    }
    return cudaErrorInvalidValue;
}

static cudaError_t get_attribute(const struct emu_pool *pool, enum cudaMemPoolAttr attribute, void *value)
{
    uint64_t *number = value;
    switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
        *(int *)value = pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies];
        return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
        *number = pool->threshold;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
        *number = pool->reserved;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
        *number = pool->reserved_high;
        return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
        *number = pool->used;
        return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
        *number = pool->used_high;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}

/* ---- Access ---- */

static cudaError_t check_access(const struct emu_pool *pool, const struct cudaMemAccessDesc *access)
{
    const int device = access->location.id;
    if (access->flags == cudaMemAccessFlagsProtRead)
        return cudaErrorNotSupported;
    if (access->location.type != cudaMemLocationTypeDevice)
        return cudaErrorInvalidValue;
    if (!emu_device_exists(device))
        return cudaErrorInvalidDevice;
    if (device != pool->device)
        return emu.devices[device].peer_possible[pool->device] ? cudaSuccess : cudaErrorInvalidDevice;
    /* The owner cannot be denied access. */
    return access->flags == cudaMemAccessFlagsProtReadWrite ? cudaSuccess : cudaErrorInvalidDevice;
}

static cudaError_t set_access(struct emu_pool *pool, const struct cudaMemAccessDesc *list, size_t count)
{
    if (list == NULL && count > 0)
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; i++) {
        const cudaError_t error = check_access(pool, &list[i]);
        if (error != cudaSuccess)
            return error;
    }
    for (size_t i = 0; i < count; i++)
        pool->access[list[i].location.id] = list[i].flags;
    return cudaSuccess;
}

/* ---- Calls ---- */

/* Begins a call on a pool that has a pointer argument beside it. */
#define ENTER_WITH_POOL(call, handle, pointer)                                                                         \
    struct emu_pool *pool = NULL;                                                                                      \
    cudaError_t error = EMU_ENTER(call, EMU_NEEDS_CONTEXT);                                                            \
    if (error == cudaSuccess && (pointer) == NULL)                                                                     \
        error = cudaErrorInvalidValue;                                                                                 \
    if (error == cudaSuccess)                                                                                          \
    error = emu_pool_of(handle, &pool)

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    cudaError_t error = EMU_ENTER(cudaMemPoolCreate, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = create(memPool, poolProps);
    return emu_leave(error);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    cudaError_t error = EMU_ENTER(cudaMemPoolDestroy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = destroy(memPool);
    return emu_leave(error);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    ENTER_WITH_POOL(cudaMemPoolSetAttribute, memPool, value);
    if (error == cudaSuccess)
        error = set_attribute(pool, attr, value);
    return emu_leave(error);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    ENTER_WITH_POOL(cudaMemPoolGetAttribute, memPool, value);
    if (error == cudaSuccess)
        error = get_attribute(pool, attr, value);
    return emu_leave(error);
}

/* The amount to keep is rounded up, and overflows to 0. */
enum { KEPT_IN_STEPS_OF = 2 << 20 };

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
    ENTER_WITH_POOL(cudaMemPoolTrimTo, memPool, memPool);
    if (error == cudaSuccess)
        emu_pool_release(pool, minBytesToKeep > SIZE_MAX - KEPT_IN_STEPS_OF ? 0 : minBytesToKeep);
    return emu_leave(error);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
{
    ENTER_WITH_POOL(cudaMemPoolSetAccess, memPool, memPool);
    if (error == cudaSuccess)
        error = set_access(pool, descList, count);
    return emu_leave(error);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    ENTER_WITH_POOL(cudaMemPoolGetAccess, memPool, flags);
    if (error == cudaSuccess) {
        if (location == NULL || location->type != cudaMemLocationTypeDevice || !emu_device_exists(location->id))
            error = cudaErrorInvalidValue;
        else
            *flags = pool->access[location->id];
    }
    return emu_leave(error);
}
