/* Sums over all ranks: by NCCL on GPUs, else by MPI. */
#include "reduce.h"

bool reduce_open(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend)
{
    *reduce = (struct reduce){0};
    return backend->on_gpu ? reduce_open_nccl(reduce, ranks, backend) : reduce_open_mpi(reduce);
}
