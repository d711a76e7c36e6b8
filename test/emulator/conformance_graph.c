/*
 * Captures and graphs: the captured work, the streams that take part, the end of a capture, and a launch of its graph.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends a capture with the expected result, and destroys its graph. */
static void expect_ended_with(const char *fact, cudaError_t want, cudaStream_t stream)
{
    cudaGraph_t graph = NULL;

    expect_code(fact, want, cudaStreamEndCapture(stream, &graph));
    if (graph != NULL)
        MUST(cudaGraphDestroy(graph));
}

static void begin(cudaStream_t stream)
{
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

/* Ends a capture of so many nodes, and instantiates its graph. */
static cudaGraphExec_t end(cudaStream_t stream, size_t nodes)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    size_t count = 0;

    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphGetNodes(graph, NULL, &count));
    expect_value("the graph has a node for each operation, and none for events", (long long)nodes, (long long)count);
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphDestroy(graph));
    return exec;
}

/* ---- Effect of a launch ---- */

static void add_one(void *argument)
{
    ++*(int *)argument;
}

static void launches(void)
{
    enum { TIMES = 100 };
    struct kit kit;
    int count = 0;

    make_kit(&kit);
    begin(kit.stream);
    MUST(cudaMemcpyAsync(kit.device_a, kit.pinned_a, SIZE, cudaMemcpyHostToDevice, kit.stream));
    MUST(cudaMemcpyAsync(kit.device_b, kit.device_a, SIZE, cudaMemcpyDeviceToDevice, kit.stream));
    MUST(cudaMemsetAsync(kit.device_a, 5, SIZE, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaLaunchHostFunc(kit.stream, add_one, &count));
    const cudaGraphExec_t exec = end(kit.stream, 5);
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("what is captured does not run", 0xb2, kit.pinned_b, SIZE);
    for (int i = 0; i < TIMES; i++) {
        memset(kit.pinned_a, i, SIZE);
        MUST(cudaGraphLaunch(exec, i % 2 ? kit.stream : kit.other));
        MUST(cudaStreamSynchronize(i % 2 ? kit.stream : kit.other));
        if (!same_bytes(i, kit.pinned_b, SIZE))
            expect_bytes("each launch does it all again", i, kit.pinned_b, SIZE);
    }
    expect_bytes("the last launch did it all", TIMES - 1, kit.pinned_b, SIZE);
    expect_value("the host function ran at each launch", TIMES, count);
    MUST(cudaMemcpy(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("the memset came behind the copy", 5, kit.pinned_a, SIZE);
    MUST(cudaGraphLaunch(exec, kit.stream));
    expect_code("GraphExecDestroy", cudaSuccess, cudaGraphExecDestroy(exec));
    MUST(cudaDeviceSynchronize());
}

/* Two launches of one executable graph never run concurrently. */
static void launches_in_order(void)
{
    struct kit kit;

    make_kit(&kit);
    begin(kit.stream);
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    const cudaGraphExec_t exec = end(kit.stream, 1);
    hold_stream(kit.stream);
    MUST(cudaMemsetAsync(kit.device_a, 7, SIZE, kit.stream));
    MUST(cudaGraphLaunch(exec, kit.stream));
    MUST(cudaGraphLaunch(exec, kit.other));
    MUST(cudaEventRecord(kit.event, kit.other));
    expect_held("a launch comes after the one before, on another stream", kit.event);
    let_go();
    MUST(cudaEventSynchronize(kit.event));
    expect_bytes("and its stream's work before it", 7, kit.pinned_b, SIZE);
    MUST(cudaDeviceSynchronize());
}

/* The other stream takes part from its wait on. The capturing stream must wait for it before the end. */
static void fork_and_join(void)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    struct kit kit;

    make_kit(&kit);
    begin(kit.stream);
    MUST(cudaMemsetAsync(kit.device_a, 1, SIZE, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaStreamIsCapturing(kit.other, &status));
    expect_value("a stream that waits for a captured event captures", cudaStreamCaptureStatusActive, status);
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.other));
    MUST(cudaMemsetAsync(kit.device_b, 2, SIZE, kit.stream));
    MUST(cudaEventRecord(kit.later, kit.other));
    MUST(cudaStreamWaitEvent(kit.stream, kit.later, 0));
    MUST(cudaMemsetAsync(kit.device_a, 3, SIZE, kit.stream));
    const cudaGraphExec_t exec = end(kit.stream, 4);
    MUST(cudaStreamIsCapturing(kit.other, &status));
    expect_value("when the capture ends, it ends for both", cudaStreamCaptureStatusNone, status);
    MUST(cudaGraphLaunch(exec, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("the fork comes after what was before it", 1, kit.pinned_a, SIZE);
    expect_bytes("the other branch runs too", 2, kit.pinned_b, SIZE);
    MUST(cudaMemcpy(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("the join comes before what is behind it", 3, kit.pinned_a, SIZE);
}

/* ---- How captures end ---- */

static void status(void)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long first = 0, second = 0, ended = 77;
    struct kit kit;
    void *data;

    make_kit(&kit);
    begin(kit.stream);
    MUST(cudaStreamGetCaptureInfo(kit.stream, &status, &first, NULL, NULL, NULL, NULL));
    expect_value("GetCaptureInfo while it captures", cudaStreamCaptureStatusActive, status);
    expect_code("Malloc while this thread captures", cudaErrorStreamCaptureUnsupported, cudaMalloc(&data, SIZE));
    MUST(cudaStreamIsCapturing(kit.stream, &status));
    expect_value("IsCapturing after that", cudaStreamCaptureStatusInvalidated, status);
    expect_code("work on an invalidated stream", cudaErrorStreamCaptureInvalidated,
                cudaMemsetAsync(kit.device_a, 1, SIZE, kit.stream));
    expect_ended_with("the end of an invalidated capture", cudaErrorStreamCaptureInvalidated, kit.stream);
    MUST(cudaStreamGetCaptureInfo(kit.stream, &status, &ended, NULL, NULL, NULL, NULL));
    expect_value("GetCaptureInfo after the end", cudaStreamCaptureStatusNone, status);
    begin(kit.stream);
    MUST(cudaStreamGetCaptureInfo(kit.stream, &status, &second, NULL, NULL, NULL, NULL));
    expect_true("ids of captures differ", first != second);
    expect_ended_with("an empty capture", cudaSuccess, kit.stream);
    expect_code("the stream works as before", cudaSuccess, cudaStreamSynchronize(kit.stream));
}

static void bad_ends(void)
{
    cudaStream_t third;
    struct kit kit;

    make_kit(&kit);
    MUST(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));

    begin(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaMemsetAsync(kit.device_a, 1, SIZE, kit.other));
    expect_ended_with("EndCapture with unjoined work", cudaErrorStreamCaptureUnjoined, kit.stream);
    expect_code("both streams are free after that", cudaSuccess, cudaStreamSynchronize(kit.other));

    begin(kit.stream);
    begin(third);
    MUST(cudaEventRecord(kit.event, kit.stream));
    expect_code("a wait that would merge two captures", cudaErrorStreamCaptureMerge,
                cudaStreamWaitEvent(third, kit.event, 0));
    expect_ended_with("the one capture after that", cudaErrorStreamCaptureInvalidated, third);
    expect_ended_with("the other capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);

    MUST(cudaEventRecord(kit.event, kit.other));
    begin(kit.stream);
    expect_code("a capturing stream's wait for outside work", cudaErrorStreamCaptureIsolation,
                cudaStreamWaitEvent(kit.stream, kit.event, 0));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);

    begin(kit.stream);
    expect_code("StreamSynchronize of a capturing stream", cudaErrorStreamCaptureUnsupported,
                cudaStreamSynchronize(kit.stream));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
    begin(kit.stream);
    expect_code("StreamQuery of a capturing stream", cudaErrorStreamCaptureUnsupported, cudaStreamQuery(kit.stream));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
}

static void *end_capture(void *argument)
{
    expect_ended_with("EndCapture by another thread", cudaErrorStreamCaptureWrongThread, argument);
    return NULL;
}

static void *end_relaxed_capture(void *argument)
{
    expect_ended_with("EndCapture of a relaxed capture by another thread", cudaSuccess, argument);
    return NULL;
}

/* Does not check the stream between the two threads' ends: no documentation says when its capture is over. */
static void wrong_ends(void)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    struct kit kit;

    make_kit(&kit);
    expect_code("BeginCapture(legacy)", cudaErrorStreamCaptureUnsupported,
                cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    expect_ended_with("EndCapture of a stream that does not capture", cudaErrorIllegalState, kit.stream);
    begin(kit.stream);
    expect_code("BeginCapture of a stream that captures", cudaErrorIllegalState,
                cudaStreamBeginCapture(kit.stream, cudaStreamCaptureModeGlobal));
    MUST(cudaStreamIsCapturing(kit.stream, &status));
    expect_value("the capture after that", cudaStreamCaptureStatusActive, status);
    in_thread(end_capture, kit.stream);
    expect_ended_with("a capture that another thread failed to end", cudaErrorIllegalState, kit.stream);

    MUST(cudaStreamBeginCapture(kit.stream, cudaStreamCaptureModeRelaxed));
    in_thread(end_relaxed_capture, kit.stream);

    begin(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    expect_ended_with("EndCapture on a stream that has joined", cudaErrorStreamCaptureUnmatched, kit.other);
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
}

/* The legacy stream would have to wait for work that is only being captured. */
static void legacy(void)
{
    cudaStream_t blocking;
    struct kit kit;

    make_kit(&kit);
    MUST(cudaStreamCreate(&blocking));
    begin(blocking);
    expect_code("MemsetAsync(legacy) beside a blocking stream's capture", cudaErrorStreamCaptureImplicit,
                cudaMemsetAsync(kit.device_a, 1, SIZE, NULL));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, blocking);
    begin(blocking);
    expect_code("StreamSynchronize(legacy) beside a blocking stream's capture", cudaErrorStreamCaptureImplicit,
                cudaStreamSynchronize(NULL));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, blocking);
    expect_code("the legacy stream after that", cudaSuccess, cudaStreamSynchronize(NULL));
}

/* ---- Undocumented results that a real runtime was seen to return ---- */

static void events(void)
{
    struct kit kit;

    make_kit(&kit);
    begin(kit.stream);
    expect_code("a capturing stream's wait for an event never recorded", cudaSuccess,
                cudaStreamWaitEvent(kit.stream, kit.later, 0));
    MUST(cudaEventRecord(kit.event, kit.stream));
    expect_ended_with("the capture after that", cudaSuccess, kit.stream);
    expect_code("EventQuery after the capture that it was recorded in", cudaErrorInvalidValue,
                cudaEventQuery(kit.event));
    expect_code("EventSynchronize after the capture that it was recorded in", cudaErrorInvalidValue,
                cudaEventSynchronize(kit.event));
    expect_code("a wait for an event after the capture that it was recorded in", cudaErrorInvalidValue,
                cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaEventRecord(kit.event, kit.other));
    expect_code("recorded again outside, it is as others", cudaSuccess, cudaEventSynchronize(kit.event));
    begin(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    expect_code("the legacy stream's wait for a captured event", cudaErrorStreamCaptureImplicit,
                cudaStreamWaitEvent(NULL, kit.event, 0));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
}

/* All queries of invalidated streams come from the capturing thread, which must not wait for any stream. */
static void questions(void)
{
    unsigned long long id;
    unsigned flags;
    int priority;
    struct kit kit;
    cudaStream_t blocking;

    make_kit(&kit);
    MUST(cudaStreamCreate(&blocking));
    begin(kit.stream);
    expect_code("StreamGetFlags of a capturing stream", cudaErrorStreamCaptureUnsupported,
                cudaStreamGetFlags(kit.stream, &flags));
    expect_code("StreamGetPriority after that", cudaErrorStreamCaptureInvalidated,
                cudaStreamGetPriority(kit.stream, &priority));
    expect_code("Free NULL while this thread captures", cudaErrorStreamCaptureUnsupported, cudaFree(NULL));
    expect_code("Free NULL again", cudaErrorStreamCaptureUnsupported, cudaFree(NULL));
    expect_code("StreamSynchronize of an invalidated stream", cudaErrorStreamCaptureUnsupported,
                cudaStreamSynchronize(kit.stream));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
    begin(kit.stream);
    expect_code("StreamQuery(other) while this thread captures", cudaErrorStreamCaptureUnsupported,
                cudaStreamQuery(kit.other));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
    begin(blocking);
    expect_code("StreamGetId(legacy) beside a blocking stream's capture", cudaErrorStreamCaptureImplicit,
                cudaStreamGetId(NULL, &id));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, blocking);
}

static void work(void)
{
    unsigned char *const pageable = malloc(SIZE);
    struct kit kit;
    void *data;

    if (!pageable)
        abort();
    make_kit(&kit);
    MUST(cudaMallocFromPoolAsync(&data, SIZE, kit.pool, kit.other));
    begin(kit.stream);
    expect_code("FreeAsync(cap) of memory from before", cudaErrorInvalidValue, cudaFreeAsync(data, kit.stream));
    expect_code("a copy from pageable memory is captured", cudaSuccess,
                cudaMemcpyAsync(kit.device_a, pageable, SIZE, cudaMemcpyHostToDevice, kit.stream));
    expect_code("a copy to pageable memory is captured", cudaSuccess,
                cudaMemcpyAsync(pageable, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    memset(pageable, 9, SIZE);
    const cudaGraphExec_t exec = end(kit.stream, 2);
    MUST(cudaGraphLaunch(exec, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("the copy to pageable memory", 0xb2, pageable, SIZE);
    MUST(cudaMemcpy(pageable, kit.device_a, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("pageable memory is read at the launch", 9, pageable, SIZE);
    begin(kit.stream);
    expect_code("FreeAsync(other) while this thread captures", cudaErrorStreamCaptureUnsupported,
                cudaFreeAsync(data, kit.other));
    expect_ended_with("the capture after that", cudaErrorStreamCaptureInvalidated, kit.stream);
    free(pageable);
}

const struct section graph_sections[] = {
    {"graph launches", launches, 1, 0},
    {"order of graph launches", launches_in_order, 1, 0},
    {"fork and join", fork_and_join, 1, 0},
    {"capture status", status, 1, 0},
    {"captures that end badly", bad_ends, 1, 0},
    {"captures begun and ended in the wrong place", wrong_ends, 1, 0},
    {"the legacy stream beside a capture", legacy, 1, 0},
    {"events beside captures and after them", events, 1, 0},
    {"questions while a stream captures", questions, 1, 0},
    {"work while a stream captures", work, 1, 0},
    {NULL, NULL, 0, 0},
};
