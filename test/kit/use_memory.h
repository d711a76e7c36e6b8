/* synced_mem_use_memory() in one line, in the form that most tests need. */
#ifndef USE_MEMORY_H
#define USE_MEMORY_H

#include "synced_mem.h"

/* Members that are not named are zero. */
#define USE(mem, ...)                                                                                                  \
    synced_mem_use_memory((mem), &(synced_mem_memory){.struct_size = sizeof(synced_mem_memory), __VA_ARGS__})

/* cudaStreamLegacy, as NULL means no stream there. */
#define LEGACY_HANDLE ((synced_mem_stream)1)

#endif
