/* The part of the tests' GPU functions that is the same on the real and the emulated CUDA runtime. */
#include "gpu_cudart.h"

#include "gpu.h"

#include <semaphore.h>

bool gpu_expected(void)
{
    return true;
}

int gpu_current_device(void)
{
    int device = -1;
    MUST(cudaGetDevice(&device));
    return device;
}

int gpu_find_current_device(void)
{
    int device = -1;
    for (int tries = 0; tries < 2 && cudaGetDevice(&device) != cudaSuccess; tries++)
        (void)cudaGetLastError();
    return device;
}

void gpu_make_current(int device)
{
    MUST(cudaSetDevice(device));
}

static void *alloc_on(int device, size_t size, bool managed)
{
    const int before = gpu_current_device();
    void *data = NULL;
    gpu_make_current(device);
    if (managed)
        MUST(cudaMallocManaged(&data, size, cudaMemAttachGlobal));
    else
        MUST(cudaMalloc(&data, size));
    gpu_make_current(before);
    return data;
}

void *gpu_alloc(int device, size_t size)
{
    return alloc_on(device, size, false);
}

void *gpu_managed_alloc(int device, size_t size)
{
    return alloc_on(device, size, true);
}

void gpu_free(void *data)
{
    MUST(cudaFree(data));
}

void *gpu_pinned_alloc(size_t size)
{
    void *data = NULL;
    MUST(cudaMallocHost(&data, size));
    return data;
}

void gpu_pinned_free(void *data)
{
    MUST(cudaFreeHost(data));
}

void gpu_register(void *data, size_t size)
{
    MUST(cudaHostRegister(data, size, cudaHostRegisterDefault));
}

void gpu_unregister(void *data)
{
    MUST(cudaHostUnregister(data));
}

void gpu_unregister_if_registered(void *data)
{
    if (cudaHostUnregister(data) != cudaSuccess)
        (void)cudaGetLastError();
}

synced_mem_stream gpu_stream_create(int device, bool blocking)
{
    const int before = gpu_current_device();
    cudaStream_t stream = NULL;
    gpu_make_current(device);
    MUST(cudaStreamCreateWithFlags(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
    gpu_make_current(before);
    return stream;
}

void gpu_stream_destroy(synced_mem_stream stream)
{
    MUST(cudaStreamDestroy(stream));
}

void gpu_stream_sync(synced_mem_stream stream)
{
    MUST(cudaStreamSynchronize(stream));
}

bool gpu_stream_is_idle(synced_mem_stream stream)
{
    return cudaStreamQuery(stream) == cudaSuccess;
}

bool gpu_has_per_thread_stream(void)
{
    const cudaError_t code = cudaStreamSynchronize(cudaStreamPerThread);
    (void)cudaGetLastError();
    return code == cudaSuccess;
}

bool gpu_has_stream_ids(void)
{
    return CUDART_VERSION >= 12000;
}

void gpu_sync_device(int device)
{
    const int before = gpu_current_device();
    gpu_make_current(device);
    MUST(cudaDeviceSynchronize());
    gpu_make_current(before);
}

/* ---- Kernels ---- */

void gpu_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    ck_assert_msg(gpu_try_fill(data, size, pattern, stream), "the runtime took no work");
}

void gpu_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    ck_assert_msg(gpu_try_copy(to, from, size, stream), "the runtime took no work");
}

void gpu_copy_to_host(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    MUST(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, stream));
}

static sem_t gate;
static bool held;

static void CUDART_CB wait_at_the_gate(void *unused)
{
    (void)unused;
    while (sem_wait(&gate) != 0)
        continue;
}

void gpu_hold(synced_mem_stream stream)
{
    ck_assert_int_eq(sem_init(&gate, 0, 0), 0);
    MUST(cudaLaunchHostFunc(stream, wait_at_the_gate, NULL));
    held = true;
}

void gpu_unhold(void)
{
    ck_assert_int_eq(sem_post(&gate), 0);
    held = false;
}

bool gpu_is_held(void)
{
    return held;
}
