/* The functions of tensorRT_Pro's MixMemory and Tensor, with synced_mem. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { SIZE = 1 << 16 };

/* [workspace] */
/* gpu(size): device memory that only grows, for work on one stream. */
static void *workspace_gpu(synced_mem *workspace, size_t size, cudaStream_t stream)
{
    if (synced_mem_size(workspace) < size && synced_mem_resize_discard(workspace, size) != SYNCED_MEM_OK)
        return NULL;
    return synced_mem_mutable_gpu_data_on(workspace, stream); /* zeros after a growth, else the last contents */
}
/* [end] */

static void use_workspace(cudaStream_t stream)
{
    synced_mem *workspace;
    CHECK(synced_mem_create(&workspace, 0, NULL) == SYNCED_MEM_OK);
    void *const small = workspace_gpu(workspace, 100, stream);
    CHECK(small && workspace_gpu(workspace, 50, stream) == small);
    CHECK(cudaMemsetAsync(small, 1, 100, stream) == cudaSuccess);
    void *const large = workspace_gpu(workspace, SIZE, stream);
    CHECK(large && cudaMemsetAsync(large, 2, SIZE, stream) == cudaSuccess);
    CHECK(((const char *)synced_mem_cpu_data(workspace))[SIZE - 1] == 2);
    CHECK(synced_mem_release(workspace) == SYNCED_MEM_OK);
}

static void refer(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    char *const cpu = calloc(1, SIZE);
    void *gpu = NULL;
    CHECK(cpu && cudaMalloc(&gpu, SIZE) == cudaSuccess && cudaMemset(gpu, 0, SIZE) == cudaSuccess);
    /* [reference] */
    const synced_mem_memory memory = {.struct_size = sizeof memory, .cpu_data = cpu, .gpu_data = gpu};
    CHECK(synced_mem_use_memory(mem, &memory) == SYNCED_MEM_OK);     /* reference_data(cpu, size, gpu, size): SYNCED */
    CHECK(synced_mem_cpu_source(mem) == SYNCED_MEM_SOURCE_BORROWED); /* !owner_cpu() */
    CHECK(synced_mem_gpu_source(mem) == SYNCED_MEM_SOURCE_BORROWED); /* !owner_gpu() */
    CHECK(synced_mem_cpu_data(mem) == cpu && synced_mem_gpu_data(mem) == gpu);
    CHECK(synced_mem_release_data(mem) == SYNCED_MEM_OK); /* release_all(): does not free cpu and gpu */
    /* [end] */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(cudaFree(gpu) == cudaSuccess);
    free(cpu);
}

static void infer(cudaStream_t stream)
{
    synced_mem *input, *output;
    CHECK(synced_mem_create(&input, SIZE, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_create(&output, SIZE, NULL) == SYNCED_MEM_OK);
    /* [infer] */
    memset(synced_mem_overwrite_cpu_data(input), 3, SIZE);              /* input->to_cpu(false), cpu() */
    CHECK(synced_mem_async_gpu_push(input, stream) == SYNCED_MEM_OK);   /* input->to_gpu() */
    const void *const in = synced_mem_gpu_data_on(input, stream);       /* input->gpu() */
    void *const out = synced_mem_overwrite_gpu_data_on(output, stream); /* output->to_gpu(false), gpu() */
    CHECK(cudaMemcpyAsync(out, in, SIZE, cudaMemcpyDeviceToDevice, stream) == cudaSuccess); /* the engine */
    CHECK(synced_mem_async_cpu_pull(output, stream) == SYNCED_MEM_OK); /* starts the transfer for cpu() */
    const char *const result = synced_mem_cpu_data(output);            /* output->cpu(): waits for the pull */
    CHECK(result && result[SIZE - 1] == 3);
    /* [end] */
    CHECK(synced_mem_head(output) == SYNCED_MEM_SYNCED); /* the next read on the device needs no transfer */
    CHECK(synced_mem_release(input) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(output) == SYNCED_MEM_OK);
}

int main(void)
{
    if (synced_mem_device_count() == 0)
        return SKIPPED;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    use_workspace(stream);
    refer();
    infer(stream);
    CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
