/* Page-locked host memory, kept for reuse: to page-lock memory is slow, and to free it waits for the device. */
#ifndef SM_HOST_POOL_H
#define SM_HOST_POOL_H

#include "synced_mem.h"

#include <stdbool.h>

/* At least size bytes, aligned to SM_DEVICE_ALIGNMENT, contents undefined, that every device can reach. device: in
 * whose
 * context new memory is page-locked. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_host_pool_alloc(int device, size_t size, void **out);

/* Keeps the memory for the next that asks for as much: no work may be in flight on it. device and size: as asked
 * for. */
void sm_host_pool_free(int device, void *data, size_t size);

/* Frees what is kept. */
synced_mem_status sm_host_pool_shutdown(void);

/* The same where memory is short; whether all of it could be. */
bool sm_host_pool_relieve(void);

#endif
