/* Pushes and pulls beside kernels, on two streams. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { STEPS = 8, SIZE = 1 << 20 };

/* [page_locked] */
static synced_mem *make(const char *name, int device)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = name;
    options.device = device; /* an object that names its device has page-locked host memory from the start */
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, &options) == SYNCED_MEM_OK);
    return mem;
}
/* [end] */

static void train(cudaStream_t compute, cudaStream_t copies)
{
    synced_mem *const batches[2] = {make("even batches", 0), make("odd batches", 0)};
    synced_mem *const units = make("units", 0);

    /* [loop] */
    memset(synced_mem_overwrite_cpu_data(batches[0]), 0, SIZE);
    CHECK(synced_mem_async_gpu_push(batches[0], copies) == SYNCED_MEM_OK);
    for (int step = 0; step < STEPS; step++) {
        synced_mem *const batch = batches[step % 2];
        synced_mem *const next = batches[(step + 1) % 2];

        memset(synced_mem_overwrite_cpu_data(next), step + 1, SIZE);     /* the host waits for the last push of next */
        CHECK(synced_mem_async_gpu_push(next, copies) == SYNCED_MEM_OK); /* after the last kernel that reads next */

        const void *const in = synced_mem_gpu_data_on(batch, compute);      /* after the push of batch */
        void *const out = synced_mem_overwrite_gpu_data_on(units, compute); /* after the last pull of units */
        CHECK(in && out);
        CHECK(cudaMemcpyAsync(out, in, SIZE, cudaMemcpyDeviceToDevice, compute) == cudaSuccess); /* the kernel */

        CHECK(synced_mem_async_cpu_pull(units, copies) == SYNCED_MEM_OK); /* after the kernel */
        const char *const result = synced_mem_cpu_data(units);            /* the host waits for that pull alone */
        CHECK(result && result[0] == step && result[SIZE - 1] == step);
    }
    /* [end] */

    for (int i = 0; i < 2; i++)
        CHECK(synced_mem_release(batches[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(units) == SYNCED_MEM_OK);
}

/* Readers on two streams do not wait for one another. A writer waits for both. */
static void read_twice(cudaStream_t first, cudaStream_t second)
{
    synced_mem *const mem = make("read twice", 0);
    synced_mem *const copy = make("copy", 0);
    synced_mem *const other = make("other copy", 0);
    /* [readers] */
    void *const data = synced_mem_overwrite_gpu_data_on(mem, first);
    CHECK(cudaMemsetAsync(data, 3, SIZE, first) == cudaSuccess);

    const void *const here = synced_mem_gpu_data_on(mem, first);   /* the stream of the memset: no wait */
    const void *const there = synced_mem_gpu_data_on(mem, second); /* second waits for the memset on first */
    CHECK(cudaMemcpyAsync(synced_mem_overwrite_gpu_data_on(copy, first), here, SIZE, cudaMemcpyDeviceToDevice, first) ==
          cudaSuccess);
    CHECK(cudaMemcpyAsync(synced_mem_overwrite_gpu_data_on(other, second), there, SIZE, cudaMemcpyDeviceToDevice,
                          second) == cudaSuccess);
    CHECK(synced_mem_end_use_on(mem, second) == SYNCED_MEM_OK); /* later work on second delays no access to mem */

    void *const again = synced_mem_mutable_gpu_data_on(mem, first); /* first waits for the copy on second */
    CHECK(cudaMemsetAsync(again, 4, SIZE, first) == cudaSuccess);
    /* [end] */
    CHECK(((const char *)synced_mem_cpu_data(copy))[0] == 3);
    CHECK(((const char *)synced_mem_cpu_data(other))[SIZE - 1] == 3);
    CHECK(((const char *)synced_mem_cpu_data(mem))[SIZE - 1] == 4);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(copy) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(other) == SYNCED_MEM_OK);
}

/* Pushes several objects with one event. */
static void push_together(cudaStream_t copies)
{
    synced_mem *layers[3];
    for (int i = 0; i < 3; i++) {
        layers[i] = make("weights", 0);
        memset(synced_mem_overwrite_cpu_data(layers[i]), i, SIZE);
    }
    /* [together] */
    CHECK(synced_mem_async_gpu_push_n(layers, 3, copies) == SYNCED_MEM_OK);
    int pending;
    CHECK(synced_mem_query(layers[2], &pending) == SYNCED_MEM_OK); /* sets pending to 1 or 0, without a wait */
    CHECK(synced_mem_wait(layers[2]) == SYNCED_MEM_OK);            /* the host waits for the transfers */
    CHECK(synced_mem_query(layers[2], &pending) == SYNCED_MEM_OK && !pending);
    /* [end] */
    for (int i = 0; i < 3; i++)
        CHECK(synced_mem_release(layers[i]) == SYNCED_MEM_OK);
}

int main(void)
{
    if (synced_mem_device_count() == 0)
        return SKIPPED;

    /* [streams] */
    cudaStream_t compute, copies;
    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking) == cudaSuccess);
    /* [end] */
    train(compute, copies);
    read_twice(compute, copies);
    push_together(copies);
    /* [done] */
    CHECK(synced_mem_forget_stream(compute) == SYNCED_MEM_OK); /* required before the destruction; does not wait */
    CHECK(cudaStreamDestroy(compute) == cudaSuccess);
    CHECK(synced_mem_forget_stream(copies) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(copies) == cudaSuccess);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    /* [end] */
    return 0;
}
