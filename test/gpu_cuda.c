/* The real runtime. What a kernel would do is done by copies, so that no device code has to be built. */
#include "gpu.h"

#include "pattern.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t code_ = (call);                                                                              \
        ck_assert_msg(code_ == cudaSuccess, "%s: %s", #call, cudaGetErrorName(code_));                                 \
    } while (0)

bool gpu_expected(void)
{
    return true;
}

int gpu_schedules(void)
{
    return 1;
}

int gpu_start(unsigned schedule)
{
    int count = 0;
    (void)schedule;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void gpu_check_nothing_left(void)
{
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

/* ---- Kernels ---- */

/* The copy has read the pageable memory when the call returns. */
bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    void *const bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    pattern_write(bytes, size, pattern);
    const cudaError_t code = cudaMemcpyAsync(data, bytes, size, cudaMemcpyHostToDevice, stream);
    free(bytes);
    if (code != cudaSuccess)
        (void)cudaGetLastError();
    return code == cudaSuccess;
}

void gpu_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    ck_assert_msg(gpu_try_fill(data, size, pattern, stream), "a copy was not queued");
}

void gpu_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    MUST(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream));
}

static void CUDART_CB take_a_while(void *unused)
{
    (void)unused;
    (void)usleep(20000);
}

void gpu_delay(synced_mem_stream stream)
{
    MUST(cudaLaunchHostFunc(stream, take_a_while, NULL));
}

void gpu_read(void *to, const void *from, size_t size)
{
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost));
}

void gpu_note_host_read(const void *data, size_t size)
{
    (void)data, (void)size;
}

void gpu_note_host_write(const void *data, size_t size)
{
    (void)data, (void)size;
}
