/*
 * Copies and fills.
 *
 *   from       to         cudaMemcpyAsync            cudaMemcpy
 *   pageable   device     late; by seed source read  the stream is waited for, then source read; by seed done
 *   device     pageable   late; by seed done         done at return
 *   locked     device     late                       done at return
 *   device     locked     late                       done at return
 *   device     device     late                       late
 *   host       host       done at return             done at return
 *
 * cudaMemcpyAsync on pageable memory "might be synchronous". It is not documented that the source has been read at
 * return, or that the target is written. A real runtime was seen to do both; a program may rely on neither. On a
 * capturing stream nothing is done at return, and pageable memory is accessed when the graph runs.
 *
 * "Locked" is page-locked memory; managed memory counts as a device's. The addresses decide the kind of copy, whatever
 * kind the caller names.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    char *to;
    const char *from;
    size_t size;
    struct emu_alloc *target, *source; /* NULL: pageable */
    struct emu_stream *stream;
    bool synchronous; /* false for the Async calls */
    bool read_now;    /* pageable memory, before the call returns */
};

static bool is_host(const struct emu_alloc *alloc)
{
    return alloc == NULL || alloc->kind == EMU_PINNED || alloc->kind == EMU_REGISTERED;
}

static bool must_be_done(const struct copy *copy)
{
    const bool from_host = is_host(copy->source), to_host = is_host(copy->target);
    if (from_host && to_host)
        return true;
    if (copy->target == NULL)
        return copy->synchronous || emu_chance(8);
    if (copy->source == NULL)
        return false;
    return copy->synchronous && (from_host || to_host);
}

static cudaError_t queue_copy(const struct copy *copy)
{
    const bool captured = copy->stream->capture != NULL;
    const bool from_pageable = !captured && copy->source == NULL && copy->target != NULL && !is_host(copy->target);
    const bool staged = from_pageable && (copy->synchronous || copy->read_now || emu_chance(8));
    if (staged && copy->synchronous) {
        const cudaError_t error = emu_stream_wait(copy->stream);
        if (error != cudaSuccess)
            return error;
    }
    const bool wait = !captured && must_be_done(copy);
    const bool at_once = staged && emu_chance(4);
    struct emu_op *op = emu_op_new(EMU_OP_COPY, copy->stream);
    emu_op_touches(op, copy->source, copy->from, copy->size, false);
    emu_op_touches(op, copy->target, copy->to, copy->size, true);
    op->to = emu_bytes(copy->to);
    op->from = emu_bytes(copy->from);
    op->size = copy->size;
    op->by_host = copy->source == NULL || copy->target == NULL;
    if (staged) {
        op->staging = emu_allocate(copy->size);
        memcpy(op->staging, copy->from, copy->size);
        op->from = op->staging;
    }
    if (!captured && copy->source == NULL)
        emu_order_read(copy->from, copy->size);
    if (wait) {
        const cudaError_t error = emu_queue_and_wait(op);
        if (error == cudaSuccess && copy->target == NULL)
            emu_order_written(copy->to, copy->size);
        return error;
    }
    if (!captured && copy->target == NULL) /* at any time from now on */
        emu_order_written(copy->to, copy->size);
    emu_op_ref(op);
    emu_op_queue(op);
    if (at_once)
        (void)emu_try(op);
    emu_op_unref(op);
    return cudaSuccess;
}

/* A copy between devices needs no peer access, but one of the two devices must have access to a mapping. */
static cudaError_t permitted(const struct emu_alloc *alloc, const struct emu_stream *stream)
{
    if (alloc == NULL || stream == NULL || emu_mapping_permits(alloc, alloc->device) ||
        emu_mapping_permits(alloc, stream->device))
        return cudaSuccess;
    return emu_misuse("%p is mapped, and cuMemSetAccess has not given device %d access", (void *)alloc->start,
                      stream->device);
}

static cudaError_t resolve(struct copy *copy)
{
    cudaError_t error = emu_resolve(copy->to, copy->size, &copy->target);
    if (error == cudaSuccess)
        error = emu_resolve(copy->from, copy->size, &copy->source);
    if (error == cudaSuccess)
        error = permitted(copy->target, copy->stream);
    return error == cudaSuccess ? permitted(copy->source, copy->stream) : error;
}

cudaError_t emu_copy_check(void *to, const void *from, size_t size)
{
    struct copy copy = {.to = to, .from = from, .size = size};
    return resolve(&copy);
}

cudaError_t emu_copy(void *to, const void *from, size_t size, struct emu_stream *stream, bool read_now)
{
    struct copy copy = {.to = to, .from = from, .size = size, .stream = stream, .read_now = read_now};
    const cudaError_t error = resolve(&copy);
    return error != cudaSuccess ? error : queue_copy(&copy);
}

/* A call that waits cannot be captured. */
static cudaError_t stream_of(cudaStream_t handle, bool synchronous, struct emu_stream **stream)
{
    return synchronous ? emu_stream_not_capturing(handle, stream) : emu_stream_to_queue(handle, stream);
}

static cudaError_t copy_memory(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t handle,
                               bool synchronous)
{
    struct copy copy = {.to = to, .from = from, .size = size, .synchronous = synchronous};
    cudaError_t error = stream_of(handle, synchronous, &copy.stream);
    if (error != cudaSuccess)
        return error;
    if ((unsigned)kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (size == 0)
        return cudaSuccess;
    error = resolve(&copy);
    return error != cudaSuccess ? error : queue_copy(&copy);
}

static bool is_on(const struct emu_alloc *alloc, int device)
{
    return alloc == NULL || alloc->kind != EMU_DEVICE_MEMORY || alloc->device == device;
}

static cudaError_t copy_peer(void *to, int to_device, const void *from, int from_device, size_t size,
                             cudaStream_t handle)
{
    struct copy copy = {.to = to, .from = from, .size = size};
    cudaError_t error = stream_of(handle, false, &copy.stream);
    if (error != cudaSuccess)
        return error;
    if (!emu_device_exists(to_device) || !emu_device_exists(from_device))
        return cudaErrorInvalidDevice;
    if (size == 0)
        return cudaSuccess;
    error = resolve(&copy);
    if (error == cudaSuccess && (!is_on(copy.target, to_device) || !is_on(copy.source, from_device)))
        error = cudaErrorInvalidValue;
    return error != cudaSuccess ? error : queue_copy(&copy);
}

static cudaError_t fill(void *to, int value, size_t size, cudaStream_t handle, bool synchronous)
{
    struct emu_stream *stream = NULL;
    struct emu_alloc *target = NULL;
    cudaError_t error = stream_of(handle, synchronous, &stream);
    if (error != cudaSuccess || size == 0)
        return error;
    error = emu_resolve(to, size, &target);
    if (error != cudaSuccess)
        return error;
    if (target == NULL)
        return cudaErrorInvalidValue;
    error = permitted(target, stream);
    if (error != cudaSuccess)
        return error;
    struct emu_op *op = emu_op_new(EMU_OP_FILL, stream);
    emu_op_touches(op, target, to, size, true);
    op->to = emu_bytes(to);
    op->value = value & 0xff;
    op->size = size;
    /* cudaMemset waits only for memory that the host can access. */
    if (synchronous && target->kind != EMU_DEVICE_MEMORY)
        return emu_queue_and_wait(op);
    emu_op_queue(op);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    cudaError_t error = EMU_ENTER(cudaMemcpy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = copy_memory(dst, src, count, kind, cudaStreamLegacy, true);
    return emu_leave(error);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaMemcpyAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = copy_memory(dst, src, count, kind, stream, false);
    return emu_leave(error);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
                                cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaMemcpyPeerAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = copy_peer(dst, dstDevice, src, srcDevice, count, stream);
    return emu_leave(error);
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    cudaError_t error = EMU_ENTER(cudaMemset, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = fill(devPtr, value, count, cudaStreamLegacy, true);
    return emu_leave(error);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaMemsetAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = fill(devPtr, value, count, stream, false);
    return emu_leave(error);
}

/* ---- With the calling thread's stream in place of the legacy one ---- */

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemset_ptds(void *devPtr, int value, size_t count);

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    cudaError_t error = EMU_ENTER(cudaMemcpy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = copy_memory(dst, src, count, kind, cudaStreamPerThread, true);
    return emu_leave(error);
}

cudaError_t cudaMemset_ptds(void *devPtr, int value, size_t count)
{
    cudaError_t error = EMU_ENTER(cudaMemset, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = fill(devPtr, value, count, cudaStreamPerThread, true);
    return emu_leave(error);
}
