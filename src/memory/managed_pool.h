/* The pool of managed memory. It keeps memory for reuse, since freeing may wait for the device. */
#ifndef SM_MANAGED_POOL_H
#define SM_MANAGED_POOL_H

#include "synced_mem.h"

#include <stdbool.h>

/* Allocates at least size bytes of managed memory with undefined contents, aligned to SM_DEVICE_ALIGNMENT. The device
 * is its preferred location. ERR_OUT_OF_DEVICE_MEMORY, also if it does not fit on the device beside what others hold
 * there. */
synced_mem_status sm_managed_pool_alloc(int device, size_t size, void **out);

/* Keeps the memory for reuse, or frees it. device, size: as allocated. No work may be in flight on the memory. */
void sm_managed_pool_free(int device, void *data, size_t size);

/* Frees all kept memory, because memory is short. Returns whether any was freed. */
bool sm_managed_pool_reclaim(void);

/* Frees all kept memory. If the runtime refuses, the rest is kept and can be freed later. */
synced_mem_status sm_managed_pool_shutdown(void);

#endif
