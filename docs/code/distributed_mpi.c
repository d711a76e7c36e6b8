/* Ranks that sum their gradients by MPI. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

enum { LAYERS = 3, COUNT = 1 << 10, STEPS = 5 };

struct bucket {
    synced_mem *grads; /* a view of all gradients */
    MPI_Request request;
};

/* [make] */
static synced_mem *make_buckets(struct bucket buckets[LAYERS])
{
    const size_t size = COUNT * sizeof(float);
    synced_mem *grads;
    CHECK(synced_mem_create(&grads, LAYERS * size, NULL) == SYNCED_MEM_OK);
    for (size_t i = 0; i < LAYERS; i++)
        CHECK(synced_mem_view(&buckets[i].grads, grads, i * size, size, NULL) == SYNCED_MEM_OK);
    return grads;
}
/* [end] */

/* Stands for the backward pass of a layer. */
static void compute_gradients(synced_mem *grads, int rank, int step)
{
    float *const data = synced_mem_overwrite_cpu_data(grads);
    CHECK(data);
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(rank + step);
}

/* [start] */
static void start_sum(struct bucket *bucket)
{
    float *const data = synced_mem_mutable_cpu_data(bucket->grads); /* after the work that computes the gradients */
    CHECK(data);
    CHECK(MPI_Iallreduce(MPI_IN_PLACE, data, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &bucket->request) ==
          MPI_SUCCESS);
}
/* [end] */

static void take_step(struct bucket buckets[LAYERS], int rank, int ranks, int step)
{
    /* [step] */
    for (int i = 0; i < LAYERS; i++) { /* the backward pass: the last layer first */
        compute_gradients(buckets[i].grads, rank, step);
        start_sum(&buckets[i]); /* the pointer stays good while the next layer's gradients are computed */
    }
    for (int i = 0; i < LAYERS; i++) { /* the optimizer */
        CHECK(MPI_Wait(&buckets[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        const float *const sums = synced_mem_cpu_data(buckets[i].grads); /* or gpu_data_on(), which pushes them */
        CHECK(sums && sums[0] == (float)(ranks * step + ranks * (ranks - 1) / 2) && sums[COUNT - 1] == sums[0]);
    }
    /* [end] */
}

/* [aware] */
static void sum_on_device(synced_mem *grads, cudaStream_t stream)
{
    void *const data = synced_mem_mutable_gpu_data_on(grads, stream);
    CHECK(data && cudaStreamSynchronize(stream) == cudaSuccess); /* MPI knows no streams */
    CHECK(MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(synced_mem_end_use_on(grads, stream) == SYNCED_MEM_OK);
}
/* [end] */

static int is_cuda_aware(void)
{
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support();
#else
    return 0;
#endif
}

int main(int argc, char *argv[])
{
    int rank, ranks;
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS);
    struct bucket buckets[LAYERS];
    synced_mem *const grads = make_buckets(buckets);
    for (int step = 0; step < STEPS; step++)
        take_step(buckets, rank, ranks, step);
    if (is_cuda_aware() && synced_mem_device_count() > 0)
        sum_on_device(buckets[0].grads, NULL);
    for (int i = 0; i < LAYERS; i++)
        CHECK(synced_mem_release(buckets[i].grads) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(grads) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    if (rank == 0)
        printf("%d ranks\n", ranks);
    return MPI_Finalize() != MPI_SUCCESS;
}
