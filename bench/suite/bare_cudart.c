/* CUDA's runtime, or if EMULATED is 1 the emulated one. */
#include "bare.h"

#include "measure.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return;
    char text[256];
    (void)snprintf(text, sizeof text, "%s: %s", call, cudaGetErrorString(error));
    must(false, text);
}

bool bare_start(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 && cudaSetDevice(0) == cudaSuccess &&
           cudaFree(NULL) == cudaSuccess;
}

bool bare_is_emulated(void)
{
    return EMULATED;
}

/* ---- Memory ---- */

void *bare_host_alloc(size_t size)
{
    void *data = NULL;
    check(cudaMallocHost(&data, size), "cudaMallocHost");
    return data;
}

void bare_host_free(void *data)
{
    check(cudaFreeHost(data), "cudaFreeHost");
}

void bare_register(void *data, size_t size)
{
    check(cudaHostRegister(data, size, cudaHostRegisterPortable), "cudaHostRegister");
}

void bare_unregister(void *data)
{
    check(cudaHostUnregister(data), "cudaHostUnregister");
}

void *bare_device_alloc(size_t size)
{
    void *data = NULL;
    check(cudaMalloc(&data, size), "cudaMalloc");
    return data;
}

void *bare_device_alloc_on(int device, size_t size)
{
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
    void *const data = bare_device_alloc(size);
    check(cudaSetDevice(current), "cudaSetDevice");
    return data;
}

void bare_device_free(void *data)
{
    check(cudaFree(data), "cudaFree");
}

int bare_device_of(const void *memory)
{
    struct cudaPointerAttributes attributes;
    check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
    return attributes.device;
}

size_t bare_device_room(void)
{
    size_t room = 0;
    size_t total = 0;
    check(cudaMemGetInfo(&room, &total), "cudaMemGetInfo");
    return room;
}

void *bare_managed_alloc(size_t size)
{
    void *data = NULL;
    check(cudaMallocManaged(&data, size, cudaMemAttachGlobal), "cudaMallocManaged");
    return data;
}

/* CUDA 13 names a location by a struct, earlier versions by a device's number. */
void bare_prefetch(void *managed, size_t size, bool to_device, synced_mem_stream stream)
{
#if CUDART_VERSION >= 13000
    const struct cudaMemLocation place = {.type = to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost};
    check(cudaMemPrefetchAsync(managed, size, place, 0, stream), "cudaMemPrefetchAsync");
#else
    check(cudaMemPrefetchAsync(managed, size, to_device ? 0 : cudaCpuDeviceId, stream), "cudaMemPrefetchAsync");
#endif
}

/* ---- Streams ---- */

synced_mem_stream bare_stream_create(void)
{
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
}

synced_mem_stream bare_stream_create_on(int device)
{
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
    const synced_mem_stream stream = bare_stream_create();
    check(cudaSetDevice(current), "cudaSetDevice");
    return stream;
}

void bare_stream_destroy(synced_mem_stream stream)
{
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void bare_wait(synced_mem_stream stream)
{
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void bare_wait_all(void)
{
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/* ---- Events ---- */

struct bare_event *bare_event_create(void)
{
    cudaEvent_t event;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return (struct bare_event *)event;
}

void bare_event_destroy(struct bare_event *event)
{
    check(cudaEventDestroy((cudaEvent_t)event), "cudaEventDestroy");
}

void bare_event_record(struct bare_event *event, synced_mem_stream stream)
{
    check(cudaEventRecord((cudaEvent_t)event, stream), "cudaEventRecord");
}

void bare_event_wait(struct bare_event *event, synced_mem_stream stream)
{
    check(cudaStreamWaitEvent(stream, (cudaEvent_t)event, 0), "cudaStreamWaitEvent");
}

void bare_event_wait_here(struct bare_event *event)
{
    check(cudaEventSynchronize((cudaEvent_t)event), "cudaEventSynchronize");
}

bool bare_event_is_done(struct bare_event *event)
{
    const cudaError_t answer = cudaEventQuery((cudaEvent_t)event);
    if (answer != cudaErrorNotReady)
        check(answer, "cudaEventQuery");
    return answer == cudaSuccess;
}

/* ---- Copies ---- */

void bare_copy_up(void *device, const void *host, size_t size)
{
    check(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void bare_copy_down(void *host, const void *device, size_t size)
{
    check(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void bare_queue_up(void *device, const void *host, size_t size, synced_mem_stream stream)
{
    check(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

void bare_queue_down(void *host, const void *device, size_t size, synced_mem_stream stream)
{
    check(cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
}

void bare_queue_across(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
}

void bare_queue_peer(void *to, int to_device, const void *from, int from_device, size_t size, synced_mem_stream stream)
{
    check(cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream), "cudaMemcpyPeerAsync");
}

static void let_use(int device, int peer)
{
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, device, peer), "cudaDeviceCanAccessPeer");
    check(cudaSetDevice(device), "cudaSetDevice");
    if (possible)
        check(cudaDeviceEnablePeerAccess(peer, 0), "cudaDeviceEnablePeerAccess");
}

void bare_let_reach(int device, int peer)
{
    let_use(peer, device);
    let_use(device, peer);
}

#if CUDART_VERSION >= 12080
bool bare_has_batches(void)
{
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    return driver >= 12080;
}

/* CUDA 12 has one more argument, and other types. void * converts to each of them. */
void bare_queue_batch(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                      synced_mem_stream stream)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;
#if CUDART_VERSION >= 13000
    check(cudaMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream), "cudaMemcpyBatchAsync");
#else
    size_t failed;
    check(cudaMemcpyBatchAsync((void *)to, (void *)from, (void *)sizes, count, &attributes, &first, 1, &failed, stream),
          "cudaMemcpyBatchAsync");
#endif
}
#else
bool bare_has_batches(void)
{
    return false;
}

void bare_queue_batch(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                      synced_mem_stream stream)
{
    (void)to, (void)from, (void)sizes, (void)count, (void)stream;
    must(false, "a batch of copies before CUDA 12.8");
}
#endif

void bare_queue_fill(void *device, int byte, size_t size, synced_mem_stream stream)
{
    check(cudaMemsetAsync(device, byte, size, stream), "cudaMemsetAsync");
}

/* ---- A pool ---- */

struct bare_pool *bare_pool_create(void)
{
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;
    const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                                .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
    return (struct bare_pool *)pool;
}

void bare_pool_destroy(struct bare_pool *pool)
{
    check(cudaMemPoolDestroy((cudaMemPool_t)pool), "cudaMemPoolDestroy");
}

void *bare_pool_alloc(struct bare_pool *pool, size_t size, synced_mem_stream stream)
{
    void *data = NULL;
    check(cudaMallocFromPoolAsync(&data, size, (cudaMemPool_t)pool, stream), "cudaMallocFromPoolAsync");
    return data;
}

void bare_pool_free(void *data, synced_mem_stream stream)
{
    check(cudaFreeAsync(data, stream), "cudaFreeAsync");
}
