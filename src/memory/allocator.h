/* User allocators: structs of the tables that users set, and calls through them. */
#ifndef SM_ALLOCATOR_H
#define SM_ALLOCATOR_H

#include "base/side.h"
#include "synced_mem.h"

#include <stdbool.h>

/* The struct of a table. It never changes and is freed only at shutdown. Equal tables have one struct. */
struct sm_allocator;

/* The arguments of an allocation. The free function gets the same ones. */
struct sm_request {
    size_t size;
    size_t alignment;
    int device;
    synced_mem_stream stream;
};

/* Finds or creates the allocator of a user's table for one side. Sets *out; NULL if table is NULL. The library owns the
 * allocator. ERR_INVALID_ARGUMENT: the table is invalid. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_allocator_find(const synced_mem_allocator *table, enum sm_side side,
                                    const struct sm_allocator **out);

/* Sets the tables for objects without one of their own. NULL: the library's own memory. On failure nothing has changed.
 * ERR_INVALID_ARGUMENT: a table is invalid. */
synced_mem_status sm_allocator_set_for_all(const synced_mem_allocator *cpu, const synced_mem_allocator *gpu);

/* Returns the allocator for objects without one of their own. NULL: the library's own memory. */
const struct sm_allocator *sm_allocator_of_all(enum sm_side side);

bool sm_allocator_is_of_host(const struct sm_allocator *allocator);

/* Allocates memory through the allocator. *pinned: it is page-locked host memory. Memory that is not aligned, or of the
 * wrong kind as far as the runtime knows, is given back: ERR_INVALID_STATE. The thread must hold no lock. */
synced_mem_status sm_allocator_take(const struct sm_allocator *allocator, const struct sm_request *request, void **out,
                                    bool *pinned);
/* Frees memory through the allocator. The thread must hold no lock. */
void sm_allocator_give(const struct sm_allocator *allocator, const struct sm_request *request, void *data);

/* Frees all allocators, which must be unused. */
void sm_allocator_shutdown(void);

#endif
