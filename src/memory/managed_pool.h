/* Managed memory, kept for reuse: to free it may wait for the device. */
#ifndef SM_MANAGED_POOL_H
#define SM_MANAGED_POOL_H

#include "synced_mem.h"

#include <stdbool.h>

/* At least size bytes, aligned to SM_DEVICE_ALIGNMENT, contents undefined, preferred to be on the device. Never more
 * than fits on it beside what others have there: ERR_OUT_OF_DEVICE_MEMORY. */
synced_mem_status sm_managed_pool_alloc(int device, size_t size, void **out);

/* Keeps the memory for the next that asks for as much, or frees it: no work may be in flight on it. device and size: as
 * asked for. */
void sm_managed_pool_free(int device, void *data, size_t size);

/* Frees what is kept, for want of memory. Whether that was any. */
bool sm_managed_pool_reclaim(void);

/* Frees what is kept. What fails stays, for a later try. */
synced_mem_status sm_managed_pool_shutdown(void);

#endif
