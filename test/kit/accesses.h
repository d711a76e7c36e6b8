/* The accesses of the state table, and the head after each. */
#ifndef ACCESSES_H
#define ACCESSES_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

enum access {
    CPU_READ,
    CPU_MUTABLE,
    CPU_OVERWRITE,
    GPU_READ,
    GPU_MUTABLE,
    GPU_OVERWRITE,
    ON_READ, /* the same on a stream */
    ON_MUTABLE,
    ON_OVERWRITE,
    ACCESSES
};
enum { PLAIN_ACCESSES = ON_READ }; /* those without a stream */

static const synced_mem_head_kind next_head[4][PLAIN_ACCESSES] = {
    [SYNCED_MEM_UNINITIALIZED] = {SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_GPU,
                                  SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU},
    [SYNCED_MEM_AT_CPU] = {SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_CPU, SYNCED_MEM_SYNCED,
                           SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU},
    [SYNCED_MEM_AT_GPU] = {SYNCED_MEM_SYNCED, SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_GPU,
                           SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU},
    [SYNCED_MEM_SYNCED] = {SYNCED_MEM_SYNCED, SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_CPU, SYNCED_MEM_SYNCED,
                           SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU},
};

static inline bool of_gpu(enum access access)
{
    return access >= GPU_READ;
}

/* Returns the access without a stream. */
static inline enum access plain(enum access access)
{
    return access >= ON_READ ? access - ON_READ + GPU_READ : access;
}

static inline bool writes(enum access access)
{
    return plain(access) != CPU_READ && plain(access) != GPU_READ;
}

static inline bool overwrites(enum access access)
{
    return plain(access) == CPU_OVERWRITE || plain(access) == GPU_OVERWRITE;
}

/* An access without a stream ignores the stream. */
static inline const void *do_access(synced_mem *mem, enum access access, synced_mem_stream stream)
{
    switch (access) {
    case CPU_READ:
        return synced_mem_cpu_data(mem);
    case CPU_MUTABLE:
        return synced_mem_mutable_cpu_data(mem);
    case CPU_OVERWRITE:
        return synced_mem_overwrite_cpu_data(mem);
    case GPU_READ:
        return synced_mem_gpu_data(mem);
    case GPU_MUTABLE:
        return synced_mem_mutable_gpu_data(mem);
    case GPU_OVERWRITE:
        return synced_mem_overwrite_gpu_data(mem);
    case ON_READ:
        return synced_mem_gpu_data_on(mem, stream);
    case ON_MUTABLE:
        return synced_mem_mutable_gpu_data_on(mem, stream);
    case ON_OVERWRITE:
        return synced_mem_overwrite_gpu_data_on(mem, stream);
    case ACCESSES:
        break;
    }
    return NULL;
}

/* Does the same through the call that dispatches. */
static inline const void *do_chosen_access(synced_mem *mem, enum access access, synced_mem_stream stream)
{
    static const synced_mem_mode modes[] = {SYNCED_MEM_READ, SYNCED_MEM_MUTABLE, SYNCED_MEM_OVERWRITE};
    return synced_mem_access(mem, of_gpu(access) ? SYNCED_MEM_SIDE_GPU : SYNCED_MEM_SIDE_CPU, modes[access % 3],
                             access < ON_READ ? SYNCED_MEM_NO_STREAM : stream);
}

#endif
