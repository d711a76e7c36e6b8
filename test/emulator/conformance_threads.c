/*
 * Per-thread default streams. In this file NULL is the calling thread's stream instead of the legacy one.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM

#include "conformance.h"

#include <limits.h>
#include <string.h>

/* ---- The owner ---- */

static unsigned long long id_of(cudaStream_t stream)
{
    unsigned long long id = 0;

    MUST(cudaStreamGetId(stream, &id));
    return id;
}

static void *tell_id(void *argument)
{
    *(unsigned long long *)argument = id_of(cudaStreamPerThread);
    return NULL;
}

static void own_streams(void)
{
    unsigned long long others[2];
    unsigned flags = UINT_MAX;
    int device = -1, priority = INT_MIN;
    struct kit kit;

    make_kit(&kit);
    in_thread(tell_id, &others[0]);
    in_thread(tell_id, &others[1]);
    const unsigned long long mine = id_of(cudaStreamPerThread), legacy = id_of(cudaStreamLegacy);
    expect_true("each thread has a stream of its own", mine != others[0] && mine != others[1]);
    expect_true("which is not the legacy stream", mine != legacy && mine != id_of(kit.stream));
    expect_true("a thread's stream stays the same", id_of(cudaStreamPerThread) == mine);
    expect_true("NULL is the per-thread stream where that was asked for", id_of(NULL) == mine);
    expect_true("the legacy stream stays the same", id_of(cudaStreamLegacy) == legacy);
    MUST(cudaStreamGetDevice(cudaStreamPerThread, &device));
    expect_value("StreamGetDevice of the per-thread stream", 0, device);
    MUST(cudaStreamGetDevice(cudaStreamLegacy, &device));
    expect_value("StreamGetDevice of the legacy stream", 0, device);
    MUST(cudaStreamGetFlags(cudaStreamPerThread, &flags));
    expect_value("StreamGetFlags of the per-thread stream", cudaStreamDefault, flags);
    MUST(cudaStreamGetPriority(cudaStreamPerThread, &priority));
    expect_value("StreamGetPriority of the per-thread stream", 0, priority);
}

static void devices(void)
{
    int device = -1;

    const unsigned long long zero = id_of(NULL), legacy = id_of(cudaStreamLegacy);
    MUST(cudaSetDevice(1));
    MUST(cudaStreamGetDevice(NULL, &device));
    expect_value("the per-thread stream is the current device's", 1, device);
    expect_true("another device has another per-thread stream", id_of(NULL) != zero);
    expect_true("another device has another legacy stream", id_of(cudaStreamLegacy) != legacy);
    MUST(cudaSetDevice(0));
    expect_true("the first device's is still there", id_of(NULL) == zero);
}

/* ---- The work before an event ---- */

struct visit {
    struct kit kit;
    cudaEvent_t event;
};

/* Waits for its own stream, which has no work. The other thread's stream is held. */
static void *record_own(void *argument)
{
    struct visit *const visit = argument;

    MUST(cudaEventRecord(visit->event, cudaStreamPerThread));
    MUST(cudaEventSynchronize(visit->event));
    return NULL;
}

static void *record_legacy(void *argument)
{
    struct visit *const visit = argument;

    MUST(cudaEventRecord(visit->event, cudaStreamLegacy));
    return NULL;
}

static void covered(void)
{
    struct visit visit;

    make_kit(&visit.kit);
    visit.event = visit.kit.later;
    hold_stream(cudaStreamPerThread);
    MUST(cudaMemsetAsync(visit.kit.device_a, 1, SIZE, cudaStreamPerThread));
    MUST(cudaEventRecord(visit.kit.event, cudaStreamPerThread));
    in_thread(record_own, &visit);
    expect_held("another thread's event on its per-thread stream does not cover this thread's", visit.kit.event);
    in_thread(record_legacy, &visit);
    expect_held("another thread's event on the legacy stream does", visit.event);
    let_go();
    MUST(cudaEventSynchronize(visit.event));
    expect_code("and then this thread's work is done", cudaSuccess, cudaEventQuery(visit.kit.event));
}

/* Leaves work behind that cannot run yet. */
static void *queue_and_end(void *argument)
{
    struct visit *const visit = argument;

    hold_stream(cudaStreamPerThread);
    MUST(cudaMemsetAsync(visit->kit.device_a, 0x44, SIZE, cudaStreamPerThread));
    MUST(cudaMemcpyAsync(visit->kit.pinned_a, visit->kit.device_a, SIZE, cudaMemcpyDeviceToHost, NULL));
    return NULL;
}

static void covered_after_the_end(void)
{
    struct visit visit;

    make_kit(&visit.kit);
    in_thread(queue_and_end, &visit);
    MUST(cudaEventRecord(visit.kit.event, cudaStreamLegacy));
    expect_held("an event on the legacy stream covers the stream of a thread that has ended", visit.kit.event);
    let_go();
    MUST(cudaEventSynchronize(visit.kit.event));
    expect_bytes("whose work is done then", 0x44, visit.kit.pinned_a, SIZE);
}

/* ---- Order ---- */

static void order(void)
{
    cudaStream_t blocking;
    struct kit kit;

    make_kit(&kit);
    MUST(cudaStreamCreate(&blocking));
    hold_stream(cudaStreamLegacy);
    MUST(cudaEventRecord(kit.event, cudaStreamPerThread));
    expect_held("the per-thread stream waits for the legacy one", kit.event);
    let_go();
    MUST(cudaDeviceSynchronize());

    hold_stream(blocking);
    MUST(cudaEventRecord(kit.event, blocking));
    MUST(cudaStreamSynchronize(cudaStreamPerThread));
    expect_held("the per-thread stream does not wait for a blocking one", kit.event);
    let_go();
    MUST(cudaDeviceSynchronize());

    hold_stream(blocking);
    MUST(cudaEventRecord(kit.event, blocking));
    MUST(cudaMemcpy(kit.device_a, kit.pinned_b, SIZE, cudaMemcpyHostToDevice));
    MUST(cudaMemset(kit.device_b, 0x55, SIZE));
    MUST(cudaStreamSynchronize(NULL));
    expect_held("Memcpy and Memset are the per-thread stream's where that was asked for", kit.event);
    let_go();
    MUST(cudaMemcpy(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("and that Memcpy copies", 0xb2, kit.pinned_a, SIZE);
    MUST(cudaMemcpy(kit.pinned_a, kit.device_b, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("and that Memset sets", 0x55, kit.pinned_a, SIZE);
    MUST(cudaDeviceSynchronize());
}

/* ---- Every call uses it ---- */

static void pass(void *argument)
{
    ++*(int *)argument;
}

static void calls(void)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    struct kit kit;
    void *data, *more;
    int count = 0;

    make_kit(&kit);
    expect_code("MallocFromPoolAsync, per thread", cudaSuccess, cudaMallocFromPoolAsync(&data, SIZE, kit.pool, NULL));
    expect_code("MallocAsync, per thread", cudaSuccess, cudaMallocAsync(&more, SIZE, NULL));
    expect_code("MemsetAsync, per thread", cudaSuccess, cudaMemsetAsync(data, 0x66, SIZE, NULL));
    expect_code("MemcpyAsync, per thread", cudaSuccess,
                cudaMemcpyAsync(kit.pinned_a, data, SIZE, cudaMemcpyDeviceToHost, NULL));
    expect_code("FreeAsync, per thread", cudaSuccess, cudaFreeAsync(data, NULL));
    expect_code("FreeAsync of the other, per thread", cudaSuccess, cudaFreeAsync(more, cudaStreamPerThread));
    expect_code("EventRecord, per thread", cudaSuccess, cudaEventRecord(kit.event, NULL));
    expect_code("StreamWaitEvent, per thread", cudaSuccess, cudaStreamWaitEvent(NULL, kit.event, 0));
    expect_code("LaunchHostFunc, per thread", cudaSuccess, cudaLaunchHostFunc(NULL, pass, &count));
    expect_code("StreamSynchronize, per thread", cudaSuccess, cudaStreamSynchronize(NULL));
    expect_code("StreamQuery, per thread", cudaSuccess, cudaStreamQuery(NULL));
    expect_bytes("all that was done", 0x66, kit.pinned_a, SIZE);
    expect_value("the host function too", 1, count);

    expect_code("BeginCapture, per thread", cudaSuccess, cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    MUST(cudaStreamIsCapturing(NULL, &status));
    expect_value("IsCapturing, per thread", cudaStreamCaptureStatusActive, status);
    MUST(cudaStreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL));
    expect_value("GetCaptureInfo, per thread", cudaStreamCaptureStatusActive, status);
    MUST(cudaMemsetAsync(kit.device_a, 0x77, SIZE, NULL));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, NULL));
    expect_code("EndCapture, per thread", cudaSuccess, cudaStreamEndCapture(NULL, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    expect_code("GraphLaunch, per thread", cudaSuccess, cudaGraphLaunch(exec, NULL));
    MUST(cudaStreamSynchronize(NULL));
    expect_bytes("the graph ran", 0x77, kit.pinned_a, SIZE);
}

const struct section thread_sections[] = {
    {"per-thread streams", own_streams, 1, 0},
    {"per-thread streams of two devices", devices, 2, 0},
    {"what an event on a per-thread stream covers", covered, 1, 0},
    {"the stream of a thread that has ended", covered_after_the_end, 1, 0},
    {"order of the per-thread stream", order, 1, 0},
    {"calls on the per-thread stream", calls, 1, 0},
    {NULL, NULL, 0, 0},
};
