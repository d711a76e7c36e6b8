/* Plays calls that set how the library works, which changes nothing of what any object holds. */
#include "model_world.h"

#include <stdint.h>

enum { MILLISECONDS = 3, LARGE_RESERVE = 100000 };

/* More than all objects of the test could want. */
#define LARGE_LIMIT ((size_t)1 << 32)

/* Of pageable memory every transfer is staged, in buffers as small as can be; or none is. */
static bool set_staging(const struct op *op)
{
    const bool all = op->b % 3 != 0;
    const synced_mem_staging staging = {.struct_size = sizeof staging,
                                        .threads = op->a % 4,
                                        .buffer_bytes = STAGING_BUFFER,
                                        .minimum_bytes = all ? 1 : SIZE_MAX};
    code_line("OK(synced_mem_set_staging(&(synced_mem_staging){sizeof(synced_mem_staging), %u, %zu, %zu}));",
              staging.threads, staging.buffer_bytes, staging.minimum_bytes);
    call_begins(NULL, op->code, HOST);
    (void)answered("set_staging", synced_mem_set_staging(&staging), OK_ONLY);
    call_ends(0, 0);
    world.staged = all;
    world.copy_threads = staging.threads;
    return true;
}

/* ---- Pools ---- */

static synced_mem_status set_host_pool(const struct op *op)
{
    switch (op->code) {
    case OP_HOST_TRIM:
        return synced_mem_host_pool_trim(op->a % 2 ? op->b : 0);
    case OP_HOST_LIMIT:
        return synced_mem_host_pool_set_limit(op->a % 2 ? LARGE_LIMIT : 0);
    case OP_HOST_DECAY:
        return synced_mem_host_pool_set_decay(op->a % MILLISECONDS);
    default:
        return synced_mem_host_pool_reserve((int)(op->a % 3) - 1, op->b % LARGE_RESERVE);
    }
}

static synced_mem_status set_gpu_pool(const struct op *op)
{
    const int device = (int)(op->a % 3) - 1;
    switch (op->code) {
    case OP_GPU_TRIM:
        return synced_mem_gpu_pool_trim(device, op->b % 2 ? op->b : 0);
    case OP_GPU_REUSE:
        return synced_mem_gpu_pool_set_reuse(device, op->b & SYNCED_MEM_GPU_POOL_REUSE_ALL);
    default:
        return synced_mem_gpu_pool_set_threshold(device, op->b % 2 ? UINT64_MAX : op->b / 2 % BLOCK_SIZE);
    }
}

/* The host's pool can be set where there is no GPU; but nothing can be page-locked. */
static unsigned pool_allowed(const struct op *op)
{
    const bool of_device = op->code >= OP_HOST_RESERVE;
    if (!of_device || (machine.gpu && (int)(op->a % 3) - 1 < machine.devices))
        return OK_ONLY;
    return 1u << (machine.gpu ? SYNCED_MEM_ERR_INVALID_DEVICE : SYNCED_MEM_ERR_NO_GPU);
}

static bool set_pool(const struct op *op)
{
    code_line("(void)synced_mem_%s(...); /* by %u and %u */", op_name(op->code), op->a, op->b);
    call_begins(NULL, op->code, HOST);
    const synced_mem_status status = op->code < OP_GPU_TRIM ? set_host_pool(op) : set_gpu_pool(op);
    (void)answered(op_name(op->code), status, pool_allowed(op));
    call_ends(0, 0);
    return true;
}

bool play_setting(const struct op *op)
{
    if (op->code == OP_STAGING)
        return set_staging(op);
    return op->code >= OP_HOST_TRIM && op->code <= OP_GPU_THRESHOLD && set_pool(op);
}
