/* Device memory that has been used before, on the stream that asks for it. */
#include "measure.h"
#include "memory.h"
#include "synced_mem.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

enum { COUNT = 64 };

struct state {
    size_t size;
    cudaStream_t stream;
    cudaMemPool_t pool;
};

static double by_library(void *state)
{
    const struct state *const on = state;
    synced_mem *mems[COUNT];
    for (int i = 0; i < COUNT; i++)
        must(synced_mem_create(&mems[i], on->size, NULL) == SYNCED_MEM_OK, "synced_mem_create");
    const double begin = seconds_now();
    for (int i = 0; i < COUNT; i++)
        must(synced_mem_overwrite_gpu_data_on(mems[i], on->stream) != NULL, "synced_mem_overwrite_gpu_data_on");
    const double end = seconds_now();
    for (int i = 0; i < COUNT; i++)
        must(synced_mem_release(mems[i]) == SYNCED_MEM_OK, "synced_mem_release");
    must(cudaStreamSynchronize(on->stream) == cudaSuccess, "cudaStreamSynchronize");
    return (end - begin) / COUNT;
}

static double by_library_release(void *state)
{
    const struct state *const on = state;
    synced_mem *mems[COUNT];
    for (int i = 0; i < COUNT; i++) {
        must(synced_mem_create(&mems[i], on->size, NULL) == SYNCED_MEM_OK, "synced_mem_create");
        must(synced_mem_overwrite_gpu_data_on(mems[i], on->stream) != NULL, "synced_mem_overwrite_gpu_data_on");
    }
    const double begin = seconds_now();
    for (int i = 0; i < COUNT; i++)
        must(synced_mem_release(mems[i]) == SYNCED_MEM_OK, "synced_mem_release");
    const double end = seconds_now();
    must(cudaStreamSynchronize(on->stream) == cudaSuccess, "cudaStreamSynchronize");
    return (end - begin) / COUNT;
}

static double by_pool(void *state)
{
    const struct state *const on = state;
    void *data[COUNT];
    const double begin = seconds_now();
    for (int i = 0; i < COUNT; i++)
        must(cudaMallocFromPoolAsync(&data[i], on->size, on->pool, on->stream) == cudaSuccess,
             "cudaMallocFromPoolAsync");
    const double end = seconds_now();
    for (int i = 0; i < COUNT; i++)
        must(cudaFreeAsync(data[i], on->stream) == cudaSuccess, "cudaFreeAsync");
    must(cudaStreamSynchronize(on->stream) == cudaSuccess, "cudaStreamSynchronize");
    return (end - begin) / COUNT;
}

static double by_malloc(void *state)
{
    const struct state *const on = state;
    enum { FEW = 8 };
    void *data[FEW];
    const double begin = seconds_now();
    for (int i = 0; i < FEW; i++)
        must(cudaMalloc(&data[i], on->size) == cudaSuccess, "cudaMalloc");
    const double end = seconds_now();
    for (int i = 0; i < FEW; i++)
        must(cudaFree(data[i]) == cudaSuccess, "cudaFree");
    return (end - begin) / FEW;
}

void measure_device_allocation(size_t largest)
{
    static const struct way ways[] = {{"synced_mem", by_library},
                                      {"cudaMallocFromPoolAsync", by_pool},
                                      {"cudaMalloc", by_malloc},
                                      {"synced_mem_release", by_library_release}};
    static const size_t sizes[] = {4096, 65536, 1 << 20, 16 << 20};
    struct result results[MAX_WAYS];
    struct state on;
    uint64_t keep = UINT64_MAX;
    const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                                .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    must(cudaStreamCreateWithFlags(&on.stream, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreateWithFlags");
    must(cudaMemPoolCreate(&on.pool, &properties) == cudaSuccess, "cudaMemPoolCreate");
    must(cudaMemPoolSetAttribute(on.pool, cudaMemPoolAttrReleaseThreshold, &keep) == cudaSuccess, "threshold");
    print_heading("Device memory, used before, on the stream that asks", ways, 4, "us");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] * COUNT <= largest; i++) {
        char what[32];
        on.size = sizes[i];
        compare(ways, 4, 31, &on, results);
        (void)snprintf(what, sizeof what, "%zu", sizes[i]);
        print_row(what, results, 4, 1e-6);
    }
    must(synced_mem_stream_done(on.stream) == SYNCED_MEM_OK, "synced_mem_stream_done");
    (void)cudaMemPoolDestroy(on.pool);
    (void)cudaStreamDestroy(on.stream);
}
