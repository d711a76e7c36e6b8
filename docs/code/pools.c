/* The pools of the library's own memory, their limits and statistics, and the settings of staged transfers. */
#include "check.h"

#include <string.h>

enum { MIB = 1 << 20 };

static synced_mem *make(size_t size)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0;
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

static void page_locked(void)
{
    /* [host] */
    CHECK(synced_mem_host_pool_reserve(0, 32 * MIB) == SYNCED_MEM_OK); /* page-locks 32 MiB in advance */

    synced_mem *const mem = make(16 * MIB);
    CHECK(synced_mem_overwrite_cpu_data(mem)); /* memory of the pool: nothing is page-locked */
    CHECK(synced_mem_cpu_source(mem) == SYNCED_MEM_SOURCE_PINNED);

    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    CHECK(synced_mem_host_pool_get_stats(&stats) == SYNCED_MEM_OK);
    CHECK(stats.requested_bytes == 16 * MIB && stats.held_bytes >= 32 * MIB && stats.registrations == 1);

    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);      /* the memory goes back to the pool */
    CHECK(synced_mem_host_pool_trim(0) == SYNCED_MEM_OK); /* unused memory goes back to the system */
    CHECK(synced_mem_host_pool_get_stats(&stats) == SYNCED_MEM_OK);
    CHECK(stats.held_bytes == 0);
    /* [end] */
}

static void limited(void)
{
    synced_mem *const mem = make(16 * MIB);
    /* [limit] */
    CHECK(synced_mem_host_pool_set_limit(8 * MIB) == SYNCED_MEM_OK);
    CHECK(!synced_mem_overwrite_cpu_data(mem)); /* 16 MiB exceed the limit */
    CHECK(synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);

    synced_mem_set_pageable_fallback(1); /* allows pageable memory, with slower transfers */
    CHECK(synced_mem_overwrite_cpu_data(mem));
    CHECK(synced_mem_cpu_source(mem) == SYNCED_MEM_SOURCE_PAGEABLE);
    /* [end] */
    synced_mem_set_pageable_fallback(0);
    CHECK(synced_mem_host_pool_set_limit(0) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
}

static void device_pool(void)
{
    CHECK(synced_mem_gpu_pool_set_threshold(0, UINT64_MAX) == SYNCED_MEM_OK);
    synced_mem *const mem = make(4 * MIB);
    CHECK(synced_mem_overwrite_gpu_data(mem));
    /* [device] */
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    CHECK(synced_mem_gpu_pool_get_stats(0, &stats) == SYNCED_MEM_OK);
    CHECK(stats.used >= 4 * MIB && stats.reserved >= stats.used);
    const uint64_t reserved = stats.reserved;

    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);        /* its memory is kept for objects of this size */
    CHECK(synced_mem_gpu_pool_trim(0, 0) == SYNCED_MEM_OK); /* gives unused memory back to the system */
    CHECK(synced_mem_gpu_pool_get_stats(0, &stats) == SYNCED_MEM_OK);
    CHECK(stats.reserved <= reserved);
    /* [end] */
}

static void pageable_transfers(void)
{
    /* [staging] */
    synced_mem_staging staging = {.struct_size = sizeof staging};
    CHECK(synced_mem_get_staging(&staging) == SYNCED_MEM_OK); /* reads the settings, here the defaults */
    staging.threads = 2;
    staging.minimum_bytes = 4 * MIB; /* below that the CUDA runtime makes pulls of more than 128 KiB */
    CHECK(synced_mem_set_staging(&staging) == SYNCED_MEM_OK);
    /* [end] */
    synced_mem *const mem = make(8 * MIB);
    char *const buffer = malloc(8 * MIB);
    CHECK(buffer);
    memset(buffer, 9, 8 * MIB);
    CHECK(synced_mem_set_cpu_data(mem, buffer) == SYNCED_MEM_OK);
    CHECK(synced_mem_gpu_data(mem));
    synced_mem_stats stats = {.struct_size = sizeof stats};
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK && stats.staged_transfers == 1);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    free(buffer);
}

static void urgent_transfers(void)
{
    synced_mem *const checkpoint = make(64 * MIB);
    synced_mem *const loss = make(sizeof(float));
    const synced_mem_stream copies = SYNCED_MEM_STREAM_LIBRARY;
    const synced_mem_stream stream = SYNCED_MEM_STREAM_LIBRARY;
    CHECK(synced_mem_mutable_gpu_data(checkpoint) && synced_mem_mutable_gpu_data(loss));
    /* [urgent] */
    CHECK(synced_mem_async_cpu_pull(checkpoint, copies) == SYNCED_MEM_OK);  /* large */
    CHECK(synced_mem_async_cpu_pull_urgent(loss, stream) == SYNCED_MEM_OK); /* small, and needed now */
    /* [end] */
    CHECK(synced_mem_cpu_data(loss));
    CHECK(synced_mem_release(checkpoint) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(loss) == SYNCED_MEM_OK);
}

int main(void)
{
    if (synced_mem_device_count() == 0)
        return SKIPPED;
    page_locked();
    limited();
    device_pool();
    pageable_transfers();
    urgent_transfers();
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
