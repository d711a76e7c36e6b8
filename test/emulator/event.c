/*
 * Events. An event refers to the empty operation that its last record queued. A wait depends on that operation. A later
 * record, or the end of the event, changes nothing for the wait.
 */
#include "emu.h"

static cudaError_t event_of(cudaEvent_t event)
{
    if (event == NULL)
        return cudaErrorInvalidResourceHandle;
    if (!emu_slot_is_live(&emu.events, event))
        return emu_misuse("%p is not, or no longer, an event", (void *)event);
    return emu_context(event->device);
}

static cudaError_t create(cudaEvent_t *out, unsigned flags)
{
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (out == NULL || (flags & ~known) != 0 || (flags & (known & ~1u)) == cudaEventInterprocess)
        return cudaErrorInvalidValue;
    struct CUevent_st *event = emu_slot_take(&emu.events);
    if (event == NULL)
        return cudaErrorMemoryAllocation;
    event->device = emu_self()->device;
    event->flags = flags;
    event->born = emu_self()->origin;
    emu.live[EMU_EVENT]++;
    *out = event;
    return cudaSuccess;
}

static cudaError_t destroy(cudaEvent_t event)
{
    const cudaError_t error = event_of(event);
    if (error != cudaSuccess)
        return error;
    emu_event_forget_capture(event);
    if (event->record != NULL)
        emu_op_unref(event->record);
    emu_slot_give(&emu.events, event);
    emu.live[EMU_EVENT]--;
    return cudaSuccess;
}

static cudaError_t record(cudaEvent_t event, cudaStream_t handle)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = event_of(event);
    if (error == cudaSuccess)
        error = emu_stream_to_queue(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if (stream->device != event->device)
        return cudaErrorInvalidResourceHandle;
    emu_event_forget_capture(event);
    if (stream->capture != NULL) {
        emu_capture_record(event, stream);
        return cudaSuccess;
    }
    struct emu_op *op = emu_op_new(EMU_OP_MARK, stream);
    emu_op_ref(op);
    emu_op_queue(op);
    if (event->record != NULL)
        emu_op_unref(event->record);
    event->record = op;
    event->tries = 0;
    return cudaSuccess;
}

static cudaError_t wait_for(struct CUevent_st *event)
{
    struct emu_op *op = event->record;
    const int device = event->device;
    if (op == NULL)
        return cudaSuccess;
    emu_op_ref(op);
    emu_force(op);
    if (op->state == EMU_OP_DONE) { /* a wait that fails orders nothing */
        emu_ghosts_seen(device, op->stream_id);
        emu_host_saw(emu_clock_ref(op->clock));
        emu_order_saw(op);
    }
    emu_op_unref(op);
    emu_pools_synchronized();
    return emu.devices[device].sticky;
}

static cudaError_t query(cudaEvent_t event)
{
    cudaError_t error = event_of(event);
    if (error == cudaSuccess)
        error = emu_event_permitted(event);
    if (error != cudaSuccess)
        return error;
    struct emu_op *op = event->record;
    const int device = event->device;
    if (op == NULL)
        return cudaSuccess;
    /* Another thread may record the event again while functions run. */
    emu_op_ref(op);
    const bool done = op->state == EMU_OP_DONE || (++event->tries >= emu_patience() && emu_try(op));
    if (done) {
        emu_ghosts_seen(device, op->stream_id);
        emu_host_saw(emu_clock_ref(op->clock));
        emu_order_saw(op);
    }
    emu_op_unref(op);
    if (!done)
        return cudaErrorNotReady;
    return emu.devices[device].sticky;
}

static cudaError_t synchronize(cudaEvent_t event)
{
    cudaError_t error = event_of(event);
    if (error == cudaSuccess)
        error = emu_event_permitted(event);
    if (error != cudaSuccess || emu_wait_is_dropped(EMU_cudaEventSynchronize))
        return error;
    return wait_for(event);
}

/* The order of the checks is a guess, if several fail on the real runtime. */
static cudaError_t elapsed(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t error = event_of(from);
    if (error == cudaSuccess)
        error = event_of(to);
    if (error == cudaSuccess && milliseconds == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return error;
    if (((from->flags | to->flags) & cudaEventDisableTiming) != 0 || from->record == NULL || to->record == NULL)
        return cudaErrorInvalidResourceHandle;
    if (from->record->state != EMU_OP_DONE || to->record->state != EMU_OP_DONE)
        return cudaErrorNotReady;
    *milliseconds = (float)((double)(int64_t)(to->record->time - from->record->time) / 1e6);
    return emu.devices[from->device].sticky;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    cudaError_t error = EMU_ENTER(cudaEventCreate, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = create(event, cudaEventDefault);
    return emu_leave(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    cudaError_t error = EMU_ENTER(cudaEventCreateWithFlags, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = create(event, flags);
    return emu_leave(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaEventRecord, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = record(event, stream);
    return emu_leave(error);
}

/* The real runtime permits cudaEventQuery in host functions too. Nothing may be run there. */
static cudaError_t query_in_function(cudaEvent_t event)
{
    emu_lock();
    const bool live = event != NULL && emu_slot_is_live(&emu.events, event);
    const bool pending = live && event->record != NULL && event->record->state != EMU_OP_DONE;
    if (live && event->record != NULL && !pending)
        emu_order_saw(event->record);
    emu_unlock();
    return !live ? cudaErrorInvalidResourceHandle : pending ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (emu_in_function())
        return query_in_function(event);
    cudaError_t error = EMU_ENTER(cudaEventQuery, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = query(event);
    else if (error == cudaErrorInitializationError && emu_is_forked())
        error = cudaSuccess; /* seen on the real runtime; the return value means nothing */
    return emu_leave(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = EMU_ENTER(cudaEventSynchronize, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = synchronize(event);
    return emu_leave(error);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = EMU_ENTER(cudaEventDestroy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = destroy(event);
    return emu_leave(error);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t error = EMU_ENTER(cudaEventElapsedTime, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = elapsed(ms, start, end);
    return emu_leave(error);
}
