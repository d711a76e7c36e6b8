/* The real runtime. What a kernel would do is done by copies, so that no device code has to be built. */
#include "gpu.h"

#include "gpu_cudart.h"

#include "pattern.h"

#include <stdlib.h>
#include <unistd.h>

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

bool gpu_try_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    const cudaError_t code = cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    if (code != cudaSuccess)
        (void)cudaGetLastError();
    return code == cudaSuccess;
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

unsigned gpu_calls(const char *call)
{
    (void)call;
    return 0;
}

size_t gpu_unfinished(void)
{
    return 0;
}

void gpu_note_host_read(const void *data, size_t size)
{
    (void)data, (void)size;
}

void gpu_note_host_write(const void *data, size_t size)
{
    (void)data, (void)size;
}
