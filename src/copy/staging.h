/* The settings of staged transfers: those of synced_mem_set_staging(), or defaults that were measured to be best. */
#ifndef SM_STAGING_H
#define SM_STAGING_H

#include "synced_mem.h"

#include <stddef.h>

/* Returns how many copy threads there may be. */
unsigned sm_staging_threads(void);
/* Returns the size of one buffer in bytes. Each thread has two. */
size_t sm_staging_buffer(void);
/* Returns the size in bytes from which transfers are staged. */
size_t sm_staging_minimum(void);
/* Returns the size in bytes from which pushes are staged: also those that are larger than a buffer. */
size_t sm_staging_least_push(void);

/* Fills in all three settings. The struct has the size that this version knows. */
void sm_staging_get(synced_mem_staging *staging);
/* Sets all three settings. ERR_INVALID_ARGUMENT: one is out of its bounds, and nothing has changed. */
synced_mem_status sm_staging_set(const synced_mem_staging *staging);

#endif
