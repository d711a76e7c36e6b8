/* Replaces reduce_nccl.c in a build without NCCL. */
#include "failure.h"
#include "reduce.h"

bool reduce_open_nccl(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend)
{
    (void)reduce, (void)ranks, (void)backend;
    return fail("this program was built without NCCL, which sums gradients on GPUs; --device cpu needs none");
}
