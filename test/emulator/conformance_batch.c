/*
 * cudaMemcpyBatchAsync, as CUDA 13.0 declares it.
 *
 * The order "during the API call" promises that the source has been read at the return. A real runtime was seen to keep
 * that only up to 64 KiB, or on a stream without work. No fact is asserted beyond that.
 */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

#if CUDART_VERSION >= 13000

enum { LARGE = 1 << 20 };

struct pair {
    unsigned char *to;
    const unsigned char *from;
    size_t size;
};

static cudaError_t copy_pairs(const struct pair *pairs, size_t count, enum cudaMemcpySrcAccessOrder order,
                              cudaStream_t stream)
{
    void *to[4] = {NULL};
    const void *from[4] = {NULL};
    size_t sizes[4] = {0};
    size_t first = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = order};

    for (size_t i = 0; i < count; i++) {
        to[i] = pairs[i].to;
        from[i] = pairs[i].from;
        sizes[i] = pairs[i].size;
    }
    return cudaMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream);
}

static cudaError_t copy_one(void *to, const void *from, size_t size, cudaStream_t stream)
{
    const struct pair pair = {to, from, size};
    return copy_pairs(&pair, 1, cudaMemcpySrcAccessOrderStream, stream);
}

static void streams(void)
{
    struct kit kit;
    cudaStream_t blocking;

    make_kit(&kit);
    MUST(cudaStreamCreate(&blocking));
    expect_code("MemcpyBatchAsync on a non-blocking stream", cudaSuccess,
                copy_one(kit.device_a, kit.pinned_a, 100, kit.stream));
    expect_code("on a blocking stream", cudaSuccess, copy_one(kit.device_a + 100, kit.pinned_a, 100, blocking));
    expect_code("on the thread's own stream", cudaSuccess,
                copy_one(kit.device_a + 200, kit.pinned_a, 100, cudaStreamPerThread));
    expect_code("on NULL", cudaErrorInvalidValue, copy_one(kit.device_a, kit.pinned_a, SIZE, NULL));
    expect_code("on the legacy stream", cudaErrorInvalidValue,
                copy_one(kit.device_a, kit.pinned_a, SIZE, cudaStreamLegacy));
    MUST(cudaDeviceSynchronize());
}

static void arguments(void)
{
    struct kit kit;

    make_kit(&kit);
    const struct pair two[] = {{kit.device_a, kit.pinned_b, 1000}, {kit.device_b, kit.pinned_a, 1000}};
    const struct pair with_nothing[] = {{kit.device_a, kit.pinned_b, 1000}, {kit.device_b, kit.pinned_a, 0}};
    expect_code("a batch of two", cudaSuccess, copy_pairs(two, 2, cudaMemcpySrcAccessOrderStream, kit.stream));
    expect_code("of none", cudaErrorInvalidValue, copy_pairs(two, 0, cudaMemcpySrcAccessOrderStream, kit.stream));
    expect_code("one of no bytes", cudaErrorInvalidValue,
                copy_pairs(with_nothing, 2, cudaMemcpySrcAccessOrderStream, kit.stream));
    expect_code("no order", cudaErrorInvalidValue, copy_pairs(two, 2, cudaMemcpySrcAccessOrderInvalid, kit.stream));
    expect_code("to NULL", cudaErrorInvalidValue, copy_one(NULL, kit.pinned_a, 1000, kit.stream));
    expect_code("beyond the end", cudaErrorInvalidValue, copy_one(kit.device_a, kit.pinned_a, 64 << 20, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("the first of the two", 0xb2, kit.pinned_a, 1000);
    expect_bytes("the second", 0xa1, kit.pinned_b, 1000);
}

/* The library sends batches of both kinds of page-locked memory, in either direction. */
static void many(void)
{
    enum { COUNT = 1000, EACH = 64 };
    static void *to[COUNT];
    static const void *from[COUNT];
    static size_t sizes[COUNT];
    struct kit kit;
    size_t first = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    unsigned char *const host = aligned_alloc(4096, SIZE);

    if (!host)
        abort();
    make_kit(&kit);
    memset(host, 0x71, SIZE);
    MUST(cudaHostRegister(host, SIZE, cudaHostRegisterPortable | cudaHostRegisterMapped));
    for (int i = 0; i < COUNT; i++) {
        to[i] = kit.device_a + i * EACH;
        from[i] = host + i * EACH;
        sizes[i] = i % 3 ? EACH : 1;
    }
    hold_stream_for(kit.stream, 30);
    expect_code("a batch of 1000 from registered memory", cudaSuccess,
                cudaMemcpyBatchAsync(to, from, sizes, COUNT, &attributes, &first, 1, kit.stream));
    for (int i = 0; i < COUNT; i++) {
        to[i] = kit.pinned_b + i * EACH;
        from[i] = kit.device_a + i * EACH;
    }
    expect_code("and of 1000 back to page-locked memory", cudaSuccess,
                cudaMemcpyBatchAsync(to, from, sizes, COUNT, &attributes, &first, 1, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("the batches came one after the other", 0x71, kit.pinned_b + EACH, EACH);
    expect_bytes("the last copy of both", 0x71, kit.pinned_b + (COUNT - 2) * EACH, EACH);
    expect_bytes("a copy of one byte", 0x71, kit.pinned_b, 1);
    expect_bytes("and no more", 0xb2, kit.pinned_b + 1, EACH - 1);
    MUST(cudaHostUnregister(host));
    free(host);
}

static const enum cudaMemcpySrcAccessOrder orders[] = {
    cudaMemcpySrcAccessOrderStream, cudaMemcpySrcAccessOrderDuringApiCall, cudaMemcpySrcAccessOrderAny};
static const char *const from_pageable[] = {"pageable source, in the stream's order", "during the API call",
                                            "in any order"};

static void pageable_memory(void)
{
    struct kit kit;
    unsigned char *const source = malloc(LARGE), *const back = malloc(LARGE);
    unsigned char *target;

    if (!source || !back)
        abort();
    make_kit(&kit);
    MUST(cudaMalloc((void **)&target, LARGE));
    for (int i = 0; i < 3; i++) {
        const struct pair pair = {target, source, LARGE};
        memset(source, 0x51 + i, LARGE);
        hold_stream_for(kit.stream, 30);
        expect_code(from_pageable[i], cudaSuccess, copy_pairs(&pair, 1, orders[i], kit.stream));
        MUST(cudaStreamSynchronize(kit.stream));
        MUST(cudaMemcpy(back, target, LARGE, cudaMemcpyDeviceToHost));
        expect_bytes("its bytes, once the stream is done", 0x51 + i, back, LARGE);
    }
    const struct pair pair = {back, kit.device_a, SIZE};
    expect_code("to pageable memory", cudaSuccess,
                copy_pairs(&pair, 1, cudaMemcpySrcAccessOrderDuringApiCall, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("which has the bytes, once the stream is done", 0xa1, back, SIZE);
    free(source);
    free(back);
}

static void rewritten(const char *fact, struct kit *kit, size_t size, bool busy)
{
    unsigned char *const source = malloc(size), *const back = malloc(size);
    const struct pair pair = {kit->device_a, source, size};

    if (!source || !back)
        abort();
    memset(source, 0x61, size);
    if (busy)
        hold_stream_for(kit->stream, 30);
    MUST(copy_pairs(&pair, 1, cudaMemcpySrcAccessOrderDuringApiCall, kit->stream));
    memset(source, 0xee, size);
    MUST(cudaStreamSynchronize(kit->stream));
    MUST(cudaMemcpy(back, kit->device_a, size, cudaMemcpyDeviceToHost));
    expect_bytes(fact, 0x61, back, size);
    free(source);
    free(back);
}

static void rewritten_sources(void)
{
    struct kit kit;

    make_kit(&kit);
    MUST(cudaMalloc((void **)&kit.device_a, LARGE));
    rewritten("during the API call, source rewritten then, 100 bytes", &kit, 100, true);
    rewritten("the same, 64 KiB", &kit, SIZE, true);
    rewritten("the same, 1 MiB, on an idle stream", &kit, LARGE, false);
}

static void captures(void)
{
    struct kit kit;
    cudaGraph_t graph;

    make_kit(&kit);
    MUST(cudaStreamBeginCapture(kit.stream, cudaStreamCaptureModeRelaxed));
    expect_code("a batch on a stream that captures", cudaErrorStreamCaptureUnsupported,
                copy_one(kit.device_a, kit.pinned_a, SIZE, kit.stream));
    expect_code("which goes on capturing", cudaSuccess, cudaStreamEndCapture(kit.stream, &graph));
    MUST(cudaStreamBeginCapture(kit.stream, cudaStreamCaptureModeGlobal));
    expect_code("a batch beside a capture in global mode", cudaSuccess,
                copy_one(kit.device_a, kit.pinned_a, SIZE, kit.other));
    expect_code("which ends well", cudaSuccess, cudaStreamEndCapture(kit.stream, &graph));
}

const struct section batch_sections[] = {
    {"batch: streams", streams, 1, 0},
    {"batch: arguments", arguments, 1, 0},
    {"batch: many copies", many, 1, 0},
    {"batch: pageable memory", pageable_memory, 1, 0},
    {"batch: rewritten sources", rewritten_sources, 1, 0},
    {"batch: captures", captures, 1, 0},
    {NULL, NULL, 0, 0},
};

#else

const struct section batch_sections[] = {{NULL, NULL, 0, 0}};

#endif
