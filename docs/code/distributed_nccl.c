/* Ranks that sum their gradients by NCCL. The ranks are threads, so that the program runs on the emulated runtime. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>

enum { RANKS = 2, LAYERS = 3, COUNT = 1 << 10, STEPS = 5 };

struct rank {
    int rank;
    ncclUniqueId id; /* made by rank 0; MPI_Bcast() brings it to the other processes */
    ncclComm_t communicator;
    cudaStream_t compute, reductions;
    synced_mem *grads;
    synced_mem *buckets[LAYERS];
};

/* [allocator] */
static void *nccl_alloc(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    void *data = NULL;
    int current;
    (void)alignment; /* NCCL's memory begins at a page */
    (void)stream, (void)user;
    CHECK(cudaGetDevice(&current) == cudaSuccess && cudaSetDevice(device) == cudaSuccess);
    const ncclResult_t result = ncclMemAlloc(&data, size);
    CHECK(cudaSetDevice(current) == cudaSuccess);
    return result == ncclSuccess ? data : NULL;
}

static void nccl_free(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)user;
    if (stream) /* NULL: the device is lost */
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(ncclMemFree(data) == ncclSuccess);
}

static const synced_mem_allocator allocator = {.struct_size = sizeof allocator, .alloc = nccl_alloc, .free = nccl_free};
/* [end] */

static void make_buckets(struct rank *rank)
{
    const size_t size = COUNT * sizeof(float);
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = rank->rank;
    /* [options] */
    options.gpu_allocator = &allocator;
    CHECK(synced_mem_create(&rank->grads, LAYERS * size, &options) == SYNCED_MEM_OK);
    /* [end] */
    for (size_t i = 0; i < LAYERS; i++)
        CHECK(synced_mem_view(&rank->buckets[i], rank->grads, i * size, size, NULL) == SYNCED_MEM_OK);
}

static void join(struct rank *rank)
{
    /* [join] */
    CHECK(cudaSetDevice(rank->rank) == cudaSuccess); /* the rank's number on its machine */
    CHECK(cudaStreamCreateWithFlags(&rank->compute, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&rank->reductions, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(ncclCommInitRank(&rank->communicator, RANKS, rank->id, rank->rank) == ncclSuccess);
    /* [end] */
}

/* Stands for the kernels of the backward pass of a layer. */
static void compute_gradients(synced_mem *bucket, cudaStream_t stream)
{
    void *const data = synced_mem_overwrite_gpu_data_on(bucket, stream);
    CHECK(data && cudaMemsetAsync(data, 0x3f, COUNT * sizeof(float), stream) == cudaSuccess);
}

/* [start] */
static void start_sum(struct rank *rank, synced_mem *bucket)
{
    void *const data = synced_mem_mutable_gpu_data_on(bucket, rank->reductions); /* after the gradient kernels */
    CHECK(data);
    CHECK(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, rank->communicator, rank->reductions) == ncclSuccess);
    CHECK(synced_mem_end_use_on(bucket, rank->reductions) ==
          SYNCED_MEM_OK); /* later reductions delay no access to it */
}
/* [end] */

static void take_step(struct rank *rank)
{
    /* [step] */
    for (int i = 0; i < LAYERS; i++) { /* the backward pass: the last layer first */
        compute_gradients(rank->buckets[i], rank->compute);
        start_sum(rank, rank->buckets[i]); /* runs beside the kernels of the next layer */
    }
    for (int i = 0; i < LAYERS; i++) {                                                    /* the optimizer */
        const void *const sums = synced_mem_gpu_data_on(rank->buckets[i], rank->compute); /* after this reduction */
        CHECK(sums); /* launch the optimizer's kernel on the stream compute */
    }
    /* [end] */
}

static void leave(struct rank *rank)
{
    const float *const sums = synced_mem_cpu_data(rank->grads);
    CHECK(sums && sums[0] > 1.49F && sums[0] < 1.50F && sums[LAYERS * COUNT - 1] == sums[0]);
    CHECK(ncclCommDestroy(rank->communicator) == ncclSuccess);
    for (int i = 0; i < LAYERS; i++)
        CHECK(synced_mem_release(rank->buckets[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(rank->grads) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(rank->compute) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(rank->reductions) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(rank->compute) == cudaSuccess && cudaStreamDestroy(rank->reductions) == cudaSuccess);
}

static void *run_rank(void *argument)
{
    struct rank *const rank = argument;
    join(rank);
    make_buckets(rank);
    for (int step = 0; step < STEPS; step++)
        take_step(rank);
    leave(rank);
    return NULL;
}

int main(void)
{
    static struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.rank = i, .id = id};
        CHECK(pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
