/*
 * Order and waits: streams, events, host functions, and waits in destroying and freeing.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Streams ---- */

enum who { LEGACY, BLOCKING, OTHER_BLOCKING, NON_BLOCKING, OTHER_NON_BLOCKING, KINDS };

static void make_streams(cudaStream_t streams[KINDS])
{
    streams[LEGACY] = NULL;
    MUST(cudaStreamCreate(&streams[BLOCKING]));
    MUST(cudaStreamCreate(&streams[OTHER_BLOCKING]));
    MUST(cudaStreamCreateWithFlags(&streams[NON_BLOCKING], cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&streams[OTHER_NON_BLOCKING], cudaStreamNonBlocking));
}

static const struct {
    const char *fact;
    enum who held, then;
    bool waits;
} barriers[] = {
    {"the legacy stream waits for a blocking one", BLOCKING, LEGACY, true},
    {"a blocking stream waits for the legacy one", LEGACY, BLOCKING, true},
    {"the legacy stream does not wait for a non-blocking one", NON_BLOCKING, LEGACY, false},
    {"a non-blocking stream does not wait for the legacy one", LEGACY, NON_BLOCKING, false},
    {"blocking streams do not wait for each other", BLOCKING, OTHER_BLOCKING, false},
    {"a non-blocking stream does not wait for a blocking one", BLOCKING, NON_BLOCKING, false},
    {"non-blocking streams do not wait for each other", NON_BLOCKING, OTHER_NON_BLOCKING, false},
};

/* Holds one stream and queues a memset on another. Checks whether the memset can end meanwhile. */
static void legacy_stream(void)
{
    cudaStream_t streams[KINDS];
    cudaEvent_t held, then;
    unsigned char *data, *seen;

    make_streams(streams);
    MUST(cudaEventCreateWithFlags(&held, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&then, cudaEventDisableTiming));
    MUST(cudaMalloc((void **)&data, SIZE));
    MUST(cudaMallocHost((void **)&seen, SIZE));
    for (size_t i = 0; i < sizeof barriers / sizeof *barriers; i++) {
        const cudaStream_t stream = streams[barriers[i].then];

        memset(seen, 0, SIZE);
        hold_stream(streams[barriers[i].held]);
        MUST(cudaEventRecord(held, streams[barriers[i].held]));
        MUST(cudaMemsetAsync(data, 0x31, SIZE, stream));
        MUST(cudaMemcpyAsync(seen, data, SIZE, cudaMemcpyDeviceToHost, stream));
        MUST(cudaEventRecord(then, stream));
        if (barriers[i].waits) {
            expect_held(barriers[i].fact, then);
            let_go();
            MUST(cudaEventSynchronize(then));
            expect_value("and then that one is done", cudaSuccess, cudaEventQuery(held));
        } else {
            MUST(cudaEventSynchronize(then));
            expect_held(barriers[i].fact, held);
            let_go();
        }
        expect_bytes("and its bytes are there", 0x31, seen, SIZE);
        MUST(cudaDeviceSynchronize());
    }
}

static void legacy_barrier(void)
{
    cudaStream_t streams[KINDS];
    cudaEvent_t event;
    unsigned char *data, *seen;

    make_streams(streams);
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaMalloc((void **)&data, SIZE));
    MUST(cudaMallocHost((void **)&seen, SIZE));
    hold_stream(streams[BLOCKING]);
    MUST(cudaMemsetAsync(data, 1, SIZE, streams[BLOCKING]));
    MUST(cudaMemsetAsync(data, 2, SIZE / 2, NULL));
    MUST(cudaMemcpyAsync(seen, data, SIZE, cudaMemcpyDeviceToHost, streams[OTHER_BLOCKING]));
    MUST(cudaEventRecord(event, streams[OTHER_BLOCKING]));
    expect_held("the legacy stream stands between blocking streams", event);
    let_go();
    MUST(cudaEventSynchronize(event));
    expect_bytes("legacy work comes after the first stream's", 2, seen, SIZE / 2);
    expect_bytes("the first stream's work comes before the second's", 1, seen + SIZE / 2, SIZE / 2);

    hold_stream_for(streams[BLOCKING], 30);
    MUST(cudaMemsetAsync(data, 3, SIZE, streams[BLOCKING]));
    MUST(cudaMemcpy(seen, data, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("Memcpy waits for blocking streams", 3, seen, SIZE);
    hold_stream_for(streams[BLOCKING], 30);
    MUST(cudaMemsetAsync(data, 4, SIZE, streams[BLOCKING]));
    MUST(cudaMemcpyAsync(seen, data, SIZE, cudaMemcpyDeviceToHost, cudaStreamLegacy));
    MUST(cudaStreamSynchronize(NULL));
    expect_bytes("cudaStreamLegacy is the stream that NULL names", 4, seen, SIZE);
}

/* ---- Events ---- */

/* A wait is for the last record before it, and not for later records of the event. */
static void snapshots(void)
{
    struct kit kit;
    cudaStream_t third;

    make_kit(&kit);
    MUST(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));

    hold_stream(kit.stream);
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamSynchronize(kit.other));
    expect_held("a wait before the first record waits for nothing", kit.event);
    let_go();
    MUST(cudaDeviceSynchronize());

    MUST(cudaEventRecord(kit.event, third));
    hold_stream(kit.stream);
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaMemsetAsync(kit.device_a, 1, SIZE, kit.other));
    MUST(cudaStreamSynchronize(kit.other));
    expect_held("a wait does not see a later record", kit.event);
    let_go();
    MUST(cudaDeviceSynchronize());

    hold_stream(kit.stream);
    MUST(cudaMemsetAsync(kit.device_a, 2, SIZE, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.other));
    MUST(cudaEventRecord(kit.later, kit.other));
    MUST(cudaEventRecord(kit.event, third));
    expect_code("EventSynchronize is for the last record", cudaSuccess, cudaEventSynchronize(kit.event));
    expect_held("a wait is not ended by a later record", kit.later);
    let_go();
    MUST(cudaEventSynchronize(kit.later));
    expect_bytes("what waited came after what was waited for", 2, kit.pinned_a, SIZE);

    hold_stream(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaMemsetAsync(kit.device_b, 3, SIZE, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    let_go();
    MUST(cudaEventSynchronize(kit.event));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.other));
    MUST(cudaStreamSynchronize(kit.other));
    expect_bytes("an event recorded twice stands for the second record", 3, kit.pinned_b, SIZE);
}

static void chain(void)
{
    struct kit kit;

    make_kit(&kit);
    hold_stream(kit.stream);
    for (int i = 0; i < 8; i++) {
        const cudaStream_t stream = i % 2 ? kit.other : kit.stream;
        const cudaStream_t next = i % 2 ? kit.stream : kit.other;

        MUST(cudaMemsetAsync(kit.device_a, i, SIZE - (size_t)i * 100, stream));
        MUST(cudaEventRecord(kit.event, stream));
        MUST(cudaStreamWaitEvent(next, kit.event, 0));
    }
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    let_go();
    MUST(cudaStreamSynchronize(kit.stream));
    for (int i = 0; i < 8; i++) {
        const size_t end = SIZE - (size_t)i * 100;
        const size_t start = i < 7 ? end - 100 : 0;

        expect_bytes("a chain over two streams and one event", i, kit.pinned_a + start, end - start);
    }
}

static void across_devices(void)
{
    struct kit kit;
    cudaStream_t stream;
    cudaEvent_t event;

    make_kit(&kit);
    MUST(cudaSetDevice(1));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    hold_stream(kit.stream);
    MUST(cudaMemsetAsync(kit.device_a, 5, SIZE, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(stream, kit.event, 0));
    MUST(cudaEventRecord(event, stream));
    expect_held("a stream of device 1 waits for device 0", event);
    let_go();
    MUST(cudaEventSynchronize(event));
    expect_bytes("and then finds its bytes", 5, kit.pinned_a, SIZE);

    hold_stream(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaDeviceSynchronize());
    expect_held("DeviceSynchronize is for the current device", kit.event);
    let_go();
}

/* ---- Destroying and freeing ---- */

static void destroying(void)
{
    struct kit kit;

    make_kit(&kit);
    hold_stream(kit.stream);
    MUST(cudaMemsetAsync(kit.device_a, 0x19, SIZE, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.other));
    MUST(cudaEventRecord(kit.later, kit.other));
    expect_code("EventDestroy of a pending event", cudaSuccess, cudaEventDestroy(kit.event));
    expect_code("and does not wait for it", cudaErrorNotReady, cudaStreamQuery(kit.stream));
    expect_held("who waited for it still waits", kit.later);
    expect_code("StreamDestroy of a busy stream", cudaSuccess, cudaStreamDestroy(kit.other));
    expect_held("does not wait for it", kit.later);
    let_go();
    MUST(cudaEventSynchronize(kit.later));
    expect_bytes("a destroyed stream's work is done nevertheless, and in order", 0x19, kit.pinned_b, SIZE);
    expect_code("StreamDestroy of an idle stream", cudaSuccess, cudaStreamDestroy(kit.stream));
    expect_code("EventDestroy of a complete event", cudaSuccess, cudaEventDestroy(kit.later));
    expect_code("DeviceSynchronize after those", cudaSuccess, cudaDeviceSynchronize());
}

static void freeing(void)
{
    struct kit kit;

    make_kit(&kit);
    hold_stream_for(kit.stream, 50);
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    expect_code("Free of memory in use", cudaSuccess, cudaFree(kit.device_a));
    expect_code("waits for the device", cudaSuccess, cudaStreamQuery(kit.stream));
    expect_bytes("so the bytes have been copied", 0xa1, kit.pinned_b, SIZE);

    hold_stream_for(kit.stream, 50);
    MUST(cudaMemsetAsync(kit.pinned_b, 0x12, SIZE, kit.stream));
    expect_code("DeviceSynchronize", cudaSuccess, cudaDeviceSynchronize());
    expect_bytes("waits for non-blocking streams", 0x12, kit.pinned_b, SIZE);

    hold_stream_for(kit.stream, 50);
    MUST(cudaMemcpyAsync(kit.device_b, kit.pinned_a, SIZE, cudaMemcpyHostToDevice, kit.stream));
    expect_code("FreeHost of memory in use", cudaSuccess, cudaFreeHost(kit.pinned_a));
    expect_code("waits for its use", cudaSuccess, cudaStreamQuery(kit.stream));
    MUST(cudaMemcpy(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("which had its bytes", 0xa1, kit.pinned_b, SIZE);
}

/* The effect of an asynchronous copy at its return, behind other work. Nothing is promised for pageable memory. */
static void returns(void)
{
    struct kit kit;

    make_kit(&kit);
    hold_stream_for(kit.stream, 50);
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.pinned_b, SIZE, cudaMemcpyHostToHost, kit.stream));
    expect_bytes("MemcpyAsync between page-locked memory returns with the bytes there", 0xb2, kit.pinned_a, SIZE);
    MUST(cudaStreamSynchronize(kit.stream));

    hold_stream(kit.stream);
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    expect_bytes("MemcpyAsync to page-locked memory returns before", 0xb2, kit.pinned_a, SIZE);
    let_go();
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("which a synchronization then fills", 0xa1, kit.pinned_a, SIZE);
}

/* ---- Host functions ---- */

struct witness {
    struct kit *kit;
    int order, calls;
    bool earlier_done;
};

static void look(void *argument)
{
    struct witness *const witness = argument;

    witness->earlier_done = same_bytes(0xa1, witness->kit->pinned_b, SIZE);
    memset(witness->kit->pinned_b, 0xc4, SIZE);
    witness->order = ++witness->calls;
}

static void host_functions(void)
{
    struct kit kit;
    struct witness witness = {.kit = &kit};

    make_kit(&kit);
    hold_stream_for(kit.stream, 20);
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    expect_code("LaunchHostFunc", cudaSuccess, cudaLaunchHostFunc(kit.stream, look, &witness));
    MUST(cudaMemcpyAsync(kit.device_b, kit.pinned_b, SIZE, cudaMemcpyHostToDevice, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_value("a host function runs once", 1, witness.calls);
    expect_true("after what was queued before it", witness.earlier_done);
    expect_bytes("and before what was queued after it", 0xc4, kit.pinned_a, SIZE);
}

static cudaError_t answer;

static void allocate(void *argument)
{
    void *data;

    (void)argument;
    answer = cudaMalloc(&data, 256);
}

static void calls_in_host_functions(void)
{
    struct kit kit;

    make_kit(&kit);
    MUST(cudaLaunchHostFunc(kit.stream, allocate, NULL));
    expect_code("a host function's error is not the caller's", cudaSuccess, cudaStreamSynchronize(kit.stream));
    expect_value("Malloc in a host function", cudaErrorNotPermitted, answer);
}

/* Facts about order between capturing streams, and about cudaStreamPerThread in other threads, belong here. */
const struct section order_sections[] = {
    {"legacy stream", legacy_stream, 1, 0},
    {"legacy barrier", legacy_barrier, 1, 0},
    {"snapshots", snapshots, 1, 0},
    {"chain", chain, 1, 0},
    {"order across devices", across_devices, 2, 0},
    {"destroying", destroying, 1, 0},
    {"freeing", freeing, 1, 0},
    {"returns of copies", returns, 1, 0},
    {"host functions", host_functions, 1, 0},
    {"calls in host functions", calls_in_host_functions, 1, 0},
    {NULL, NULL, 0, 0},
};
