/*
 * Managed memory: host memory that every device may access. The preferred location makes no difference here.
 */
#include "emu.h"

#include <string.h>

static cudaError_t malloc_managed(void **out, size_t size, unsigned flags)
{
    if (out == NULL || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return cudaErrorInvalidValue;
    if (size == 0) {
        *out = NULL;
        return cudaSuccess;
    }
    char *start = emu_span_take(emu_host_arena(), size);
    if (start == NULL)
        return cudaErrorMemoryAllocation;
    emu_order_handed_out(start);
    memset(start, EMU_FRESH, size);
    struct emu_alloc *alloc = emu_alloc_new(EMU_MANAGED, start, size, size, emu_self()->device);
    alloc->flags = flags;
    *out = start;
    return cudaSuccess;
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaMallocManaged, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = malloc_managed(devPtr, size, flags);
    return emu_leave(error);
}

static cudaError_t managed_range(const void *start, size_t size, struct emu_alloc **alloc)
{
    const cudaError_t error = size == 0 ? cudaErrorInvalidValue : emu_resolve(start, size, alloc);
    if (error != cudaSuccess)
        return error;
    return *alloc != NULL && (*alloc)->kind == EMU_MANAGED ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t prefetch(const void *start, size_t size, bool to_device, int device, cudaStream_t handle)
{
    struct emu_stream *stream = NULL;
    struct emu_alloc *alloc = NULL;
    cudaError_t error = emu_stream_to_queue(handle, &stream);
    if (error == cudaSuccess && stream->capture != NULL)
        error = cudaErrorStreamCaptureUnsupported;
    if (error == cudaSuccess)
        error = managed_range(start, size, &alloc);
    if (error != cudaSuccess)
        return error;
    if (to_device && !emu_device_exists(device))
        return cudaErrorInvalidDevice;
    /* A prefetch moves pages and changes no byte. For a later free it counts as a read. */
    struct emu_op *op = emu_op_new(EMU_OP_MARK, stream);
    emu_op_touches(op, alloc, start, size, false);
    emu_op_queue(op);
    return cudaSuccess;
}

static cudaError_t advise(const void *start, size_t size, enum cudaMemoryAdvise advice)
{
    struct emu_alloc *alloc = NULL;
    if (advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy)
        return cudaErrorInvalidValue;
    return managed_range(start, size, &alloc);
}

/* Of all emulated calls only these two have prototypes that differ between CUDA 12 and 13. */
#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream)
{
    const bool to_device = location.type == cudaMemLocationTypeDevice;
    cudaError_t error = EMU_ENTER(cudaMemPrefetchAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess && (flags != 0 || location.type == cudaMemLocationTypeInvalid))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = prefetch(devPtr, count, to_device, location.id, stream);
    return emu_leave(error);
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    (void)location;
    cudaError_t error = EMU_ENTER(cudaMemAdvise, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = advise(devPtr, count, advice);
    return emu_leave(error);
}
#else
cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, int dstDevice, cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaMemPrefetchAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = prefetch(devPtr, count, dstDevice != cudaCpuDeviceId, dstDevice, stream);
    return emu_leave(error);
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device)
{
    (void)device;
    cudaError_t error = EMU_ENTER(cudaMemAdvise, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = advise(devPtr, count, advice);
    return emu_leave(error);
}
#endif
