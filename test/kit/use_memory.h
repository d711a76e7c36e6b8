/* synced_mem_use_memory() in one line, as most tests use it. */
#ifndef USE_MEMORY_H
#define USE_MEMORY_H

#include "synced_mem.h"

/* The members that are not named are zero. */
#define USE(mem, ...)                                                                                                  \
    synced_mem_use_memory((mem), &(synced_mem_memory){.struct_size = sizeof(synced_mem_memory), __VA_ARGS__})

/* cudaStreamLegacy: NULL names no stream there. */
#define LEGACY_HANDLE ((synced_mem_stream)1)

#endif
