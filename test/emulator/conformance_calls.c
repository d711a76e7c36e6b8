/*
 * Results of the runtime's calls: codes of right and wrong calls, handles, devices, threads, forks.
 */
#include "conformance.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *const garbage = (void *)(uintptr_t)0x1234000;

/* ---- Calls and misuse ---- */

static void pending(void)
{
    struct kit kit;

    make_kit(&kit);
    hold_stream(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    expect_code("EventQuery pending", cudaErrorNotReady, cudaEventQuery(kit.event));
    expect_code("StreamQuery pending", cudaErrorNotReady, cudaStreamQuery(kit.stream));
    let_go();
    expect_code("StreamSynchronize", cudaSuccess, cudaStreamSynchronize(kit.stream));
    expect_code("EventQuery done", cudaSuccess, cudaEventQuery(kit.event));
    expect_code("StreamQuery done", cudaSuccess, cudaStreamQuery(kit.stream));
    expect_code("EventQuery never recorded", cudaSuccess, cudaEventQuery(kit.later));
    expect_code("EventSynchronize never recorded", cudaSuccess, cudaEventSynchronize(kit.later));
    expect_code("WaitEvent never recorded", cudaSuccess, cudaStreamWaitEvent(kit.stream, kit.later, 0));
}

static void times(void)
{
    struct kit kit;
    cudaEvent_t begin, end;
    float took = -1;

    make_kit(&kit);
    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    expect_code("EventElapsedTime never recorded", cudaErrorInvalidResourceHandle,
                cudaEventElapsedTime(&took, begin, end));
    MUST(cudaEventRecord(begin, kit.stream));
    hold_stream(kit.stream);
    MUST(cudaEventRecord(end, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    expect_code("EventElapsedTime pending", cudaErrorNotReady, cudaEventElapsedTime(&took, begin, end));
    let_go();
    MUST(cudaStreamSynchronize(kit.stream));
    expect_code("EventElapsedTime", cudaSuccess, cudaEventElapsedTime(&took, begin, end));
    expect_true("and it is a time", took >= 0 && took < 600000);
    expect_code("EventElapsedTime without timing", cudaErrorInvalidResourceHandle,
                cudaEventElapsedTime(&took, begin, kit.event));
    MUST(cudaEventDestroy(begin));
    MUST(cudaEventDestroy(end));
}

static void nothing(void)
{
    struct kit kit;
    void *data = &kit;

    make_kit(&kit);
    expect_code("Malloc 0", cudaSuccess, cudaMalloc(&data, 0));
    expect_true("Malloc 0 gives NULL", data == NULL);
    expect_code("MallocFromPoolAsync 0", cudaSuccess, cudaMallocFromPoolAsync(&data, 0, kit.pool, kit.stream));
    expect_code("MallocHost 0", cudaSuccess, cudaMallocHost(&data, 0));
    expect_code("MallocManaged 0", cudaSuccess, cudaMallocManaged(&data, 0, cudaMemAttachGlobal));
    expect_code("Free NULL", cudaSuccess, cudaFree(NULL));
    expect_code("FreeHost NULL", cudaSuccess, cudaFreeHost(NULL));
    expect_code("FreeAsync NULL", cudaSuccess, cudaFreeAsync(NULL, kit.stream));
    expect_code("Memcpy 0 bytes", cudaSuccess, cudaMemcpy(kit.device_a, kit.pinned_a, 0, cudaMemcpyHostToDevice));
    expect_code("MemcpyAsync 0 bytes", cudaSuccess,
                cudaMemcpyAsync(kit.device_a, kit.pinned_a, 0, cudaMemcpyHostToDevice, kit.stream));
    expect_code("MemsetAsync 0 bytes", cudaSuccess, cudaMemsetAsync(kit.device_a, 0, 0, kit.stream));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("none of those touched a byte", 0xa1, kit.pinned_b, SIZE);
}

static void wrong_frees(void)
{
    struct kit kit;
    unsigned char *data;

    make_kit(&kit);
    expect_code("Free garbage", cudaErrorInvalidValue, cudaFree(garbage));
    expect_code("FreeHost garbage", cudaErrorInvalidValue, cudaFreeHost(garbage));
    expect_code("Free inner pointer", cudaErrorInvalidValue, cudaFree(kit.device_a + 256));

    MUST(cudaMalloc((void **)&data, SIZE));
    expect_code("FreeAsync of cudaMalloc memory", cudaSuccess, cudaFreeAsync(data, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_code("Free after that, synchronized", cudaErrorInvalidValue, cudaFree(data));

    MUST(cudaMallocFromPoolAsync((void **)&data, SIZE, kit.pool, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_code("Free of pool memory", cudaSuccess, cudaFree(data));
    expect_code("DeviceSynchronize after those", cudaSuccess, cudaDeviceSynchronize());
}

#if WITH_EMULATOR

/* The real runtime accepts both calls and crashes in a later synchronize. */
static void free_in_flight(void)
{
    struct kit kit;
    void *data;

    make_kit(&kit);
    MUST(cudaMallocFromPoolAsync(&data, SIZE, kit.pool, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_code("FreeAsync, to be followed by Free", cudaSuccess, cudaFreeAsync(data, kit.stream));
    cudaFree(data);
}

#endif

static void kinds(void)
{
    struct kit kit;
    unsigned char *small, *large;

    make_kit(&kit);
    MUST(cudaMemsetAsync(kit.device_a, 0xc3, SIZE, kit.stream));
    expect_code("kind H2D, device source", cudaSuccess,
                cudaMemcpyAsync(kit.device_b, kit.device_a, SIZE, cudaMemcpyHostToDevice, kit.stream));
    expect_code("kind D2H, pinned to pinned", cudaSuccess,
                cudaMemcpyAsync(kit.pinned_b, kit.pinned_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("kind D2H, pinned to pinned, copies", 0xa1, kit.pinned_b, SIZE);
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDefault, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("kind H2D, device source, copies", 0xc3, kit.pinned_b, SIZE);
    expect_code("kind D2D, host source", cudaSuccess,
                cudaMemcpyAsync(kit.device_a, kit.pinned_a, SIZE, cudaMemcpyDeviceToDevice, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("kind D2D, host source, copies", 0xa1, kit.pinned_b, SIZE);

    const size_t size = (size_t)2 << 20;
    MUST(cudaMalloc((void **)&small, size));
    MUST(cudaMallocHost((void **)&large, 2 * size));
    expect_code("beyond the end", cudaErrorInvalidValue,
                cudaMemcpyAsync(small, large, 2 * size, cudaMemcpyHostToDevice, kit.stream));
    expect_code("StreamSynchronize after those", cudaSuccess, cudaStreamSynchronize(kit.stream));
}

static void too_much(void)
{
    const size_t size = (size_t)1 << 50;
    struct kit kit;
    void *data = garbage;

    make_kit(&kit);
    expect_code("Malloc of 1 PiB", cudaErrorMemoryAllocation, cudaMalloc(&data, size));
    expect_code("MallocFromPoolAsync of 1 PiB", cudaErrorMemoryAllocation,
                cudaMallocFromPoolAsync(&data, size, kit.pool, kit.stream));
    expect_code("Malloc works again after those", cudaSuccess, cudaMalloc(&data, SIZE));
    expect_code("MallocFromPoolAsync works again after those", cudaSuccess,
                cudaMallocFromPoolAsync(&data, SIZE, kit.pool, kit.stream));
    expect_code("and so does StreamSynchronize", cudaSuccess, cudaStreamSynchronize(kit.stream));
}

static void registering(void)
{
    const size_t size = 1 << 16;
    struct kit kit;
    char *const base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *const closed = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED || closed == MAP_FAILED)
        abort();
    make_kit(&kit);
    memset(base, 1, size);
    expect_code("register [100,5000)", cudaSuccess, cudaHostRegister(base + 100, 4900, cudaHostRegisterDefault));
    expect_code("register [5000,9000) (shares a page)", cudaSuccess,
                cudaHostRegister(base + 5000, 4000, cudaHostRegisterDefault));
    expect_code("register same again", cudaErrorHostMemoryAlreadyRegistered,
                cudaHostRegister(base + 100, 4900, cudaHostRegisterDefault));
    expect_code("register around it", cudaErrorHostMemoryAlreadyRegistered,
                cudaHostRegister(base, size, cudaHostRegisterDefault));
    expect_code("unregister inner", cudaErrorInvalidValue, cudaHostUnregister(base + 1100));
    expect_code("unregister", cudaSuccess, cudaHostUnregister(base + 100));
    expect_code("unregister twice", cudaErrorHostMemoryNotRegistered, cudaHostUnregister(base + 100));
    expect_code("unregister 2nd", cudaSuccess, cudaHostUnregister(base + 5000));
    expect_code("unregister cudaMallocHost memory", cudaErrorInvalidValue, cudaHostUnregister(kit.pinned_a));
    expect_code("register 0 bytes", cudaErrorInvalidValue, cudaHostRegister(base, 0, cudaHostRegisterDefault));
    expect_code("register PROT_NONE", cudaErrorInvalidValue, cudaHostRegister(closed, size, cudaHostRegisterDefault));
    expect_code("register all of it, after that", cudaSuccess, cudaHostRegister(base, size, cudaHostRegisterDefault));
    expect_code("and unregister it", cudaSuccess, cudaHostUnregister(base));
}

/* Two adjacent registered ranges, and pageable memory behind them. */
static void across_registrations(void)
{
    struct kit kit;
    char *const base = mmap(NULL, 4 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *const border = base + SIZE;

    if (base == MAP_FAILED)
        abort();
    make_kit(&kit);
    expect_code("register a range", cudaSuccess, cudaHostRegister(base, SIZE, cudaHostRegisterDefault));
    expect_code("register the next", cudaSuccess, cudaHostRegister(border, SIZE, cudaHostRegisterDefault));
    expect_code("a copy from both", cudaErrorInvalidValue,
                cudaMemcpyAsync(kit.device_a, border - 100, 200, cudaMemcpyHostToDevice, kit.stream));
    expect_code("a copy to both", cudaErrorInvalidValue,
                cudaMemcpyAsync(border - 100, kit.device_a, 200, cudaMemcpyDeviceToHost, kit.stream));
    expect_code("a fill of both", cudaErrorInvalidValue, cudaMemsetAsync(border - 100, 1, 200, kit.stream));
    expect_code("a copy from one and from pageable memory behind it", cudaErrorInvalidValue,
                cudaMemcpyAsync(kit.device_a, border + SIZE - 100, 200, cudaMemcpyHostToDevice, kit.stream));
    expect_code("a copy from one up to the border", cudaSuccess,
                cudaMemcpyAsync(kit.device_a, border - 100, 100, cudaMemcpyHostToDevice, kit.stream));
    expect_code("and from there", cudaSuccess,
                cudaMemcpyAsync(kit.device_a + 100, border, 100, cudaMemcpyHostToDevice, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
}

#if WITH_EMULATOR

/* Emulator only: seen on real machines, but it needs that much memory there. */
static void registering_too_much(void)
{
    const size_t limit = (size_t)1 << 39;
    struct kit kit;
    char *const base = mmap(NULL, limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED)
        abort();
    make_kit(&kit);
    expect_code("register 512 GiB", cudaErrorMemoryAllocation, cudaHostRegister(base, limit, cudaHostRegisterDefault));
    expect_code("register a page less", cudaSuccess, cudaHostRegister(base, limit - 4096, cudaHostRegisterDefault));
}

#endif

/* ---- Devices ---- */

static void *ask_device(void *device)
{
    if (cudaGetDevice(device) != cudaSuccess)
        *(int *)device = -1;
    return NULL;
}

static int device_of_new_thread(void)
{
    pthread_t thread;
    int device = -1;

    if (pthread_create(&thread, NULL, ask_device, &device) != 0 || pthread_join(thread, NULL) != 0)
        abort();
    return device;
}

static bool is_bus_id(const char *id)
{
    static const char shape[] = "xxxx:xx:xx.x";

    if (strlen(id) != strlen(shape))
        return false;
    for (size_t i = 0; shape[i]; i++)
        if (shape[i] == 'x' ? !isxdigit((unsigned char)id[i]) : id[i] != shape[i])
            return false;
    return true;
}

static void devices(void)
{
    static const struct {
        const char *fact;
        enum cudaDeviceAttr attribute;
        int value;
    } attributes[] = {
        {"attribute MemoryPoolsSupported", cudaDevAttrMemoryPoolsSupported, 1},
        {"attribute UnifiedAddressing", cudaDevAttrUnifiedAddressing, 1},
        {"attribute Integrated", cudaDevAttrIntegrated, 0},
        {"attribute CanMapHostMemory", cudaDevAttrCanMapHostMemory, 1},
        {"attribute ManagedMemory", cudaDevAttrManagedMemory, 1},
        {"attribute ConcurrentManagedAccess", cudaDevAttrConcurrentManagedAccess, 1},
        {"attribute HostRegisterSupported", cudaDevAttrHostRegisterSupported, 1},
        {"attribute CanUseHostPointerForRegisteredMem", cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    };
    const int count = device_count();
    char id[32];
    size_t free_bytes, total;
    int value = -1;

    expect_code("SetDevice n", cudaErrorInvalidDevice, cudaSetDevice(count));
    expect_code("SetDevice -1", cudaErrorInvalidDevice, cudaSetDevice(-1));
    MUST(cudaGetDevice(&value));
    expect_value("the current device after those", 0, value);
    expect_value("the current device of a new thread", 0, device_of_new_thread());
    expect_code("CanAccessPeer self", cudaSuccess, cudaDeviceCanAccessPeer(&value, 0, 0));

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        MUST(cudaDeviceGetAttribute(&value, attributes[i].attribute, 0));
        expect_value(attributes[i].fact, attributes[i].value, value);
    }
    expect_code("an attribute that the driver does not know", cudaErrorInvalidValue,
                cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)9999, 0));
    expect_code("an attribute of device n", cudaErrorInvalidDevice,
                cudaDeviceGetAttribute(&value, cudaDevAttrIntegrated, count));

    MUST(cudaRuntimeGetVersion(&value));
    expect_value("RuntimeGetVersion", CUDART_VERSION, value);
    MUST(cudaDriverGetVersion(&value));
    expect_true("DriverGetVersion is not below the runtime's major version", value / 1000 >= CUDART_VERSION / 1000);

    MUST(cudaDeviceGetPCIBusId(id, sizeof id, 0));
    expect_true("DeviceGetPCIBusId", is_bus_id(id));
    MUST(cudaMemGetInfo(&free_bytes, &total));
    expect_true("MemGetInfo", free_bytes > 0 && free_bytes <= total);
}

/* Compares the struct with the attributes. */
static void properties(void)
{
    static const struct {
        const char *fact;
        size_t member;
        enum cudaDeviceAttr attribute;
    } ints[] = {
        {"property major", offsetof(struct cudaDeviceProp, major), cudaDevAttrComputeCapabilityMajor},
        {"property minor", offsetof(struct cudaDeviceProp, minor), cudaDevAttrComputeCapabilityMinor},
        {"property multiProcessorCount", offsetof(struct cudaDeviceProp, multiProcessorCount),
         cudaDevAttrMultiProcessorCount},
        {"property warpSize", offsetof(struct cudaDeviceProp, warpSize), cudaDevAttrWarpSize},
        {"property maxThreadsPerBlock", offsetof(struct cudaDeviceProp, maxThreadsPerBlock),
         cudaDevAttrMaxThreadsPerBlock},
        {"property pciBusID", offsetof(struct cudaDeviceProp, pciBusID), cudaDevAttrPciBusId},
        {"property integrated", offsetof(struct cudaDeviceProp, integrated), cudaDevAttrIntegrated},
        {"property asyncEngineCount", offsetof(struct cudaDeviceProp, asyncEngineCount), cudaDevAttrAsyncEngineCount},
        {"property managedMemory", offsetof(struct cudaDeviceProp, managedMemory), cudaDevAttrManagedMemory},
        {"property concurrentManagedAccess", offsetof(struct cudaDeviceProp, concurrentManagedAccess),
         cudaDevAttrConcurrentManagedAccess},
    };
    struct cudaDeviceProp all;

    memset(&all, 0xEE, sizeof all);
    expect_code("GetDeviceProperties", cudaSuccess, cudaGetDeviceProperties(&all, 0));
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        int value = -1, property;

        MUST(cudaDeviceGetAttribute(&value, ints[i].attribute, 0));
        memcpy(&property, (const char *)&all + ints[i].member, sizeof property);
        expect_value(ints[i].fact, value, property);
    }
    expect_true("property name", memchr(all.name, '\0', sizeof all.name) != NULL && all.name[0] != '\0');
    expect_true("property totalGlobalMem", all.totalGlobalMem > 0);
    expect_code("GetDeviceProperties of device n", cudaErrorInvalidDevice,
                cudaGetDeviceProperties(&all, device_count()));
    expect_code("GetDeviceProperties of device -1", cudaErrorInvalidDevice, cudaGetDeviceProperties(&all, -1));
    expect_code("GetDeviceProperties to NULL", cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0));
}

static void two_devices(void)
{
    cudaStream_t zero, one;
    cudaEvent_t of_zero, of_one;
    void *data;
    int value = -1, possible;

    MUST(cudaStreamCreateWithFlags(&zero, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&of_zero, cudaEventDisableTiming));
    const cudaMemPool_t pool = make_pool(0);
    MUST(cudaSetDevice(1));
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&of_one, cudaEventDisableTiming));

    expect_value("the current device of a new thread, after SetDevice 1", 0, device_of_new_thread());
    expect_code("EventRecord, event of device 1, stream of device 0", cudaErrorInvalidResourceHandle,
                cudaEventRecord(of_one, zero));
    expect_code("EventRecord on the legacy stream of the current device", cudaSuccess, cudaEventRecord(of_one, NULL));
    MUST(cudaEventRecord(of_zero, zero));
    expect_code("WaitEvent across devices", cudaSuccess, cudaStreamWaitEvent(one, of_zero, 0));
    expect_code("MallocFromPool dev 0, legacy of dev 1", cudaSuccess, cudaMallocFromPoolAsync(&data, SIZE, pool, NULL));
    MUST(cudaGetDevice(&value));
    expect_value("the current device after those", 1, value);
    MUST(cudaStreamGetDevice(zero, &value));
    expect_value("StreamGetDevice of device 0", 0, value);
    MUST(cudaStreamGetDevice(one, &value));
    expect_value("StreamGetDevice of device 1", 1, value);

    MUST(cudaSetDevice(0));
    MUST(cudaDeviceCanAccessPeer(&possible, 0, 1));
    if (possible) {
        expect_code("DeviceEnablePeerAccess", cudaSuccess, cudaDeviceEnablePeerAccess(1, 0));
        expect_code("DeviceEnablePeerAccess again", cudaErrorPeerAccessAlreadyEnabled,
                    cudaDeviceEnablePeerAccess(1, 0));
    } else {
        skip("DeviceEnablePeerAccess", "no peer access between devices 0 and 1");
    }
}

#if WITH_EMULATOR

static void contexts(void)
{
    int value;

    MUST(cudaGetDeviceCount(&value));
    MUST(cudaGetDevice(&value));
    MUST(cudaDriverGetVersion(&value));
    MUST(cudaRuntimeGetVersion(&value));
    MUST(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolsSupported, 0));
    MUST(cudaDeviceCanAccessPeer(&value, 0, 1));
    expect_true("asking creates no context", !emu_has_context(0) && !emu_has_context(1));
    MUST(cudaSetDevice(1));
    MUST(cudaFree(NULL));
    expect_true("SetDevice and Free NULL create one", emu_has_context(1));
    expect_true("but not on another device", !emu_has_context(0));
}

#endif

/* ---- Handles ---- */

static void recycling(void)
{
    enum { TRIES = 100 };
    struct kit kit;
    cudaStream_t stream, last = NULL;
    unsigned long long ids[TRIES + 1];
    int same = 0, repeated = 0;

    make_kit(&kit);
    hold_stream(kit.stream);
    MUST(cudaEventRecord(kit.event, kit.stream));
    for (int i = 0; i <= TRIES; i++) {
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        MUST(cudaStreamGetId(stream, &ids[i]));
        if (i > 0)
            same += stream == last;
        for (int j = 0; j < i; j++)
            repeated += ids[i] == ids[j];
        MUST(cudaStreamWaitEvent(stream, kit.event, 0));
        MUST(cudaMemsetAsync((char *)kit.device_a + i, i, 1, stream)); /* no two of them are ordered */
        MUST(cudaStreamDestroy(stream));
        last = stream;
    }
    /* All of them on one H200, 99 on a machine with two. So the fact asserts only that it is frequent. */
    expect_true("a destroyed stream's handle is the next stream's, in 90 of 100 tries or more", same >= 90);
    expect_value("ids of streams never repeat", 0, repeated);
    expect_code("all that with work pending", cudaErrorNotReady, cudaEventQuery(kit.event));
    let_go();
    expect_code("DeviceSynchronize after that", cudaSuccess, cudaDeviceSynchronize());
}

static void stream_facts(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    cudaStream_t blocking, with_priority;
    unsigned flags = UINT_MAX;
    struct kit kit;
    int device = -1;

    make_kit(&kit);
    MUST(cudaStreamCreate(&blocking));
    expect_code("StreamCreateWithPriority", cudaSuccess,
                cudaStreamCreateWithPriority(&with_priority, cudaStreamNonBlocking, 0));
    MUST(cudaStreamGetFlags(blocking, &flags));
    expect_value("StreamGetFlags, blocking", cudaStreamDefault, flags);
    MUST(cudaStreamGetFlags(kit.stream, &flags));
    expect_value("StreamGetFlags, non-blocking", cudaStreamNonBlocking, flags);
    MUST(cudaStreamGetFlags(with_priority, &flags));
    expect_value("StreamGetFlags, with priority", cudaStreamNonBlocking, flags);
    MUST(cudaStreamGetDevice(kit.stream, &device));
    expect_value("StreamGetDevice", 0, device);
    MUST(cudaStreamIsCapturing(kit.stream, &status));
    expect_value("StreamIsCapturing", cudaStreamCaptureStatusNone, status);
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    expect_value("a thread's capture mode is global at first", cudaStreamCaptureModeGlobal, mode);
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    expect_value("and was exchanged", cudaStreamCaptureModeRelaxed, mode);
}

/* ---- Fork ---- */

/* Passes a child's results to the parent. The child's own lines would not be counted if it crashed. */
struct found {
    bool bytes_readable;
    cudaError_t query, get_device, free_host;
};

static void forked(void)
{
    struct found *const found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct kit kit;
    int status, device;

    if (found == MAP_FAILED)
        abort();
    make_kit(&kit);
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    const pid_t child = fork();
    if (child == 0) {
        alarm(200);
        found->bytes_readable = same_bytes(0xa1, kit.pinned_a, SIZE);
        found->query = cudaEventQuery(kit.event);
        found->get_device = cudaGetDevice(&device);
        found->free_host = cudaFreeHost(kit.pinned_a);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    expect_value("in a forked child nothing crashes", 0, status);
    expect_true("in a forked child memory from cudaMallocHost reads as before", found->bytes_readable);
    expect_value("in a forked child EventQuery", cudaSuccess, found->query);
    expect_value("in a forked child GetDevice", cudaErrorInitializationError, found->get_device);
    expect_value("in a forked child FreeHost", cudaErrorInitializationError, found->free_host);
    expect_code("the parent goes on", cudaSuccess, cudaDeviceSynchronize());
}

static void forked_slab(void)
{
    const size_t size = (size_t)2 << 20;
    unsigned char *const mapped = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *const back = malloc(size);
    unsigned char *device;
    int written[2], status;
    char byte = 0;

    if (mapped == MAP_FAILED || !back || pipe(written) != 0)
        abort();
    unsigned char *const slab = (unsigned char *)(((uintptr_t)mapped + size - 1) / size * size);
    (void)madvise(slab, size, MADV_HUGEPAGE);
    memset(slab, 1, size);
    MUST(cudaHostRegister(slab, size, cudaHostRegisterDefault));
    MUST(cudaMalloc((void **)&device, size));
    MUST(cudaMemcpy(device, slab, size, cudaMemcpyHostToDevice));

    const pid_t child = fork();
    if (child == 0) {
        alarm(200);
        if (read(written[0], &byte, 1) != 1)
            _exit(2);
        _exit(same_bytes(1, slab, size) ? 0 : 1);
    }
    memset(slab, 2, size);
    if (child < 0 || write(written[1], &byte, 1) != 1 || waitpid(child, &status, 0) != child)
        abort();
    expect_value("a forked child keeps its own copy of a registered slab", 0, status);
    expect_code("after a fork, a copy from the slab", cudaSuccess,
                cudaMemcpy(device, slab, size, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(back, device, size, cudaMemcpyDeviceToHost));
    expect_bytes("reads what the parent wrote", 2, back, size);
    free(back);
}

const struct section call_sections[] = {
    {"pending work", pending, 1, 0},
    {"times of events", times, 1, 0},
    {"nothing", nothing, 1, 0},
    {"wrong frees", wrong_frees, 1, 0},
#if WITH_EMULATOR
    {"FreeAsync followed at once by Free", free_in_flight, 1, SIGABRT},
    {"contexts", contexts, 2, 0},
#endif
    {"kinds of copies", kinds, 1, 0},
    {"too much memory", too_much, 1, 0},
    {"registering", registering, 1, 0},
    {"copies across registrations", across_registrations, 1, 0},
#if WITH_EMULATOR
    {"registering too much", registering_too_much, 1, 0},
#endif
    {"devices", devices, 1, 0},
    {"properties", properties, 1, 0},
    {"two devices", two_devices, 2, 0},
    {"recycled handles", recycling, 1, 0},
    {"streams", stream_facts, 1, 0},
    {"fork", forked, 1, 0},
    {"fork and a registered slab", forked_slab, 1, 0},
    {NULL, NULL, 0, 0},
};
