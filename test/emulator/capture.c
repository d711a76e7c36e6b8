/*
 * Stream capture: the streams that take part, the calls that are forbidden, and the errors that end a capture.
 *
 *   a capturing stream is          synchronized, queried                       900, invalidated
 *                                  queried for its id, device, flags, priority 900, invalidated
 *   its device is                  synchronized                                900, invalidated
 *   an event recorded in it is     synchronized, queried by the host           907, invalidated
 *                                  the same or waited for, once it has ended   1
 *   a stream of it waits for       an event recorded outside                   905, invalidated
 *                                  an event of another capture                 902, both invalidated
 *   the legacy stream is used      while a blocking stream captures            906, invalidated
 *                                  to wait for an event recorded in it         906, invalidated
 *   an unsafe call is made         by a thread that may not                    900, invalidated
 *   a stream of it is used         once invalidated                            901
 *                                  synchronized, by a thread that may not      900
 *   it is ended                    on a stream that has joined                 903, invalidated
 *                                  by a thread that may not                    908, ended
 *
 * A thread in relaxed mode may make unsafe calls. Others may not beside a capture that is not relaxed. In global mode
 * their own capture and any thread's global one count, in thread-local mode only their own.
 *
 * The following are guesses, neither documented nor seen on a real runtime:
 *   - A capture is over at once when a thread that may not has ended it. Seen was that the right thread's end then
 *     returns 401, and that the stream can capture anew.
 *   - A fork without work needs no join.
 *   - Events of a capture that failed behave as those of one that succeeded. A capturing stream that waits for such an
 *     event goes on capturing. Unsafe calls are refused first.
 *   - A wait for an event of an invalidated capture returns 901.
 *   - A thread that may make unsafe calls gets 901 from the synchronization of an invalidated stream. A query returns
 *     the same as a synchronization.
 *   - The legacy stream refuses queries of its device, flags and priority as it refuses those of its id.
 *   - The driver's calls for memory, such as cuMemCreate, are not unsafe.
 *   - Calls that load code, such as cudaLibraryLoadData() and cudaFuncGetAttributes(), are unsafe.
 *   - cudaHostAlloc() and cudaMallocManaged() are as unsafe as the other allocations.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* Calls that captures do not see. Calls whose safety depends on a stream or an event check it by themselves. */
static const bool unsafe_calls[EMU_CALL_COUNT] = {
    [EMU_cudaMalloc] = true,          [EMU_cudaFree] = true,          [EMU_cudaMallocHost] = true,
    [EMU_cudaHostAlloc] = true,       [EMU_cudaFreeHost] = true,      [EMU_cudaHostRegister] = true,
    [EMU_cudaHostUnregister] = true,  [EMU_cudaMallocManaged] = true, [EMU_cudaMemPoolTrimTo] = true,
    [EMU_cudaLibraryLoadData] = true, [EMU_cudaLibraryUnload] = true, [EMU_cudaFuncGetAttributes] = true,
};

/* ---- Forbidden calls ---- */

static bool goes_on(const struct emu_capture *capture)
{
    return capture != NULL && !capture->ended;
}

static bool forbids(const struct emu_capture *capture, const struct emu_thread *thread)
{
    if (capture->ended || capture->mode == cudaStreamCaptureModeRelaxed ||
        thread->capture_mode == cudaStreamCaptureModeRelaxed)
        return false;
    return capture->thread == thread->number ||
           (capture->mode == cudaStreamCaptureModeGlobal && thread->capture_mode == cudaStreamCaptureModeGlobal);
}

cudaError_t emu_unsafe_permitted(void)
{
    cudaError_t error = cudaSuccess;
    for (struct emu_capture *capture = emu.captures; capture != NULL; capture = capture->next) {
        if (!forbids(capture, emu_self()))
            continue;
        capture->invalid = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    return error;
}

cudaError_t emu_call_permitted(enum emu_call call)
{
    return unsafe_calls[call] ? emu_unsafe_permitted() : cudaSuccess;
}

/* Returns whether the capture has a stream, or a blocking stream, on the device. */
static bool is_on(const struct emu_capture *capture, int device, bool blocking)
{
    for (const struct emu_stream *stream = capture->streams; stream != NULL; stream = stream->next_captured)
        if (stream->device == device && (stream->blocking || !blocking))
            return true;
    return false;
}

/* Returns whether there is a capture on the device. */
static bool find_on(int device, bool blocking, bool invalidate)
{
    bool found = false;
    for (struct emu_capture *capture = emu.captures; capture != NULL; capture = capture->next) {
        if (!goes_on(capture) || !is_on(capture, device, blocking))
            continue;
        found = true;
        if (invalidate)
            capture->invalid = true;
    }
    return found;
}

cudaError_t emu_device_wait_permitted(int device)
{
    return find_on(device, false, true) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t emu_event_permitted(const struct CUevent_st *event)
{
    if (goes_on(event->capture)) {
        event->capture->invalid = true;
        return cudaErrorCapturedEvent;
    }
    const cudaError_t error = emu_unsafe_permitted();
    return error == cudaSuccess && event->capture != NULL ? cudaErrorInvalidValue : error;
}

/* ---- Streams ---- */

cudaError_t emu_stream_to_queue(cudaStream_t handle, struct emu_stream **stream)
{
    const cudaError_t error = emu_stream_of(handle, stream);
    if (error != cudaSuccess)
        return error;
    if (emu_is_legacy(*stream) && find_on((*stream)->device, true, true))
        return cudaErrorStreamCaptureImplicit;
    if ((*stream)->capture != NULL && (*stream)->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    return cudaSuccess;
}

cudaError_t emu_stream_not_capturing(cudaStream_t handle, struct emu_stream **stream)
{
    const cudaError_t error = emu_stream_to_queue(handle, stream);
    if (error != cudaSuccess || (*stream)->capture == NULL)
        return error;
    (*stream)->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

/* Captures all further work of the stream, behind the given nodes. */
static void join(struct emu_capture *capture, struct emu_stream *stream, const struct emu_joint *joint)
{
    stream->capture = capture;
    stream->joint = joint;
    stream->next_captured = capture->streams;
    capture->streams = stream;
}

void emu_capture_leave(struct emu_stream *stream)
{
    if (stream->capture == NULL)
        return;
    struct emu_stream **link = &stream->capture->streams;
    while (*link != stream)
        link = &(*link)->next_captured;
    *link = stream->next_captured;
    stream->capture = NULL;
    stream->joint = NULL;
}

/* ---- Captured work ---- */

static struct emu_joint *new_joint(struct emu_capture *capture, size_t room)
{
    struct emu_joint *joint = emu_allocate(sizeof *joint + room * sizeof *joint->nodes);
    joint->next = capture->joints;
    capture->joints = joint;
    return joint;
}

static void add_to_joint(struct emu_joint *joint, unsigned node)
{
    for (size_t i = 0; i < joint->count; i++)
        if (joint->nodes[i] == node)
            return;
    joint->nodes[joint->count++] = node;
}

static const struct emu_joint *joint_of_both(struct emu_capture *capture, const struct emu_joint *one,
                                             const struct emu_joint *other)
{
    struct emu_joint *both = new_joint(capture, one->count + other->count);
    for (size_t i = 0; i < one->count; i++)
        add_to_joint(both, one->nodes[i]);
    for (size_t i = 0; i < other->count; i++)
        add_to_joint(both, other->nodes[i]);
    return both;
}

void emu_capture_op(struct emu_op *op)
{
    struct emu_stream *stream = op->stream;
    struct emu_joint *joint = new_joint(stream->capture, 1);
    add_to_joint(joint, emu_graph_add(stream->capture->graph, op, stream->joint));
    stream->joint = joint;
    emu_op_discard(op);
}

/* ---- Events ---- */

static void unref(struct emu_capture *capture)
{
    if (--capture->refs > 0)
        return;
    struct emu_capture **link = &emu.captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    for (struct emu_joint *joint = capture->joints, *next; joint != NULL; joint = next) {
        next = joint->next;
        free(joint);
    }
    free(capture);
}

void emu_event_forget_capture(struct CUevent_st *event)
{
    if (event->capture != NULL)
        unref(event->capture);
    event->capture = NULL;
    event->joint = NULL;
}

void emu_capture_record(struct CUevent_st *event, struct emu_stream *stream)
{
    if (event->record != NULL)
        emu_op_unref(event->record);
    event->record = NULL;
    event->capture = stream->capture;
    event->capture->refs++;
    event->joint = stream->joint;
}

cudaError_t emu_capture_wait(struct emu_stream *stream, const struct CUevent_st *event)
{
    struct emu_capture *from = event->capture;
    if (from == NULL && event->record == NULL)
        return cudaSuccess;
    if (from == NULL) {
        stream->capture->invalid = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (from->ended)
        return cudaErrorInvalidValue;
    if (from->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (stream->capture == NULL) {
        if (emu_is_legacy(stream)) {
            from->invalid = true;
            return cudaErrorStreamCaptureImplicit;
        }
        join(from, stream, event->joint);
        return cudaSuccess;
    }
    if (stream->capture != from) {
        stream->capture->invalid = from->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    stream->joint = joint_of_both(from, stream->joint, event->joint);
    return cudaSuccess;
}

/* ---- Begin and end ---- */

static cudaError_t begin(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    struct emu_stream *stream = NULL;
    const cudaError_t error = emu_stream_of(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
        return cudaErrorInvalidValue;
    if (emu_is_legacy(stream))
        return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != NULL)
        return cudaErrorIllegalState;
    struct emu_capture *capture = emu_allocate(sizeof *capture);
    capture->refs = 1;
    capture->id = ++emu.last_capture_id;
    capture->mode = mode;
    capture->thread = emu_self()->number;
    capture->origin = stream;
    capture->graph = emu_graph_new();
    capture->next = emu.captures;
    emu.captures = capture;
    join(capture, stream, new_joint(capture, 0));
    return cudaSuccess;
}

/* Takes the streams out of the capture. The graph is the caller's then. Events still refer to the capture in which they
 * were recorded. */
static void finish(struct emu_capture *capture)
{
    while (capture->streams != NULL)
        emu_capture_leave(capture->streams);
    capture->ended = true;
    capture->graph = NULL;
    unref(capture);
}

static cudaError_t end(cudaStream_t handle, cudaGraph_t *out)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = emu_stream_of(handle, &stream);
    if (error != cudaSuccess || out == NULL)
        return error != cudaSuccess ? error : cudaErrorInvalidValue;
    struct emu_capture *capture = stream->capture;
    *out = NULL;
    if (capture == NULL)
        return cudaErrorIllegalState;
    if (capture->origin != stream) {
        capture->invalid = true;
        return cudaErrorStreamCaptureUnmatched;
    }
    struct emu_graph *graph = capture->graph;
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != emu_self()->number)
        error = cudaErrorStreamCaptureWrongThread;
    else if (capture->invalid)
        error = cudaErrorStreamCaptureInvalidated;
    else if (!emu_graph_is_joined(graph, stream->joint))
        error = cudaErrorStreamCaptureUnjoined;
    else if ((*out = emu_graph_handle(graph)) == NULL)
        error = cudaErrorMemoryAllocation;
    finish(capture);
    if (error != cudaSuccess)
        emu_graph_unref(graph);
    return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t error = EMU_ENTER(cudaStreamBeginCapture, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = begin(stream, mode);
    return emu_leave(error);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    cudaError_t error = EMU_ENTER(cudaStreamEndCapture, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = end(stream, pGraph);
    return emu_leave(error);
}

void emu_captures_reset(void)
{
    while (emu.captures != NULL) {
        emu.captures->refs = 1;
        unref(emu.captures);
    }
}

/* ---- Queries ---- */

/* The legacy stream refuses this query, and only this one, without invalidating the captures. */
static cudaError_t status_of(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id)
{
    struct emu_stream *stream = NULL;
    const cudaError_t error = emu_stream_of(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if (status == NULL)
        return cudaErrorInvalidValue;
    if (emu_is_legacy(stream) && find_on(stream->device, true, false))
        return cudaErrorStreamCaptureImplicit;
    if (stream->capture == NULL)
        *status = cudaStreamCaptureStatusNone;
    else
        *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    if (id != NULL && stream->capture != NULL)
        *id = stream->capture->id;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
    cudaError_t error = EMU_ENTER(cudaStreamIsCapturing, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = status_of(stream, pCaptureStatus, NULL);
    return emu_leave(error);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
                                     size_t *numDependencies_out)
{
    cudaError_t error = EMU_ENTER(cudaStreamGetCaptureInfo, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess && (graph_out || dependencies_out || edgeData_out || numDependencies_out))
        error = cudaErrorNotSupported;
    if (error == cudaSuccess)
        error = status_of(stream, captureStatus_out, id_out);
    return emu_leave(error);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    cudaError_t error = EMU_ENTER(cudaThreadExchangeStreamCaptureMode, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess && (mode == NULL || (unsigned)*mode > cudaStreamCaptureModeRelaxed))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        struct emu_thread *thread = emu_self();
        const enum cudaStreamCaptureMode before = thread->capture_mode;
        thread->capture_mode = *mode;
        *mode = before;
    }
    return emu_leave(error);
}
