/* Plays calls that set how the library works. They must not change the contents of any object. */
#include "world.h"

#include <stdint.h>

enum { MILLISECONDS = 3, LARGE_RESERVE = 100000 };

/* More than all objects of the test can need. */
#define LARGE_LIMIT ((size_t)1 << 32)

/* Stages every transfer of pageable memory, or only pushes of more than a buffer. Buffers are the smallest, or twice as
 * large, so that the first chunk of a push is smaller than the others. */
static bool set_staging(const struct op *op)
{
    const bool all = op->b % 3 != 0;
    const synced_mem_staging staging = {.struct_size = sizeof staging,
                                        .threads = op->a % 4,
                                        .buffer_bytes = (size_t)STAGING_BUFFER << (op->a / 4 % 2),
                                        .minimum_bytes = all ? 1 : SIZE_MAX};
    code_line("OK(synced_mem_set_staging(&(synced_mem_staging){sizeof(synced_mem_staging), %u, %zu, %zu}));",
              staging.threads, staging.buffer_bytes, staging.minimum_bytes);
    call_begins(NULL, op->code, HOST);
    (void)answered("set_staging", synced_mem_set_staging(&staging), OK_ONLY);
    call_ends(0, 0);
    world.staged = all;
    world.copy_threads = staging.threads;
    world.staging_set = true;
    world.helped |= staging.threads > 0;
    return true;
}

/* ---- Pools ---- */

/* Names SYNCED_MEM_DEVICE_CURRENT too. With one device, the last number is an invalid device. */
static int device_named_by(uint32_t number)
{
    return (int)(number % 3) - 1;
}

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
        return synced_mem_host_pool_reserve(device_named_by(op->a), op->b % LARGE_RESERVE);
    }
}

static synced_mem_status set_gpu_pool(const struct op *op)
{
    const int device = device_named_by(op->a);
    switch (op->code) {
    case OP_GPU_TRIM:
        return synced_mem_gpu_pool_trim(device, op->b % 2 ? op->b : 0);
    case OP_GPU_REUSE:
        return synced_mem_gpu_pool_set_reuse(device, op->b & SYNCED_MEM_GPU_POOL_REUSE_ALL);
    case OP_GPU_THRESHOLD:
        return synced_mem_gpu_pool_set_threshold(device, op->b % 2 ? UINT64_MAX : op->b / 2 % BLOCK_SIZE);
    default:
        return synced_mem_gpu_pool_set_spare_limit(device, op->b % 2 ? SIZE_MAX : op->b / 2 % (4 * BLOCK_SIZE));
    }
}

/* The host's pool can be set without a GPU, but nothing can be page-locked then. */
static unsigned pool_allowed(const struct op *op)
{
    const bool of_device = op->code >= OP_HOST_RESERVE;
    if (!of_device || (machine.gpu && device_named_by(op->a) < machine.devices))
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

static unsigned peer_allowed(int device, int peer)
{
    const int current = world.current[world.thread];
    if (!machine.gpu)
        return 1u << SYNCED_MEM_ERR_NO_GPU;
    if (device >= machine.devices || peer >= machine.devices)
        return 1u << SYNCED_MEM_ERR_INVALID_DEVICE;
    if ((device < 0 ? current : device) == (peer < 0 ? current : peer))
        return 1u << SYNCED_MEM_ERR_INVALID_ARGUMENT;
    return OK_ONLY | 1u << SYNCED_MEM_ERR_INVALID_DEVICE; /* some devices cannot access each other */
}

static bool allow_peer(const struct op *op)
{
    const int device = device_named_by(op->a), peer = device_named_by(op->b), allow = op->b / 3 % 2 != 0;
    code_line("(void)synced_mem_gpu_pool_allow_peer(%d, %d, %d);", device, peer, allow);
    call_begins(NULL, op->code, HOST);
    (void)answered("gpu_pool_allow_peer", synced_mem_gpu_pool_allow_peer(device, peer, allow),
                   peer_allowed(device, peer));
    call_ends(0, 0);
    return true;
}

static void check_host_pool(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    (void)answered("host_pool_get_stats", synced_mem_host_pool_get_stats(&stats), OK_ONLY);
    if (world.helped || !world.staging_set)
        return;
    if (stats.requested_bytes > stats.peak_requested_bytes || stats.held_bytes > stats.peak_held_bytes ||
        stats.requested_bytes + stats.free_bytes > stats.held_bytes || (stats.held_bytes > 0) != (stats.slabs > 0))
        fail("the pool of page-locked memory holds %llu bytes in %llu slabs, of which %llu are in use and %llu free",
             (unsigned long long)stats.held_bytes, (unsigned long long)stats.slabs,
             (unsigned long long)stats.requested_bytes, (unsigned long long)stats.free_bytes);
}

static void check_gpu_pool(int device)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    (void)answered("gpu_pool_get_stats", synced_mem_gpu_pool_get_stats(device, &stats), OK_ONLY);
    if (stats.used > stats.reserved || stats.used > stats.used_high || stats.reserved > stats.reserved_high)
        fail("the pool of device %d has %llu bytes, %llu in use", device, (unsigned long long)stats.reserved,
             (unsigned long long)stats.used);
}

static bool get_pool_stats(const struct op *op)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    call_begins(NULL, op->code, HOST);
    check_host_pool();
    for (int device = 0; device < machine.devices; device++)
        check_gpu_pool(device);
    if (op->a % 2)
        (void)answered("host_pool_reset_peaks", synced_mem_host_pool_reset_peaks(), OK_ONLY);
    for (int device = 0; op->b % 2 && device < machine.devices; device++)
        (void)answered("gpu_pool_reset_peaks", synced_mem_gpu_pool_reset_peaks(device), OK_ONLY);
    (void)answered("get_staging", synced_mem_get_staging(&staging), OK_ONLY);
    if (world.staging_set && staging.threads != world.copy_threads)
        fail("%u copy threads are set, not %u", staging.threads, world.copy_threads);
    call_ends(0, 0);
    return true;
}

/* ---- Memory of all objects ---- */

/* Has no effect if everything can be page-locked. */
static bool set_fallback(const struct op *op)
{
    code_line("synced_mem_set_pageable_fallback(%u);", op->a % 2);
    call_begins(NULL, op->code, HOST);
    synced_mem_set_pageable_fallback((int)(op->a % 2));
    call_ends(0, 0);
    return true;
}

/* Memory of objects without an allocator of their own keeps its source. New memory comes from this allocator. */
static bool set_allocators(const struct op *op)
{
    const synced_mem_allocator *const cpu = op->a % 2 ? allocator_of_host(machine.gpu && op->a / 2 % 2 != 0) : NULL;
    const synced_mem_allocator *const gpu = op->b % 2 && machine.gpu ? allocator_of_device() : NULL;
    code_line("OK(synced_mem_set_allocators(%s, %s));", cpu ? "&cpu" : "NULL", gpu ? "&gpu" : "NULL");
    call_begins(NULL, op->code, HOST);
    (void)answered("set_allocators", synced_mem_set_allocators(cpu, gpu), OK_ONLY);
    call_ends(0, 0);
    world.allocated[CPU] |= cpu != NULL;
    world.allocated[GPU] |= gpu != NULL;
    return true;
}

bool play_setting(const struct op *op)
{
    switch (op->code) {
    case OP_STAGING:
        return set_staging(op);
    case OP_GPU_PEER:
        return allow_peer(op);
    case OP_POOL_STATS:
        return get_pool_stats(op);
    case OP_FALLBACK:
        return set_fallback(op);
    case OP_ALLOCATORS:
        return set_allocators(op);
    default:
        return op->code >= OP_HOST_TRIM && op->code <= OP_GPU_SPARE && set_pool(op);
    }
}
