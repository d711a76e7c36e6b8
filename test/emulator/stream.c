/*
 * Streams. The slot behind a handle is freed when the handle is destroyed. The stream stays until its work has run.
 */
#include "emu.h"

#include <stdlib.h>

#define LOWEST_PRIORITY 0
#define HIGHEST_PRIORITY (-5)

cudaError_t emu_stream_of(cudaStream_t handle, struct emu_stream **stream)
{
    if (handle == NULL || handle == cudaStreamLegacy)
        *stream = &emu.devices[emu_self()->device].legacy;
    else if (handle == cudaStreamPerThread)
        *stream = emu_per_thread_stream();
    else if (emu_slot_is_live(&emu.streams, handle))
        *stream = handle->stream;
    else
        return emu_misuse("%p is not, or no longer, a stream", (void *)handle);
    return emu_context((*stream)->device);
}

bool emu_is_legacy(const struct emu_stream *stream)
{
    return stream == &emu.devices[stream->device].legacy;
}

void emu_stream_free(struct emu_stream *stream)
{
    emu_order_stream_gone(stream);
    free(stream);
}

/* Called when the stream has no queued work any more. */
void emu_stream_forget(struct emu_stream *stream)
{
    if (stream->handle == NULL && !stream->kept && !emu_is_legacy(stream))
        emu_stream_free(stream);
}

cudaError_t emu_queue_and_wait(struct emu_op *op)
{
    const int device = op->device;
    emu_op_ref(op);
    emu_op_queue(op);
    emu_force(op);
    emu_ghosts_seen(device, op->stream_id);
    emu_host_saw(emu_clock_ref(op->clock));
    emu_order_saw(op);
    emu_op_unref(op);
    emu_pools_synchronized();
    return emu.devices[device].sticky;
}

cudaError_t emu_stream_wait(struct emu_stream *stream)
{
    return emu_queue_and_wait(emu_op_new(EMU_OP_MARK, stream));
}

/* Returns a stream with queued work that must be done before this one is idle. That is the stream itself or, for the
 * legacy stream, any stream for which it would wait. */
static struct emu_stream *busy(struct emu_stream *stream)
{
    if (stream->head != NULL)
        return stream;
    for (size_t i = 0; emu_is_legacy(stream) && i < emu.active_count; i++)
        if (emu.active[i]->blocking && emu.active[i]->device == stream->device)
            return emu.active[i];
    return NULL;
}

bool emu_stream_try(struct emu_stream *stream)
{
    for (struct emu_stream *other; (other = busy(stream)) != NULL;)
        if (!emu_try(other->tail))
            return false;
    emu_ghosts_seen(stream->device, stream->id);
    emu_race_idle(stream);
    emu_order_saw_stream(stream);
    emu_pools_synchronized();
    return true;
}

/* ---- Life ---- */

static cudaError_t create(cudaStream_t *out, unsigned flags, int priority)
{
    if (out == NULL || (flags & ~(unsigned)cudaStreamNonBlocking) != 0)
        return cudaErrorInvalidValue;
    struct CUstream_st *handle = emu_slot_take(&emu.streams);
    if (handle == NULL)
        return cudaErrorMemoryAllocation;
    struct emu_stream *stream = emu_allocate(sizeof *stream);
    stream->handle = handle;
    stream->id = ++emu.last_stream_id;
    stream->device = emu_self()->device;
    stream->blocking = (flags & cudaStreamNonBlocking) == 0;
    stream->priority = priority < HIGHEST_PRIORITY ? HIGHEST_PRIORITY : priority > LOWEST_PRIORITY ? 0 : priority;
    stream->born = emu_self()->origin;
    handle->stream = stream;
    emu.live[EMU_STREAM]++;
    *out = handle;
    return cudaSuccess;
}

static cudaError_t destroy(cudaStream_t handle)
{
    struct emu_stream *stream = NULL;
    if (handle == NULL || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
        return cudaErrorInvalidResourceHandle;
    const cudaError_t error = emu_stream_of(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if (stream->capture != NULL && stream->capture->origin == stream)
        return emu_misuse("a stream is destroyed in which a capture was begun and has not ended");
    emu_capture_leave(stream);
    emu_slot_give(&emu.streams, handle);
    emu.live[EMU_STREAM]--;
    stream->handle = NULL;
    emu_race_stream_gone(stream);
    if (stream->head == NULL)
        emu_stream_free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    cudaError_t error = EMU_ENTER(cudaStreamCreate, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = create(pStream, cudaStreamDefault, LOWEST_PRIORITY);
    return emu_leave(error);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaStreamCreateWithFlags, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = create(pStream, flags, LOWEST_PRIORITY);
    return emu_leave(error);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    cudaError_t error = EMU_ENTER(cudaStreamCreateWithPriority, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = create(pStream, flags, priority);
    return emu_leave(error);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaStreamDestroy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = destroy(stream);
    return emu_leave(error);
}

/* ---- Waiting ---- */

/* Finds a stream that the host synchronizes or queries. A thread that may not do so gets that error first, even if the
 * stream's capture is invalidated already. */
static cudaError_t stream_to_wait_for(cudaStream_t handle, struct emu_stream **stream)
{
    const cudaError_t error = emu_stream_not_capturing(handle, stream);
    if (error != cudaSuccess && error != cudaErrorStreamCaptureInvalidated)
        return error;
    const cudaError_t refusal = emu_unsafe_permitted();
    return refusal != cudaSuccess ? refusal : error;
}

static cudaError_t query(cudaStream_t handle)
{
    struct emu_stream *stream = NULL;
    const cudaError_t error = stream_to_wait_for(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if (busy(stream) != NULL && ++stream->tries < emu_patience())
        return cudaErrorNotReady;
    return emu_stream_try(stream) ? emu.devices[stream->device].sticky : cudaErrorNotReady;
}

static cudaError_t synchronize(cudaStream_t handle)
{
    struct emu_stream *stream = NULL;
    const cudaError_t error = stream_to_wait_for(handle, &stream);
    if (error != cudaSuccess || emu_wait_is_dropped(EMU_cudaStreamSynchronize))
        return error;
    return emu_stream_wait(stream);
}

static cudaError_t wait_event(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    struct emu_stream *stream = NULL;
    const cudaError_t error = emu_stream_to_queue(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if (event == NULL)
        return cudaErrorInvalidResourceHandle;
    if (!emu_slot_is_live(&emu.events, event))
        return emu_misuse("%p is not, or no longer, an event", (void *)event);
    if (flags == cudaEventWaitExternal)
        return stream->capture != NULL ? cudaErrorNotSupported : cudaErrorIllegalState;
    if (flags != cudaEventWaitDefault)
        return cudaErrorInvalidValue;
    if (emu_wait_is_dropped(EMU_cudaStreamWaitEvent))
        return cudaSuccess;
    if (stream->capture != NULL || event->capture != NULL)
        return emu_capture_wait(stream, event);
    struct emu_op *op = emu_op_new(EMU_OP_MARK, stream);
    emu_op_after(op, event->record);
    /* Set even if the record is done, as the order comes from the wait. */
    op->waits_for = event->record == NULL ? NULL : emu_clock_ref(event->record->clock);
    emu_op_queue(op);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaStreamQuery, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = query(stream);
    return emu_leave(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaStreamSynchronize, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = synchronize(stream);
    return emu_leave(error);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaStreamWaitEvent, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = wait_event(stream, event, flags);
    return emu_leave(error);
}

/* ---- A stream's properties ---- */

/* Finds the stream for a query of its properties, which a stream refuses while it captures. */
static cudaError_t look(cudaStream_t handle, const void *out, struct emu_stream **stream)
{
    const cudaError_t error = emu_stream_not_capturing(handle, stream);
    return error == cudaSuccess && out == NULL ? cudaErrorInvalidValue : error;
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = EMU_ENTER(cudaStreamGetFlags, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = look(hStream, flags, &stream);
    if (error == cudaSuccess)
        *flags = stream->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return emu_leave(error);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = EMU_ENTER(cudaStreamGetPriority, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = look(hStream, priority, &stream);
    if (error == cudaSuccess)
        *priority = stream->priority;
    return emu_leave(error);
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = EMU_ENTER(cudaStreamGetId, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = look(hStream, streamId, &stream);
    if (error == cudaSuccess)
        *streamId = stream->id;
    return emu_leave(error);
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = EMU_ENTER(cudaStreamGetDevice, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = look(hStream, device, &stream);
    if (error == cudaSuccess)
        *device = stream->device;
    return emu_leave(error);
}
