/* Handing in memory of the caller's. */
#ifndef SM_USER_MEMORY_H
#define SM_USER_MEMORY_H

#include "synced_mem.h"

/* Does all of synced_mem_use_memory() but its report. */
synced_mem_status sm_use_memory(synced_mem *mem, const synced_mem_memory *memory);

#endif
