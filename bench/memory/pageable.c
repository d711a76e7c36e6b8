/* Pageable memory. */
#include "measure.h"
#include "memory.h"
#include "synced_mem.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
    size_t size;
    char *pageable;
    char *pinned;
    void *device;
    cudaStream_t stream;
    synced_mem *borrowing; /* its host copy is the pageable memory */
    synced_mem *own;       /* page-locked */
};

static double h2d(synced_mem *mem)
{
    must(synced_mem_mutable_cpu_data(mem) != NULL, synced_mem_last_error_message());
    const double begin = seconds_now();
    must(synced_mem_gpu_data(mem) != NULL, synced_mem_last_error_message());
    return seconds_now() - begin;
}

static double d2h(synced_mem *mem)
{
    must(synced_mem_mutable_gpu_data(mem) != NULL, synced_mem_last_error_message());
    const double begin = seconds_now();
    must(synced_mem_cpu_data(mem) != NULL, synced_mem_last_error_message());
    return seconds_now() - begin;
}

static double h2d_pageable(void *state)
{
    return h2d(((struct state *)state)->borrowing);
}

static double d2h_pageable(void *state)
{
    return d2h(((struct state *)state)->borrowing);
}

static double h2d_pinned(void *state)
{
    return h2d(((struct state *)state)->own);
}

static double d2h_pinned(void *state)
{
    return d2h(((struct state *)state)->own);
}

static double memcpy_up(void *state)
{
    const struct state *const on = state;
    const double begin = seconds_now();
    must(cudaMemcpy(on->device, on->pageable, on->size, cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
    must(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    return seconds_now() - begin;
}

static double memcpy_down(void *state)
{
    const struct state *const on = state;
    const double begin = seconds_now();
    must(cudaMemcpy(on->pageable, on->device, on->size, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
    return seconds_now() - begin;
}

static double raw(const struct state *on, bool up)
{
    const double begin = seconds_now();
    must(cudaMemcpyAsync(up ? on->device : on->pinned, up ? on->pinned : on->device, on->size,
                         up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, on->stream) == cudaSuccess,
         "cudaMemcpyAsync");
    must(cudaStreamSynchronize(on->stream) == cudaSuccess, "cudaStreamSynchronize");
    return seconds_now() - begin;
}

static double raw_up(void *state)
{
    return raw(state, true);
}

static double raw_down(void *state)
{
    return raw(state, false);
}

static const struct way ups[] = {{"synced_mem, pageable", h2d_pageable},
                                 {"cudaMemcpy, pageable", memcpy_up},
                                 {"cudaMemcpyAsync, pinned", raw_up},
                                 {"synced_mem, pinned", h2d_pinned}};
static const struct way downs[] = {{"synced_mem, pageable", d2h_pageable},
                                   {"cudaMemcpy, pageable", memcpy_down},
                                   {"cudaMemcpyAsync, pinned", raw_down},
                                   {"synced_mem, pinned", d2h_pinned}};
enum { WAYS = sizeof ups / sizeof *ups };

static void prepare(struct state *on, size_t size)
{
    on->size = size;
    on->pageable = malloc(size);
    must(on->pageable != NULL, "no memory");
    for (size_t i = 0; i < size; i += sizeof(uint64_t))
        *(uint64_t *)(void *)(on->pageable + i) = i * 0x9e3779b97f4a7c15u;
    must(cudaMallocHost((void **)&on->pinned, size) == cudaSuccess, "cudaMallocHost");
    memcpy(on->pinned, on->pageable, size);
    must(cudaMalloc(&on->device, size) == cudaSuccess, "cudaMalloc");
    must(cudaMemcpy(on->device, on->pinned, size, cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
    must(cudaStreamCreateWithFlags(&on->stream, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreateWithFlags");
    must(synced_mem_create(&on->borrowing, size, NULL) == SYNCED_MEM_OK &&
             synced_mem_create(&on->own, size, NULL) == SYNCED_MEM_OK,
         "create");
    must(synced_mem_set_cpu_data(on->borrowing, on->pageable) == SYNCED_MEM_OK, synced_mem_last_error_message());
    must(synced_mem_gpu_data(on->borrowing) != NULL, synced_mem_last_error_message());
    void *const own = synced_mem_overwrite_cpu_data(on->own);
    must(own != NULL, synced_mem_last_error_message());
    memcpy(own, on->pageable, size);
}

/* What was moved about is what it was. */
static void finish(struct state *on)
{
    must(synced_mem_mutable_cpu_data(on->borrowing) != NULL, synced_mem_last_error_message());
    for (size_t i = 0; i < on->size; i += sizeof(uint64_t))
        must(*(uint64_t *)(void *)(on->pageable + i) == i * 0x9e3779b97f4a7c15u, "the contents have changed");
    must(synced_mem_release(on->borrowing) == SYNCED_MEM_OK, synced_mem_last_error_message());
    must(synced_mem_release(on->own) == SYNCED_MEM_OK, synced_mem_last_error_message());
    (void)cudaStreamDestroy(on->stream);
    (void)cudaFree(on->device);
    (void)cudaFreeHost(on->pinned);
    free(on->pageable);
}

/* In GB/s: the time of a byte is the unit. */
static void print_speed(size_t size, const struct result *results)
{
    (void)printf("%14zu", size);
    for (int i = 0; i < WAYS; i++)
        (void)printf(" | %6.1f (%5.1f .. %5.1f)", (double)size / results[i].median * 1e-9,
                     (double)size / results[i].most * 1e-9, (double)size / results[i].least * 1e-9);
    for (int i = 1; i < WAYS; i++)
        (void)printf(" | / %d: %.2f", i, results[i].median / results[0].median);
    (void)printf("\n");
    (void)fflush(stdout);
}

void measure_pageable(size_t largest)
{
    static const size_t sizes[] = {65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30};
    struct result up[MAX_WAYS];
    struct result down[MAX_WAYS];
    for (int direction = 0; direction < 2; direction++) {
        print_heading(direction ? "From the device" : "To the device", direction ? downs : ups, WAYS, "GB/s");
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= largest; i++) {
            struct state on;
            prepare(&on, sizes[i]);
            compare(direction ? downs : ups, WAYS, sizes[i] > (64 << 20) ? 5 : 15, &on, direction ? down : up);
            print_speed(sizes[i], direction ? down : up);
            finish(&on);
        }
    }
}

void sweep_staging(size_t size)
{
    static const unsigned threads[] = {2, 4, 6, 8, 10, 12, 15};
    static const size_t buffers[] = {262144, 524288, 1048576, 2097152, 4194304};
    struct result result;
    for (int direction = 0; direction < 2; direction++) {
        (void)printf("\n%s, %zu bytes, GB/s: copy threads down, bytes of a buffer across\n%8s",
                     direction ? "From the device" : "To the device", size, "");
        for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++)
            (void)printf(" %8zu", buffers[b]);
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            (void)printf("\n%8u", threads[t]);
            for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) {
                const synced_mem_staging staging = {.struct_size = sizeof staging,
                                                    .threads = threads[t],
                                                    .buffer_bytes = buffers[b],
                                                    .minimum_bytes = 65536};
                struct state on;
                must(synced_mem_set_staging(&staging) == SYNCED_MEM_OK, synced_mem_last_error_message());
                prepare(&on, size);
                compare(direction ? downs : ups, 1, 7, &on, &result);
                (void)printf(" %8.1f", (double)size / result.median * 1e-9);
                finish(&on);
                must(synced_mem_shutdown() == SYNCED_MEM_OK, synced_mem_last_error_message());
            }
            (void)fflush(stdout);
        }
        (void)printf("\n");
    }
}
