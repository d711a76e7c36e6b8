/* The life of an object: create, fill on the host, ask for the device's pointer, destroy. */
#include "measure.h"
#include "memory.h"
#include "synced_mem.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
    size_t size;
    char *contents;
    void *device; /* for the bare copy */
    char *pinned;
    char *own; /* the library's page-locked memory */
    cudaStream_t stream;
};

/* The fill is taken out. */
static double by_library(void *state)
{
    const struct state *const on = state;
    synced_mem *mem;
    const double begin = seconds_now();
    must(synced_mem_create(&mem, on->size, NULL) == SYNCED_MEM_OK, "synced_mem_create");
    void *const host = synced_mem_overwrite_cpu_data(mem);
    const double filling = seconds_now();
    must(host != NULL, synced_mem_last_error_message());
    memcpy(host, on->contents, on->size);
    const double filled = seconds_now();
    must(synced_mem_gpu_data(mem) != NULL, synced_mem_last_error_message());
    must(synced_mem_release(mem) == SYNCED_MEM_OK, synced_mem_last_error_message());
    return seconds_now() - filled + (filling - begin);
}

/* What Caffe's class would call: page-locked memory, zeroed at the first access; device memory; a copy; and both
 * freed. */
static double as_caffe(void *state)
{
    const struct state *const on = state;
    void *host;
    void *device;
    const double begin = seconds_now();
    must(cudaMallocHost(&host, on->size) == cudaSuccess, "cudaMallocHost");
    memset(host, 0, on->size);
    const double filling = seconds_now();
    memcpy(host, on->contents, on->size);
    const double filled = seconds_now();
    must(cudaMalloc(&device, on->size) == cudaSuccess, "cudaMalloc");
    must(cudaMemcpy(device, host, on->size, cudaMemcpyDefault) == cudaSuccess, "cudaMemcpy");
    must(cudaFreeHost(host) == cudaSuccess, "cudaFreeHost");
    must(cudaFree(device) == cudaSuccess, "cudaFree");
    return seconds_now() - filled + (filling - begin);
}

static double bare_copy_from(const struct state *on, char *from)
{
    memcpy(from, on->contents, on->size);
    const double begin = seconds_now();
    must(cudaMemcpyAsync(on->device, from, on->size, cudaMemcpyHostToDevice, on->stream) == cudaSuccess,
         "cudaMemcpyAsync");
    must(cudaStreamSynchronize(on->stream) == cudaSuccess, "cudaStreamSynchronize");
    return seconds_now() - begin;
}

static double bare_copy(void *state)
{
    const struct state *const on = state;
    return bare_copy_from(on, on->pinned);
}

static double bare_copy_of_own(void *state)
{
    const struct state *const on = state;
    return bare_copy_from(on, on->own);
}

void measure_life(size_t largest)
{
    static const struct way ways[] = {{"synced_mem", by_library},
                                      {"the calls of Caffe's class", as_caffe},
                                      {"the copy alone", bare_copy},
                                      {"... from the library's memory", bare_copy_of_own}};
    static const size_t sizes[] = {4096, 1 << 20, 16 << 20, 256 << 20};
    struct result results[MAX_WAYS];
    print_heading("Create, overwrite on the host, gpu_data, destroy; without the fill", ways, 4, "us");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= largest; i++) {
        char what[32];
        struct state on = {.size = sizes[i], .contents = malloc(sizes[i])};
        must(on.contents != NULL, "no memory");
        memset(on.contents, 0x5a, on.size);
        must(cudaMalloc(&on.device, on.size) == cudaSuccess, "cudaMalloc");
        must(cudaMallocHost((void **)&on.pinned, on.size) == cudaSuccess, "cudaMallocHost");
        must(cudaStreamCreateWithFlags(&on.stream, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreateWithFlags");
        synced_mem *source;
        must(synced_mem_create(&source, on.size, NULL) == SYNCED_MEM_OK, "synced_mem_create");
        on.own = synced_mem_overwrite_cpu_data(source);
        must(on.own != NULL, synced_mem_last_error_message());
        compare(ways, 4, sizes[i] > (16 << 20) ? 7 : 21, &on, results);
        (void)snprintf(what, sizeof what, "%zu", sizes[i]);
        print_row(what, results, 4, 1e-6);
        (void)printf("%-22s more than the copy: %.2f us\n", "", (results[0].median - results[2].median) * 1e6);
        must(synced_mem_release(source) == SYNCED_MEM_OK, "synced_mem_release");
        (void)cudaStreamDestroy(on.stream);
        (void)cudaFreeHost(on.pinned);
        (void)cudaFree(on.device);
        free(on.contents);
    }
}
