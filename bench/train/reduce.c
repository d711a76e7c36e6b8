/* Sums over all ranks: by NCCL on GPUs, else by MPI. */
#include "reduce.h"

/* The open reductions. A program that fails need not know them. */
static struct reduce opened;

const synced_mem_allocator *reduce_gpu_allocator(const struct ranks *ranks, const struct backend *backend)
{
    return ranks->count > 1 && backend->on_gpu ? reduce_nccl_allocator() : NULL;
}

bool reduce_open(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend, int blocks)
{
    *reduce = (struct reduce){0};
    const bool done = backend->on_gpu ? reduce_open_nccl(reduce, ranks, backend, blocks) : reduce_open_mpi(reduce);
    if (done)
        opened = *reduce;
    return done;
}

void reduce_close(struct reduce *reduce)
{
    if (reduce->state)
        reduce->close(reduce);
    opened = *reduce = (struct reduce){0};
}

void reduce_abort(void)
{
    if (opened.state)
        opened.abort(&opened);
}
