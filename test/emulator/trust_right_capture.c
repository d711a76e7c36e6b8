/*
 * Right programs that capture, launch graphs, and use per-thread streams.
 */
#include "trust_capture.h"

/* ---- Graphs ---- */

/* Captured once and launched again and again. The host waits only now and then. */
static void replayed_step(void)
{
    enum { TIMES = 1000, EACH = 250 };
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = device, .from = device, .plus = 1};

    MUST(cudaMemsetAsync(device, 0, SIZE, stream));
    begin(stream);
    launch(&sum, stream);
    to_host(host, device, stream);
    const cudaGraphExec_t step = end(stream);
    for (int i = 1; i <= TIMES; i++) {
        MUST(cudaGraphLaunch(step, stream));
        if (i % EACH)
            continue;
        MUST(cudaStreamSynchronize(stream));
        CHECK(host_finds(host, i));
    }
    MUST(cudaGraphExecDestroy(step));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void fork_and_join(void)
{
    const cudaStream_t stream = new_stream(), side = new_stream();
    const cudaEvent_t forked = new_event(), joined = new_event();
    byte *const one = new_device_memory(), *const two = new_device_memory(), *const source = new_device_memory();
    byte *const host = new_pinned();
    struct sum left = {.to = one, .from = source, .plus = 1}, right = {.to = two, .from = source, .plus = 2};
    struct sum both = {.to = two, .from = two, .plus = 10};

    begin(stream);
    MUST(cudaMemsetAsync(source, 50, SIZE, stream));
    after(side, forked, stream);
    launch(&left, stream);
    launch(&right, side);
    after(stream, joined, side);
    launch(&both, stream);
    const cudaGraphExec_t exec = end(stream);
    for (int i = 0; i < 3; i++) {
        MUST(cudaGraphLaunch(exec, i % 2 ? side : stream));
        to_host(host, i == 1 ? one : two, i % 2 ? side : stream);
        MUST(cudaStreamSynchronize(i % 2 ? side : stream));
        CHECK(host_finds(host, i == 1 ? 51 : 62));
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(side));
    MUST(cudaEventDestroy(forked));
    MUST(cudaEventDestroy(joined));
    MUST(cudaFree(one));
    MUST(cudaFree(two));
    MUST(cudaFree(source));
    MUST(cudaFreeHost(host));
}

/* A launch is ordinary work of its stream: events can follow it, and other streams can wait for it. */
static void launch_between_events(void)
{
    const cudaStream_t producer = new_stream(), graphs = new_stream(), consumer = new_stream();
    const cudaEvent_t ready = new_event(), done = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = device, .from = device, .plus = 4};

    begin(graphs);
    launch(&sum, graphs);
    const cudaGraphExec_t exec = end(graphs);
    MUST(cudaMemsetAsync(device, 30, SIZE, producer));
    after(graphs, ready, producer);
    MUST(cudaGraphLaunch(exec, graphs));
    MUST(cudaGraphLaunch(exec, graphs));
    after(consumer, done, graphs);
    to_host(host, device, consumer);
    MUST(cudaStreamSynchronize(consumer));
    CHECK(host_finds(host, 38));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaStreamDestroy(producer));
    MUST(cudaStreamDestroy(graphs));
    MUST(cudaStreamDestroy(consumer));
    MUST(cudaEventDestroy(ready));
    MUST(cudaEventDestroy(done));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* While a launch runs, its executable graph, its stream, and the streams and events of the capture are destroyed. */
static void graph_outlived(void)
{
    const cudaStream_t stream = new_stream(), side = new_stream();
    const cudaEvent_t forked = new_event(), joined = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    begin(stream);
    after(side, forked, stream);
    MUST(cudaMemsetAsync(device, 23, SIZE, side));
    after(stream, joined, side);
    MUST(cudaEventDestroy(forked));
    MUST(cudaEventDestroy(joined));
    const cudaGraphExec_t exec = end(stream);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaGraphLaunch(exec, side));
    MUST(cudaGraphExecDestroy(exec));
    to_host(host, device, side);
    MUST(cudaStreamSynchronize(side));
    MUST(cudaStreamDestroy(side));
    CHECK(host_finds(host, 23));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* Work that was queued before the capture is not in the graph, and continues beside the capture. */
static void capture_behind_work(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = device, .from = device, .plus = 1};

    MUST(cudaMemsetAsync(device, 60, SIZE, stream));
    begin(stream);
    launch(&sum, stream);
    const cudaGraphExec_t exec = end(stream);
    to_host(host, device, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 60));
    MUST(cudaGraphLaunch(exec, stream));
    to_host(host, device, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 61));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* ---- Beside a capture ---- */

struct beside {
    byte *device, *pinned;
    cudaEvent_t done;
};

/* Makes calls that are unsafe beside a capture, on a thread in relaxed mode. */
static void *allocate_relaxed(void *argument)
{
    struct beside *const beside = argument;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    const cudaStream_t stream = new_stream();
    const cudaMemPool_t pool = new_pool(0);
    beside->device = new_device_memory();
    beside->pinned = new_pinned();
    byte *const memory = new_pool_memory(pool, stream), *const more = new_pinned();
    MUST(cudaMemsetAsync(memory, 71, SIZE, stream));
    to_host(beside->pinned, memory, stream);
    MUST(cudaFreeAsync(memory, stream));
    MUST(cudaEventRecord(beside->done, stream));
    MUST(cudaEventSynchronize(beside->done));
    CHECK(host_finds(beside->pinned, 71));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaFreeHost(more));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);
    return NULL;
}

static void allocation_beside_capture(void)
{
    const cudaStream_t stream = new_stream();
    struct beside beside = {.done = new_event()};

    begin(stream);
    in_thread(allocate_relaxed, &beside);
    MUST(cudaMemsetAsync(beside.device, 72, SIZE, stream));
    to_host(beside.pinned, beside.device, stream);
    const cudaGraphExec_t exec = end(stream);
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(beside.pinned, 72));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaEventDestroy(beside.done));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(beside.device));
    MUST(cudaFreeHost(beside.pinned));
}

/* A capture in thread-local mode does not restrict other threads. */
static void *allocate(void *argument)
{
    struct beside *const beside = argument;

    beside->device = new_device_memory();
    beside->pinned = new_pinned();
    MUST(cudaMemset(beside->device, 73, SIZE));
    MUST(cudaMemcpy(beside->pinned, beside->device, SIZE, cudaMemcpyDefault));
    CHECK(host_finds(beside->pinned, 73));
    MUST(cudaFree(beside->device));
    MUST(cudaFreeHost(beside->pinned));
    return NULL;
}

static void thread_local_capture(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct beside beside = {.done = NULL};

    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    in_thread(allocate, &beside);
    MUST(cudaMemsetAsync(device, 74, SIZE, stream));
    to_host(host, device, stream);
    const cudaGraphExec_t exec = end(stream);
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 74));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* An error in one capture does not affect the next. */
static void captured_again(void)
{
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();
    cudaGraph_t graph;
    void *data;

    begin(stream);
    MUST(cudaEventRecord(event, stream));
    CHECK(cudaMalloc(&data, SIZE) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    begin(stream);
    MUST(cudaMemsetAsync(device, 75, SIZE, stream));
    to_host(host, device, stream);
    const cudaGraphExec_t exec = end(stream);
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaEventSynchronize(event));
    CHECK(host_finds(host, 75));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* ---- Per-thread streams ---- */

struct visitor {
    pthread_t thread;
    byte *device, *host;
    cudaEvent_t event;
    int value;
};

static void *use_own_stream(void *argument)
{
    struct visitor *const visitor = argument;
    struct sum sum = {.to = visitor->device, .from = visitor->device, .plus = 1};

    MUST(cudaMemsetAsync(visitor->device, visitor->value, SIZE, cudaStreamPerThread));
    launch(&sum, cudaStreamPerThread);
    to_host(visitor->host, visitor->device, cudaStreamPerThread);
    MUST(cudaStreamSynchronize(cudaStreamPerThread));
    CHECK(host_finds(visitor->host, visitor->value + 1));
    return NULL;
}

static void two_threads(void)
{
    struct visitor visitors[2];

    for (int i = 0; i < 2; i++) {
        visitors[i] = (struct visitor){.device = new_device_memory(), .host = new_pinned(), .value = 80 + i};
        CHECK(pthread_create(&visitors[i].thread, NULL, use_own_stream, &visitors[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(visitors[i].thread, NULL) == 0);
        MUST(cudaFree(visitors[i].device));
        MUST(cudaFreeHost(visitors[i].host));
    }
}

static void *queue_and_end(void *argument)
{
    struct visitor *const visitor = argument;

    MUST(cudaMemsetAsync(visitor->device, visitor->value, SIZE, cudaStreamPerThread));
    to_host(visitor->host, visitor->device, cudaStreamPerThread);
    MUST(cudaEventRecord(visitor->event, cudaStreamPerThread));
    return NULL;
}

/* Work that an ended thread left behind is covered by its own event, by one on the legacy stream, and by a
 * synchronization of the device. */
static void thread_ended(void)
{
    for (int i = 0; i < 3; i++) {
        struct visitor visitor = {
            .device = new_device_memory(), .host = new_pinned(), .event = new_event(), .value = 85 + i};

        in_thread(queue_and_end, &visitor);
        if (i == 1)
            MUST(cudaEventRecord(visitor.event, cudaStreamLegacy));
        if (i < 2)
            MUST(cudaEventSynchronize(visitor.event));
        else
            MUST(cudaDeviceSynchronize());
        CHECK(host_finds(visitor.host, visitor.value));
        MUST(cudaEventDestroy(visitor.event));
        MUST(cudaFree(visitor.device));
        MUST(cudaFreeHost(visitor.host));
    }
}

static void per_thread_and_legacy(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = device, .from = device, .plus = 1};

    MUST(cudaMemsetAsync(device, 90, SIZE, cudaStreamPerThread));
    launch(&sum, NULL);
    launch(&sum, cudaStreamPerThread);
    MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDefault));
    CHECK(host_finds(host, 92));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void per_thread_capture(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = device, .from = device, .plus = 1};

    begin(cudaStreamPerThread);
    MUST(cudaMemsetAsync(device, 95, SIZE, cudaStreamPerThread));
    launch(&sum, cudaStreamPerThread);
    to_host(host, device, cudaStreamPerThread);
    const cudaGraphExec_t exec = end(cudaStreamPerThread);
    MUST(cudaGraphLaunch(exec, NULL));
    MUST(cudaStreamSynchronize(NULL));
    CHECK(host_finds(host, 96));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

const struct program right_capture_programs[] = {
    {"replayed step", replayed_step},
    {"fork and join", fork_and_join},
    {"launch between events", launch_between_events},
    {"graph outlived", graph_outlived},
    {"capture behind work", capture_behind_work},
    {"allocation beside a capture", allocation_beside_capture},
    {"thread-local capture", thread_local_capture},
    {"captured again", captured_again},
    {"per-thread streams of two threads", two_threads},
    {"thread ended", thread_ended},
    {"per-thread and legacy stream", per_thread_and_legacy},
    {"per-thread capture", per_thread_capture},
    {NULL, NULL},
};
