/*
 * Captures, graphs and per-thread streams in hard cases: resets in their midst, threads that end, failures, counts.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM

#include "selftest.h"

#include <pthread.h>

static cudaGraphExec_t exec_of(cudaStream_t stream)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

/* A reset frees all that a capture holds, and has no later effect. */
static void reset_amid_captures(void)
{
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking), side = stream_of(cudaStreamDefault);
    const cudaEvent_t event = new_event();
    unsigned char *memory = device_memory();
    OK(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(memory, 1, SIZE, NULL));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(memory, 2, SIZE, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(side, event, 0));
    CHECK(emu_pending() == 0);
    emu_reset(seed);
    memory = device_memory();
    OK(cudaMemset(memory, 3, SIZE));
    OK(cudaStreamSynchronize(NULL));
    CHECK(peek(memory) == 3);
}

static void reset_amid_launches(void)
{
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    struct increment work = {device_memory(), SIZE, 1};
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    launch_increment(stream, &work);
    const cudaGraphExec_t exec = exec_of(stream);
    for (int i = 0; i < 5; i++)
        OK(cudaGraphLaunch(exec, i % 2 ? stream : NULL));
    OK(cudaMemsetAsync(work.data, 1, SIZE, cudaStreamPerThread));
    emu_reset(seed);
    CHECK(emu_live(EMU_GRAPH_EXEC) == 0 && emu_pending() == 0);
}

static void *capture_and_end(void *memory)
{
    OK(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(memory, 1, SIZE, NULL));
    return NULL;
}

static void *use_and_end(void *memory)
{
    OK(cudaMemsetAsync(memory, 4, SIZE, NULL));
    return NULL;
}

static void in_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A capture that no thread can end any more still forbids the same calls. */
static void thread_ends_in_capture(void)
{
    unsigned char *memory = device_memory();
    void *other;
    in_thread(capture_and_end, memory);
    GIVES(cudaMalloc(&other, SIZE), cudaErrorStreamCaptureUnsupported);
    OK(cudaMemsetAsync(memory, 2, SIZE, NULL));
    emu_reset(seed);
    OK(cudaMalloc(&other, SIZE));
}

static void many_threads_end(void)
{
    unsigned char *memory[8];
    for (int i = 0; i < 8; i++) {
        memory[i] = device_memory();
        in_thread(use_and_end, memory[i]);
    }
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 8; i++)
        CHECK(peek(memory[i]) == 4);
    CHECK(emu_pending() == 0);
}

/* A launch of more nodes than a stream holds runs the oldest operations. */
static void large_graph(void)
{
    enum { NODES = 3000 };
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    struct increment work = {device_memory(), 1, 1};
    cudaGraphNode_t nodes[4];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t count = 4;
    OK(cudaMemsetAsync(work.data, 0, SIZE, stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < NODES; i++)
        launch_increment(stream, &work);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, nodes, &count));
    CHECK(count == 4 && nodes[0] != NULL && nodes[0] != nodes[3]);
    OK(cudaGraphGetNodes(graph, NULL, &count));
    CHECK(count == NODES);
    OK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(peek(work.data) == NODES % 256);
}

static void failures_and_counts(void)
{
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    enum cudaStreamCaptureStatus status;
    unsigned char *memory = device_memory();
    void *data;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(memory, 1, SIZE, stream));
    emu_fail("cudaMalloc", 1, cudaErrorMemoryAllocation, false);
    GIVES(cudaMalloc(&data, SIZE), cudaErrorMemoryAllocation);
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    const cudaGraphExec_t exec = exec_of(stream);
    emu_fail("cudaGraphLaunch", 1, cudaErrorLaunchOutOfResources, false);
    GIVES(cudaGraphLaunch(exec, NULL), cudaErrorLaunchOutOfResources);
    CHECK(emu_pending() == 0);
    OK(cudaGraphLaunch(exec, NULL));
    CHECK(emu_calls("cudaGraphLaunch") == 2);
    OK(cudaStreamSynchronize(NULL));
    CHECK(emu_calls("cudaStreamSynchronize") == 1 && peek(memory) == 1);
    OK(cudaMemset(memory, 2, SIZE));
    CHECK(emu_calls("cudaMemset") == 1);
}

/* The nodes of a graph that is launched into another capture become nodes of the new graph. */
static void graph_in_graph(void)
{
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    struct increment work = {device_memory(), SIZE, 1};
    OK(cudaMemsetAsync(work.data, 0, SIZE, stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch_increment(stream, &work);
    const cudaGraphExec_t inner = exec_of(stream);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaGraphLaunch(inner, stream));
    launch_increment(stream, &work);
    OK(cudaGraphLaunch(inner, stream));
    const cudaGraphExec_t outer = exec_of(stream);
    OK(cudaGraphExecDestroy(inner));
    OK(cudaGraphLaunch(outer, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(peek(work.data) == 3);
}

void (*const capture_tests[])(void) = {
    reset_amid_captures,
    reset_amid_launches,
    thread_ends_in_capture,
    many_threads_end,
    failures_and_counts,
    graph_in_graph,
    NULL,
};

void (*const capture_tests_once[])(void) = {large_graph, NULL};
