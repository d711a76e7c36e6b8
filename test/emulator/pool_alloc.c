/*
 * Stream-ordered allocation. Memory comes from the blocks that a pool has reserved. Each allocation has a block of its
 * own.
 *
 * The same stream gets a block with a queued free at once, as the stream keeps the order. Another stream gets it only
 * at the device's limit, with a dependency on the free. If that does not help either, the allocation runs the pool's
 * queued frees. It does not run those of other pools, but takes their unused memory. A pool that may not add
 * dependencies does neither.
 */
#include "emu.h"

#include <stdlib.h>

#define POOL_ROUNDING ((size_t)512)
/* The number of blocks that are searched for one that the same stream frees. */
#define LOOK_AT_MOST 64

/* ---- Blocks ---- */

static struct emu_block *reserve(struct emu_pool *pool, size_t span)
{
    struct emu_device *device = &emu.devices[pool->device];
    if (pool->max_size != 0 && pool->reserved + span > pool->max_size)
        emu_pool_release(pool, 0);
    if (pool->max_size != 0 && pool->reserved + span > pool->max_size)
        return NULL;
    if (!emu_memory_fits(pool->device, span))
        return NULL;
    char *start = emu_span_take(emu_device_arena(pool->device), span);
    if (start == NULL)
        return NULL;
    struct emu_block *block = emu_allocate(sizeof *block);
    block->pool = pool;
    block->start = start;
    block->span = span;
    device->used += span;
    pool->reserved += span;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return block;
}

/* Takes a block over from an allocation with a queued free. That free then concerns no memory. */
static struct emu_block *take_over(struct emu_block **list, struct emu_block *block)
{
    emu_block_unlist(list, block);
    block->free_op->alloc->block = NULL;
    block->free_op = NULL;
    return block;
}

static struct emu_block *take_freeing(struct emu_pool *pool, size_t class, const struct emu_stream *stream)
{
    struct emu_block *block = pool->freeing[class];
    for (int i = 0; block != NULL && i < LOOK_AT_MOST; i++, block = block->after)
        if (block->free_op->stream == stream)
            return take_over(&pool->freeing[class], block);
    return NULL;
}

static struct emu_block *take_free(struct emu_pool *pool, size_t class)
{
    struct emu_block *block = pool->free[class];
    if (block == NULL)
        return NULL;
    emu_block_unlist(&pool->free[class], block);
    pool->unused -= block->span;
    return block;
}

static struct emu_block *take_dependent(struct emu_pool *pool, size_t class, struct emu_op *op)
{
    struct emu_block *block = pool->freeing[class];
    if (block == NULL || !pool->reuse[2])
        return NULL;
    emu_op_after(op, block->free_op);
    return take_over(&pool->freeing[class], block);
}

static size_t count_frees(const struct emu_pool *pool)
{
    size_t count = 0;
    for (int i = 0; i < EMU_CLASSES; i++)
        for (const struct emu_block *block = pool->freeing[i]; block != NULL; block = block->after)
            count++;
    return count;
}

/* Works on a snapshot, as other threads may queue more frees while functions run. */
static void run_frees(struct emu_pool *pool)
{
    const size_t most = count_frees(pool);
    struct emu_op **frees = most == 0 ? NULL : emu_allocate(most * sizeof *frees);
    size_t count = 0;
    for (int i = 0; i < EMU_CLASSES; i++)
        for (struct emu_block *block = pool->freeing[i]; block != NULL; block = block->after) {
            frees[count++] = block->free_op;
            emu_op_ref(block->free_op);
        }
    for (size_t i = 0; i < count; i++) {
        emu_force(frees[i]);
        emu_op_unref(frees[i]);
    }
    free(frees);
}

static struct emu_block *find_block(struct emu_pool *pool, size_t size, struct emu_op *op)
{
    size_t span;
    const size_t class = emu_size_class(size, POOL_ROUNDING, &span);
    struct emu_block *block = take_freeing(pool, class, op->stream);
    if (block == NULL)
        block = take_free(pool, class);
    if (block == NULL)
        block = reserve(pool, span);
    if (block == NULL)
        block = take_dependent(pool, class, op);
    if (block != NULL)
        return block;
    if (pool->reuse[2])
        run_frees(pool);
    return reserve(pool, span);
}

void emu_block_freed(struct emu_alloc *alloc)
{
    struct emu_pool *pool = alloc->pool;
    struct emu_block *block = alloc->block;
    pool->users--;
    if (block != NULL) {
        const size_t class = emu_block_class(block);
        if (block->listed)
            emu_block_unlist(&pool->freeing[class], block);
        block->free_op = NULL;
        emu_poison(&emu.devices[pool->device].arena, block->start, block->span);
        emu_block_list(&pool->free[class], block);
        pool->unused += block->span;
    }
    alloc->pool = NULL;
    alloc->block = NULL;
    emu_pool_forget_if_unused(pool);
}

/* ---- Allocating ---- */

static void queue_alloc(struct emu_op *op, struct emu_pool *pool, struct emu_block *block, size_t size)
{
    struct emu_alloc *alloc = emu_alloc_new(EMU_DEVICE_MEMORY, block->start, size, block->span, pool->device);
    alloc->pool = pool;
    alloc->block = block;
    pool->users++;
    pool->used += size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    op->to = emu_bytes(block->start);
    op->value = EMU_FRESH;
    op->size = block->span;
    emu_op_touches(op, alloc, alloc->start, size, true);
    emu_op_queue(op);
}

/* This runtime has no allocation nodes. So an allocation on a capturing stream is refused. */
static cudaError_t stream_to_allocate_on(cudaStream_t handle, struct emu_stream **stream)
{
    const cudaError_t error = emu_stream_to_queue(handle, stream);
    if (error != cudaSuccess)
        return error;
    return (*stream)->capture != NULL ? cudaErrorNotSupported : emu_unsafe_permitted();
}

static cudaError_t malloc_async(void **out, size_t size, struct emu_pool *pool, struct emu_stream *stream)
{
    if (out == NULL)
        return cudaErrorInvalidValue;
    if (!emu_pools_supported(pool->device))
        return cudaErrorNotSupported;
    if (size == 0) {
        *out = NULL;
        return cudaSuccess;
    }
    if (size > SIZE_MAX / 4)
        return cudaErrorMemoryAllocation;
    struct emu_op *op = emu_op_new(EMU_OP_ALLOC, stream);
    struct emu_block *block = find_block(pool, size, op);
    if (block == NULL) {
        emu_op_unref(op);
        return cudaErrorMemoryAllocation;
    }
    *out = block->start;
    queue_alloc(op, pool, block, size);
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
    struct emu_pool *pool = NULL;
    struct emu_stream *on = NULL;
    cudaError_t error = EMU_ENTER(cudaMallocFromPoolAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = emu_pool_of(memPool, &pool);
    if (error == cudaSuccess)
        error = stream_to_allocate_on(stream, &on);
    if (error == cudaSuccess)
        error = malloc_async(ptr, size, pool, on);
    return emu_leave(error);
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    struct emu_stream *on = NULL;
    cudaError_t error = EMU_ENTER(cudaMallocAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = stream_to_allocate_on(hStream, &on);
    if (error == cudaSuccess) {
        if (emu_default_pool(on->device) == NULL)
            error = cudaErrorMemoryAllocation;
        else
            error = malloc_async(devPtr, size, emu.devices[on->device].current_pool, on);
    }
    return emu_leave(error);
}

/* ---- Freeing ---- */

static void queue_free(struct emu_alloc *alloc, struct emu_stream *stream)
{
    struct emu_op *op = emu_op_new(EMU_OP_FREE, stream);
    emu_alloc_ref(alloc);
    op->alloc = alloc;
    alloc->state = EMU_FREEING;
    alloc->freeing_stream = stream->id;
    emu_alloc_dead(alloc);
    if (alloc->block != NULL) {
        alloc->block->free_op = op;
        emu_block_list(&alloc->pool->freeing[emu_block_class(alloc->block)], alloc->block);
    }
    emu_op_queue(op);
}

static cudaError_t free_async(void *start, struct emu_stream *stream)
{
    struct emu_alloc *alloc;
    if (start == NULL)
        return cudaSuccess;
    /* A graph may free only its own allocations. */
    if (stream->capture != NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = emu_unsafe_permitted();
    if (error == cudaSuccess)
        error = emu_find_to_free(start, &alloc);
    if (error != cudaSuccess)
        return error;
    if (alloc->kind == EMU_MANAGED)
        return cudaErrorNotSupported;
    const struct emu_use *use = emu_unordered_use(alloc, stream);
    if (use != NULL)
        return emu_misuse("memory is freed while queued work uses it that is not ordered before: %s; it is from %s",
                          emu_describe(&use->op->origin), emu_describe(&alloc->born));
    queue_free(alloc, stream);
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = EMU_ENTER(cudaFreeAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = emu_stream_to_queue(hStream, &stream);
    if (error == cudaSuccess)
        error = free_async(devPtr, stream);
    return emu_leave(error);
}

/* ---- The pool of a device's plain cudaMallocAsync ---- */

static cudaError_t pool_of_device(cudaMemPool_t *out, int device, bool current)
{
    if (out == NULL)
        return cudaErrorInvalidValue;
    if (!emu_device_exists(device))
        return cudaErrorInvalidDevice;
    if (!emu_pools_supported(device))
        return cudaErrorNotSupported;
    if (emu_default_pool(device) == NULL)
        return cudaErrorMemoryAllocation;
    *out = (current ? emu.devices[device].current_pool : emu.devices[device].default_pool)->handle;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    cudaError_t error = EMU_ENTER(cudaDeviceGetDefaultMemPool, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = pool_of_device(memPool, device, false);
    return emu_leave(error);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    cudaError_t error = EMU_ENTER(cudaDeviceGetMemPool, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = pool_of_device(memPool, device, true);
    return emu_leave(error);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    struct emu_pool *pool = NULL;
    cudaError_t error = EMU_ENTER(cudaDeviceSetMemPool, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = emu_pool_of(memPool, &pool);
    if (error == cudaSuccess && !emu_device_exists(device))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess && pool->device != device)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        (void)emu_default_pool(device);
        emu.devices[device].current_pool = pool;
    }
    return emu_leave(error);
}
