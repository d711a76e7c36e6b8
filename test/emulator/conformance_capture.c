/*
 * The effect of a capture on other calls, and theirs on the capture. First, another thread's calls while this one
 * captures in global mode. Then, who may make unsafe calls in which mode.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- One capture, and another thread's call beside it ---- */

struct scene {
    cudaStream_t cap, other;
    cudaEvent_t event; /* recorded on other, and done */
    cudaMemPool_t pool;
    unsigned char *device, *pinned;
    void *to_free, *to_free_host, *to_register, *to_unregister;
    void *given; /* allocated from the pool by the call */
};

static void make_scene(struct scene *scene, bool blocking)
{
    memset(scene, 0, sizeof *scene);
    MUST(cudaStreamCreateWithFlags(&scene->cap, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&scene->other, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&scene->event, cudaEventDisableTiming));
    scene->pool = make_pool(0);
    MUST(cudaMalloc((void **)&scene->device, SIZE));
    MUST(cudaMalloc(&scene->to_free, SIZE));
    MUST(cudaMallocHost((void **)&scene->pinned, SIZE));
    MUST(cudaMallocHost(&scene->to_free_host, SIZE));
    scene->to_register = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (scene->to_register == MAP_FAILED)
        abort();
    scene->to_unregister = (unsigned char *)scene->to_register + SIZE;
    MUST(cudaHostRegister(scene->to_unregister, SIZE, cudaHostRegisterDefault));
    MUST(cudaMemset(scene->device, 0, SIZE));
    MUST(cudaEventRecord(scene->event, scene->other));
    MUST(cudaDeviceSynchronize());
}

/* The calls, under the names of the table below. */

static cudaError_t event_query(struct scene *s)
{
    return cudaEventQuery(s->event);
}

static cudaError_t event_synchronize(struct scene *s)
{
    return cudaEventSynchronize(s->event);
}

static cudaError_t stream_synchronize(struct scene *s)
{
    return cudaStreamSynchronize(s->other);
}

static cudaError_t wait_event(struct scene *s)
{
    return cudaStreamWaitEvent(s->other, s->event, 0);
}

static cudaError_t event_record(struct scene *s)
{
    return cudaEventRecord(s->event, s->other);
}

static cudaError_t memcpy_async(struct scene *s)
{
    return cudaMemcpyAsync(s->device, s->pinned, SIZE, cudaMemcpyHostToDevice, s->other);
}

static unsigned char pageable[SIZE];

static cudaError_t memcpy_async_pageable(struct scene *s)
{
    return cudaMemcpyAsync(s->device, pageable, SIZE, cudaMemcpyHostToDevice, s->other);
}

static cudaError_t memcpy_async_to_pageable(struct scene *s)
{
    return cudaMemcpyAsync(pageable, s->device, SIZE, cudaMemcpyDeviceToHost, s->other);
}

static cudaError_t memcpy_async_on_device(struct scene *s)
{
    return cudaMemcpyAsync(s->device, s->device + SIZE / 2, SIZE / 2, cudaMemcpyDeviceToDevice, s->other);
}

static cudaError_t memset_async(struct scene *s)
{
    return cudaMemsetAsync(s->device, 2, SIZE, s->other);
}

static cudaError_t memcpy_async_per_thread(struct scene *s)
{
    return cudaMemcpyAsync(s->device, s->pinned, SIZE, cudaMemcpyHostToDevice, cudaStreamPerThread);
}

static cudaError_t memcpy_async_legacy(struct scene *s)
{
    return cudaMemcpyAsync(s->device, s->pinned, SIZE, cudaMemcpyHostToDevice, cudaStreamLegacy);
}

static cudaError_t wait_event_legacy(struct scene *s)
{
    return cudaStreamWaitEvent(cudaStreamLegacy, s->event, 0);
}

static cudaError_t malloc_from_pool(struct scene *s)
{
    return cudaMallocFromPoolAsync(&s->given, SIZE, s->pool, s->other);
}

static cudaError_t malloc_and_free_async(struct scene *s)
{
    const cudaError_t code = malloc_from_pool(s);
    return code != cudaSuccess ? code : cudaFreeAsync(s->given, s->other);
}

static cudaError_t malloc_device(struct scene *s)
{
    (void)s;
    void *data;
    return cudaMalloc(&data, SIZE);
}

static cudaError_t free_device(struct scene *s)
{
    return cudaFree(s->to_free);
}

static cudaError_t malloc_host(struct scene *s)
{
    (void)s;
    void *data;
    return cudaMallocHost(&data, SIZE);
}

static cudaError_t free_host(struct scene *s)
{
    return cudaFreeHost(s->to_free_host);
}

static cudaError_t host_register(struct scene *s)
{
    return cudaHostRegister(s->to_register, SIZE, cudaHostRegisterDefault);
}

static cudaError_t host_unregister(struct scene *s)
{
    return cudaHostUnregister(s->to_unregister);
}

static cudaError_t trim(struct scene *s)
{
    return cudaMemPoolTrimTo(s->pool, 0);
}

static cudaError_t event_create(struct scene *s)
{
    (void)s;
    cudaEvent_t event;
    return cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
}

static cudaError_t stream_create(struct scene *s)
{
    (void)s;
    cudaStream_t stream;
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
}

static cudaError_t event_record_legacy(struct scene *s)
{
    return cudaEventRecord(s->event, cudaStreamLegacy);
}

static cudaError_t is_legacy_capturing(struct scene *s)
{
    (void)s;
    enum cudaStreamCaptureStatus status;
    return cudaStreamIsCapturing(cudaStreamLegacy, &status);
}

static cudaError_t memcpy_synchronous(struct scene *s)
{
    return cudaMemcpy(s->device, s->pinned, SIZE, cudaMemcpyHostToDevice);
}

static cudaError_t pointer_attributes(struct scene *s)
{
    struct cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, s->device);
}

static cudaError_t id_of_capturing(struct scene *s)
{
    unsigned long long id;
    return cudaStreamGetId(s->cap, &id);
}

static cudaError_t device_of_capturing(struct scene *s)
{
    int device;
    return cudaStreamGetDevice(s->cap, &device);
}

static cudaError_t free_async_on_capturing(struct scene *s)
{
    (void)malloc_from_pool(s);
    return cudaFreeAsync(s->given, s->cap);
}

static cudaError_t captured_event_query(struct scene *s)
{
    const cudaError_t code = cudaEventRecord(s->event, s->cap);
    return code != cudaSuccess ? code : cudaEventQuery(s->event);
}

static cudaError_t device_synchronize(struct scene *s)
{
    (void)s;
    return cudaDeviceSynchronize();
}

/* The expected code of a call, and whether the capture ends well. The capturing stream is non-blocking in the first two
 * columns, then blocking. The calling thread's mode is global, relaxed, global, relaxed. */
struct beside {
    const char *call;
    cudaError_t (*make)(struct scene *scene);
    struct {
        int code;
        bool goes_on;
    } answers[4];
};

/* clang-format off */
#define SAFE {{0, true}, {0, true}, {0, true}, {0, true}}
#define UNSAFE {{900, false}, {0, true}, {900, false}, {0, true}}
#define ON_LEGACY {{0, true}, {0, true}, {906, false}, {906, false}}
#define ALWAYS(code) {{code, false}, {code, false}, {code, false}, {code, false}}
/* clang-format on */

static const struct beside calls[] = {
    {"EventQuery", event_query, UNSAFE},
    {"EventSynchronize", event_synchronize, UNSAFE},
    {"StreamSynchronize(other)", stream_synchronize, UNSAFE},
    {"StreamWaitEvent(other)", wait_event, SAFE},
    {"EventRecord(other)", event_record, SAFE},
    {"MemcpyAsync(other)", memcpy_async, SAFE},
    {"MemcpyAsync(other), from pageable memory", memcpy_async_pageable, SAFE},
    {"MemcpyAsync(other), to pageable memory", memcpy_async_to_pageable, SAFE},
    {"MemcpyAsync(other), on the device", memcpy_async_on_device, SAFE},
    {"MemcpyAsync(per thread)", memcpy_async_per_thread, SAFE},
    {"MemsetAsync(other)", memset_async, SAFE},
    {"MallocFromPoolAsync(other)", malloc_from_pool, UNSAFE},
    {"FreeAsync(other), its allocation included", malloc_and_free_async, UNSAFE},
    {"cudaMalloc", malloc_device, UNSAFE},
    {"cudaFree", free_device, UNSAFE},
    {"MallocHost", malloc_host, UNSAFE},
    {"FreeHost", free_host, UNSAFE},
    {"HostRegister", host_register, UNSAFE},
    {"HostUnregister", host_unregister, UNSAFE},
    {"MemPoolTrimTo", trim, UNSAFE},
    {"EventCreate", event_create, SAFE},
    {"StreamCreate", stream_create, SAFE},
    {"EventRecord(legacy)", event_record_legacy, ON_LEGACY},
    {"StreamWaitEvent(legacy)", wait_event_legacy, ON_LEGACY},
    {"MemcpyAsync(legacy)", memcpy_async_legacy, ON_LEGACY},
    {"IsCapturing(legacy)", is_legacy_capturing, {{0, true}, {0, true}, {906, true}, {906, true}}},
    {"Memcpy(sync)", memcpy_synchronous, ON_LEGACY},
    {"PointerGetAttributes", pointer_attributes, SAFE},
    {"StreamGetId(cap)", id_of_capturing, ALWAYS(900)},
    {"StreamGetDevice(cap)", device_of_capturing, ALWAYS(900)},
    {"FreeAsync(cap, pool memory)", free_async_on_capturing, {{901, false}, {1, true}, {901, false}, {1, true}}},
    {"EventRecord(cap)+Query", captured_event_query, ALWAYS(907)},
    {"DeviceSynchronize", device_synchronize, ALWAYS(900)},
};

struct caller {
    const struct beside *beside;
    struct scene *scene;
    enum cudaStreamCaptureMode mode;
    cudaError_t code;
};

/* A new thread is in global mode until it exchanges its mode. */
static void *make_call(void *argument)
{
    struct caller *const caller = argument;
    enum cudaStreamCaptureMode mode = caller->mode;

    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    caller->code = caller->beside->make(caller->scene);
    return NULL;
}

static cudaError_t code_in_thread(struct caller *caller)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, make_call, caller) != 0 || pthread_join(thread, NULL) != 0)
        abort();
    return caller->code;
}

/* Ends a capture that must be good, or invalidated. Destroys its graph. */
static void expect_end(const char *fact, bool good, cudaStream_t stream)
{
    cudaGraph_t graph = NULL;

    expect_code(fact, good ? cudaSuccess : cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    if (good != (graph != NULL))
        expect_true("a good capture gives a graph, a bad one NULL", false);
    if (graph != NULL)
        MUST(cudaGraphDestroy(graph));
}

/* Makes a new scene for each call, so that a failed call does not affect the next. */
static void beside_capture(int column)
{
    const bool blocking = column >= 2, relaxed = column % 2 == 1;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct beside *const beside = &calls[i];
        struct scene scene;
        struct caller caller = {.beside = beside, .scene = &scene};
        char fact[200];

        caller.mode = relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
        make_scene(&scene, blocking);
        MUST(cudaStreamBeginCapture(scene.cap, cudaStreamCaptureModeGlobal));
        MUST(cudaMemsetAsync(scene.device, 1, SIZE, scene.cap));
        snprintf(fact, sizeof fact, "%s beside a %s stream's capture, %s mode", beside->call,
                 blocking ? "blocking" : "non-blocking", relaxed ? "relaxed" : "global");
        expect_value(fact, beside->answers[column].code, code_in_thread(&caller));
        snprintf(fact, sizeof fact, "the capture after %s", beside->call);
        expect_end(fact, beside->answers[column].goes_on, scene.cap);
        MUST(cudaDeviceSynchronize());
    }
}

static void beside_non_blocking(void)
{
    beside_capture(0);
}

static void beside_non_blocking_relaxed(void)
{
    beside_capture(1);
}

static void beside_blocking(void)
{
    beside_capture(2);
}

static void beside_blocking_relaxed(void)
{
    beside_capture(3);
}

/* ---- Modes ---- */

static const char *const mode_names[] = {"global", "thread-local", "relaxed"};

/* Tests cudaMalloc by the capturing thread or by another, in the capture's mode and the calling thread's. */
static void one_mode(enum cudaStreamCaptureMode capture, enum cudaStreamCaptureMode caller, bool other_thread)
{
    static const struct beside allocation = {"cudaMalloc", malloc_device, UNSAFE};
    const bool both_global = capture == cudaStreamCaptureModeGlobal && caller == cudaStreamCaptureModeGlobal;
    const bool neither_relaxed = capture != cudaStreamCaptureModeRelaxed && caller != cudaStreamCaptureModeRelaxed;
    const bool refused = other_thread ? both_global : neither_relaxed;
    enum cudaStreamCaptureMode mode = caller;
    struct scene scene;
    struct caller in_thread = {.beside = &allocation, .scene = &scene, .mode = caller};
    char fact[200];

    make_scene(&scene, false);
    MUST(cudaStreamBeginCapture(scene.cap, capture));
    snprintf(fact, sizeof fact, "%s's cudaMalloc in %s mode beside a capture in %s mode",
             other_thread ? "another thread" : "the same thread", mode_names[caller], mode_names[capture]);
    if (other_thread) {
        expect_value(fact, refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess, code_in_thread(&in_thread));
    } else {
        MUST(cudaThreadExchangeStreamCaptureMode(&mode));
        expect_code(fact, refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess, malloc_device(&scene));
        MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    }
    expect_end("the capture after that", !refused, scene.cap);
}

static void modes(void)
{
    for (int capture = cudaStreamCaptureModeGlobal; capture <= cudaStreamCaptureModeRelaxed; capture++)
        for (int caller = cudaStreamCaptureModeGlobal; caller <= cudaStreamCaptureModeRelaxed; caller++)
            for (int other = 0; other < 2; other++)
                one_mode((enum cudaStreamCaptureMode)capture, (enum cudaStreamCaptureMode)caller, other == 1);
}

const struct section capture_sections[] = {
    {"beside a non-blocking stream's capture", beside_non_blocking, 1, 0},
    {"beside a non-blocking stream's capture, relaxed", beside_non_blocking_relaxed, 1, 0},
    {"beside a blocking stream's capture", beside_blocking, 1, 0},
    {"beside a blocking stream's capture, relaxed", beside_blocking_relaxed, 1, 0},
    {"capture modes", modes, 1, 0},
    {NULL, NULL, 0, 0},
};
