/*
 * Wrong programs that capture, launch graphs, or confuse per-thread streams.
 */
#include "trust_capture.h"
#include "trust_wrong.h"

/* Returns a graph that writes to the memory. */
static cudaGraph_t graph_on(byte *memory, int value, cudaStream_t stream)
{
    cudaGraph_t graph;

    begin(stream);
    MUST(cudaMemsetAsync(memory, value, SIZE, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static cudaGraphExec_t exec_on(byte *memory, int value, cudaStream_t stream)
{
    return instantiate(graph_on(memory, value, stream));
}

/* ---- Undefined ---- */

static void destroyed_exec_launched(void)
{
    const cudaStream_t stream = new_stream();
    const cudaGraphExec_t exec = exec_on(new_device_memory(), 1, stream);

    MUST(cudaGraphExecDestroy(exec));
    cudaGraphLaunch(exec, stream);
}

static void destroyed_exec_destroyed(void)
{
    const cudaGraphExec_t exec = exec_on(new_device_memory(), 1, new_stream());

    MUST(cudaGraphExecDestroy(exec));
    cudaGraphExecDestroy(exec);
}

static void destroyed_graph_instantiated(void)
{
    const cudaGraph_t graph = graph_on(new_device_memory(), 1, new_stream());
    cudaGraphExec_t exec;

    MUST(cudaGraphDestroy(graph));
    cudaGraphInstantiate(&exec, graph, 0);
}

static void destroyed_graph_destroyed(void)
{
    const cudaGraph_t graph = graph_on(new_device_memory(), 1, new_stream());

    MUST(cudaGraphDestroy(graph));
    cudaGraphDestroy(graph);
}

static void graph_of_freed_memory(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();
    const cudaGraphExec_t exec = exec_on(device, 1, stream);

    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaFree(device));
    cudaGraphLaunch(exec, stream);
}

static void graph_of_freed_host_memory(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned();
    const cudaGraphExec_t exec = exec_on(host, 1, stream);

    MUST(cudaFreeHost(host));
    cudaGraphLaunch(exec, stream);
}

static void graph_behind_free_async(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream);
    const cudaGraphExec_t exec = exec_on(device, 1, stream);

    MUST(cudaFreeAsync(device, stream));
    cudaGraphLaunch(exec, stream);
}

static void freed_beside_a_graph(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream);
    const cudaGraphExec_t exec = exec_on(device, 1, stream);

    MUST(cudaStreamSynchronize(stream));
    MUST(cudaGraphLaunch(exec, stream));
    cudaFreeAsync(device, new_stream());
}

static void captured_event_destroyed(void)
{
    const cudaStream_t stream = new_stream(), side = new_stream();
    const cudaEvent_t event = new_event();

    begin(stream);
    MUST(cudaEventRecord(event, stream));
    MUST(cudaEventDestroy(event));
    cudaStreamWaitEvent(side, event, 0);
}

static void destroyed_while_capturing(void)
{
    const cudaStream_t stream = new_stream();

    begin(stream);
    cudaStreamDestroy(stream);
}

static void freed_memory_captured(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();

    MUST(cudaFree(device));
    begin(stream);
    cudaMemsetAsync(device, 1, SIZE, stream);
}

static void graph_left(void)
{
    graph_on(new_pinned(), 1, new_stream());
}

static void exec_left(void)
{
    exec_on(new_pinned(), 1, new_stream());
}

const struct wrong wrong_capture_programs[] = {
    {{"destroyed executable graph launched", destroyed_exec_launched}, ABORTS, SEEDS, {"cudaGraphLaunch in", "graph"}},
    {{"destroyed executable graph destroyed", destroyed_exec_destroyed},
     ABORTS,
     SEEDS,
     {"cudaGraphExecDestroy in", "graph"}},
    {{"destroyed graph instantiated", destroyed_graph_instantiated},
     ABORTS,
     SEEDS,
     {"cudaGraphInstantiate in", "graph"}},
    {{"destroyed graph destroyed", destroyed_graph_destroyed}, ABORTS, SEEDS, {"cudaGraphDestroy in", "graph"}},
    {{"graph of freed memory", graph_of_freed_memory}, ABORTS, SEEDS, {"cudaGraphLaunch in", "cudaMemsetAsync in"}},
    {{"graph of freed host memory", graph_of_freed_host_memory},
     ABORTS,
     SEEDS,
     {"cudaGraphLaunch in", "cudaMemsetAsync in"}},
    {{"graph behind FreeAsync", graph_behind_free_async}, ABORTS, SEEDS, {"cudaGraphLaunch in", "cudaMemsetAsync in"}},
    {{"freed beside a graph", freed_beside_a_graph}, ABORTS, 1, {"cudaFreeAsync in", "cudaGraphLaunch in"}},
    {{"captured event destroyed", captured_event_destroyed}, ABORTS, SEEDS, {"cudaStreamWaitEvent in", "event"}},
    {{"destroyed while capturing", destroyed_while_capturing}, ABORTS, SEEDS, {"cudaStreamDestroy in", "capture"}},
    {{"freed memory captured", freed_memory_captured}, ABORTS, SEEDS, {"cudaMemsetAsync in", "no longer"}},
    {{"graph left", graph_left}, LEAKS, SEEDS, {"leak: 1 of graphs", "cudaStreamEndCapture in"}},
    {{"executable graph left", exec_left}, LEAKS, SEEDS, {"leak: 1 of executable graphs", "cudaGraphInstantiate in"}},
    {{NULL, NULL}, ABORTS, 0, {NULL, NULL}},
};

/* ---- Codes ---- */

static void ends_invalidated(cudaStream_t stream)
{
    cudaGraph_t graph;

    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == NULL);
}

static void allocation_while_capturing(void)
{
    const cudaStream_t stream = new_stream();
    void *data;

    begin(stream);
    CHECK(cudaMalloc(&data, SIZE) == cudaErrorStreamCaptureUnsupported);
    ends_invalidated(stream);
}

static void *free_unaware(void *argument)
{
    CHECK(cudaFree(argument) == cudaErrorStreamCaptureUnsupported);
    return NULL;
}

static void free_beside_capture(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();

    begin(stream);
    in_thread(free_unaware, device);
    ends_invalidated(stream);
}

static void synchronized_while_capturing(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();

    begin(stream);
    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaMemsetAsync(device, 2, SIZE, stream) == cudaErrorStreamCaptureInvalidated);
    ends_invalidated(stream);
}

static void captured_event_synchronized(void)
{
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();

    begin(stream);
    MUST(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
    ends_invalidated(stream);
}

static void never_joined(void)
{
    const cudaStream_t stream = new_stream(), side = new_stream();
    byte *const device = new_device_memory();
    cudaGraph_t graph;

    begin(stream);
    after(side, new_event(), stream);
    MUST(cudaMemsetAsync(device, 1, SIZE, side));
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
}

static void waits_for_outside_work(void)
{
    const cudaStream_t stream = new_stream(), producer = new_stream();
    const cudaEvent_t ready = new_event();

    MUST(cudaEventRecord(ready, producer));
    begin(stream);
    CHECK(cudaStreamWaitEvent(stream, ready, 0) == cudaErrorStreamCaptureIsolation);
    ends_invalidated(stream);
}

static void legacy_beside_blocking_capture(void)
{
    const cudaStream_t stream = new_blocking_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();

    begin(stream);
    CHECK(cudaMemcpy(device, host, SIZE, cudaMemcpyDefault) == cudaErrorStreamCaptureImplicit);
    ends_invalidated(stream);
}

static void *end_elsewhere(void *argument)
{
    cudaGraph_t graph;

    CHECK(cudaStreamEndCapture(argument, &graph) == cudaErrorStreamCaptureWrongThread);
    return NULL;
}

static void ended_by_another_thread(void)
{
    const cudaStream_t stream = new_stream();

    begin(stream);
    in_thread(end_elsewhere, stream);
}

const struct program wrong_capture_by_code_programs[] = {
    {"allocation while capturing", allocation_while_capturing},
    {"free beside a capture", free_beside_capture},
    {"synchronized while capturing", synchronized_while_capturing},
    {"captured event synchronized", captured_event_synchronized},
    {"never joined", never_joined},
    {"waits for outside work", waits_for_outside_work},
    {"legacy stream beside a blocking capture", legacy_beside_blocking_capture},
    {"ended by another thread", ended_by_another_thread},
    {NULL, NULL},
};

/* ---- Bytes, when work runs as late as possible ---- */

static void graph_result_read_too_early(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned();
    const cudaGraphExec_t exec = exec_on(host, 2, stream);

    memset(host, 1, SIZE);
    MUST(cudaGraphLaunch(exec, stream));
    CHECK(all_are(host, 1));
}

static void captured_and_never_launched(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned();

    memset(host, 1, SIZE);
    exec_on(host, 2, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(all_are(host, 1));
}

static void *wait_for_own_stream(void *argument)
{
    MUST(cudaEventRecord(argument, cudaStreamPerThread));
    MUST(cudaEventSynchronize(argument));
    return NULL;
}

static void another_threads_stream_trusted(void)
{
    byte *const host = new_pinned();

    memset(host, 1, SIZE);
    MUST(cudaMemsetAsync(host, 2, SIZE, cudaStreamPerThread));
    in_thread(wait_for_own_stream, new_event());
    CHECK(all_are(host, 1));
}

const struct program wrong_capture_by_bytes_programs[] = {
    {"graph's result read too early", graph_result_read_too_early},
    {"captured and never launched", captured_and_never_launched},
    {"another thread's stream trusted", another_threads_stream_trusted},
    {NULL, NULL},
};
