/* Replaces reduce_nccl.c in a build without NCCL. */
#include "failure.h"
#include "reduce.h"

const synced_mem_allocator *reduce_nccl_allocator(void)
{
    return NULL;
}

bool reduce_open_nccl(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend, int blocks)
{
    (void)reduce, (void)ranks, (void)backend, (void)blocks;
    return fail("this program was built without NCCL, which sums gradients on GPUs; --device cpu needs none");
}
