/* A key-value cache: one object, and a view for each of its blocks. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { BLOCKS = 4096, SIZE = 4 << 10, LISTED = 3 };

/* [make] */
struct cache {
    synced_mem *whole;
    synced_mem *blocks[BLOCKS];
};

static void make_cache(struct cache *cache)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = "cache";
    options.device = 0; /* page-locked host memory */
    CHECK(synced_mem_create(&cache->whole, (size_t)BLOCKS * SIZE, &options) == SYNCED_MEM_OK);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(synced_mem_view(&cache->blocks[i], cache->whole, i * SIZE, SIZE, NULL) == SYNCED_MEM_OK);
}
/* [end] */

static void free_cache(struct cache *cache)
{
    /* [free] */
    CHECK(synced_mem_release(cache->whole) == SYNCED_MEM_OK); /* the views keep the object alive */
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(synced_mem_release(cache->blocks[i]) == SYNCED_MEM_OK);
    /* [end] */
}

/* Fills a block on the host, as from a file. */
static void load(struct cache *cache, int number, int value)
{
    void *const block = synced_mem_overwrite_cpu_data(cache->blocks[number]);
    CHECK(block);
    memset(block, value, SIZE);
}

static int value_of(struct cache *cache, int number)
{
    const char *const block = synced_mem_cpu_data(cache->blocks[number]);
    CHECK(block && block[0] == block[SIZE - 1]);
    return block[0];
}

static void use_on_host(struct cache *cache)
{
    /* [heads] */
    load(cache, 0, 7); /* an overwrite of block 0 on the host */
    CHECK(synced_mem_head(cache->blocks[0]) == SYNCED_MEM_AT_CPU);
    CHECK(synced_mem_head(cache->blocks[1]) == SYNCED_MEM_UNINITIALIZED);
    CHECK(synced_mem_head(cache->whole) == SYNCED_MEM_MIXED);
    /* [end] */

    /* [pointers] */
    const char *const whole = synced_mem_cpu_data(cache->whole); /* fills the other blocks with zeros */
    const char *const block = synced_mem_cpu_data(cache->blocks[1]);
    CHECK(whole && block == whole + synced_mem_offset(cache->blocks[1]));
    CHECK(whole[0] == 7 && block[0] == 0);
    CHECK(synced_mem_head(cache->whole) == SYNCED_MEM_AT_CPU);
    /* [end] */

    /* [nested] */
    synced_mem *half;
    CHECK(synced_mem_view(&half, cache->blocks[1], SIZE / 2, SIZE / 2, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_root(half) == cache->whole && synced_mem_offset(half) == SIZE + SIZE / 2);
    CHECK(synced_mem_release(half) == SYNCED_MEM_OK);
    CHECK(synced_mem_cpu_data(cache->blocks[1]) == block); /* no access: the pointer is as good as before */
    /* [end] */

    /* [refused] */
    CHECK(synced_mem_release_gpu_data(cache->blocks[0]) == SYNCED_MEM_ERR_INVALID_STATE);
    CHECK(synced_mem_release_gpu_data(cache->whole) == SYNCED_MEM_OK);
    /* [end] */
}

/* [swap] */
static void swap_in(struct cache *cache, const int numbers[LISTED], cudaStream_t stream)
{
    synced_mem *listed[LISTED];
    for (int i = 0; i < LISTED; i++)
        listed[i] = cache->blocks[numbers[i]];
    CHECK(synced_mem_async_gpu_push_n(listed, LISTED, stream) == SYNCED_MEM_OK);
}

static void swap_out(struct cache *cache, const int numbers[LISTED], cudaStream_t stream)
{
    synced_mem *listed[LISTED];
    for (int i = 0; i < LISTED; i++)
        listed[i] = cache->blocks[numbers[i]];
    CHECK(synced_mem_async_cpu_pull_n(listed, LISTED, stream) == SYNCED_MEM_OK);
}
/* [end] */

static void serve(struct cache *cache, cudaStream_t compute, cudaStream_t copies)
{
    /* [serve] */
    static const int running[LISTED] = {11, 4000, 702}; /* the blocks of one request, anywhere in the cache */
    static const int next[LISTED] = {703, 5, 12};       /* those of another, which the host is about to load */

    for (int i = 0; i < LISTED; i++)
        load(cache, running[i], 1);
    swap_in(cache, running, copies);
    for (int i = 0; i < LISTED; i++) {
        void *const block = synced_mem_mutable_gpu_data_on(cache->blocks[running[i]], compute); /* after the push */
        CHECK(block && cudaMemsetAsync(block, 2, SIZE, compute) == cudaSuccess);                /* the kernel */
    }
    for (int i = 0; i < LISTED; i++)
        load(cache, next[i], 3);      /* beside the kernels: the host does not wait for them */
    swap_in(cache, next, copies);     /* nor does the stream copies */
    swap_out(cache, running, copies); /* after the kernels */
    CHECK(value_of(cache, running[0]) == 2 && value_of(cache, running[2]) == 2); /* the host waits for the pull */
    /* [end] */
}

static void save(struct cache *cache, cudaStream_t compute, cudaStream_t copies)
{
    /* [mixed] */
    void *const block = synced_mem_overwrite_gpu_data_on(cache->blocks[20], compute);
    CHECK(block && cudaMemsetAsync(block, 4, SIZE, compute) == cudaSuccess);
    load(cache, 21, 5);
    CHECK(synced_mem_head(cache->blocks[20]) == SYNCED_MEM_AT_GPU);
    CHECK(synced_mem_head(cache->blocks[21]) == SYNCED_MEM_AT_CPU);
    CHECK(synced_mem_head(cache->whole) == SYNCED_MEM_MIXED);

    CHECK(synced_mem_async_cpu_pull(cache->whole, copies) == SYNCED_MEM_OK); /* transfers block 20 alone */
    CHECK(synced_mem_head(cache->blocks[20]) == SYNCED_MEM_SYNCED);
    CHECK(synced_mem_head(cache->whole) == SYNCED_MEM_AT_CPU);
    /* [end] */
    const char *const whole = synced_mem_cpu_data(cache->whole);
    CHECK(whole && whole[20 * SIZE] == 4 && whole[21 * SIZE] == 5 && whole[703 * SIZE] == 3);
}

static void use_on_device(struct cache *cache)
{
    cudaStream_t compute, copies;
    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking) == cudaSuccess);
    serve(cache, compute, copies);
    save(cache, compute, copies);
    CHECK(synced_mem_forget_stream(compute) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(copies) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(compute) == cudaSuccess);
    CHECK(cudaStreamDestroy(copies) == cudaSuccess);
}

int main(void)
{
    static struct cache cache;
    make_cache(&cache);
    use_on_host(&cache);
    if (synced_mem_device_count() > 0)
        use_on_device(&cache);
    free_cache(&cache);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
