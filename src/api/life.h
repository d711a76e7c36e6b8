/* The making of objects and views. */
#ifndef SM_LIFE_H
#define SM_LIFE_H

#include "synced_mem.h"

/* Makes an object, as synced_mem_create() does. *out is NULL after a failure. */
synced_mem_status sm_create(synced_mem **out, size_t size, const synced_mem_options *options);

/* Makes an object of shared memory that was received. Takes over the hold on the memory, also on failure. */
struct sm_shared_memory;
synced_mem_status sm_create_received(synced_mem **out, struct sm_shared_memory *memory);

/* Adds a reference. ERR_INVALID_STATE: the last one is already released. */
synced_mem_status sm_retain(struct synced_mem *mem);

/* Drops a reference, as synced_mem_release() does. */
synced_mem_status sm_release(struct synced_mem *mem);

/* Makes a view. options: only name and user are read; NULL: none. The caller owns *out. On failure *out is unchanged.
 * Errors: as sm_view_begin(). */
synced_mem_status sm_create_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                 const synced_mem_options *options);

#endif
