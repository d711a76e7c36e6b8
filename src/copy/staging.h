/* How pageable memory is moved: what synced_mem_set_staging() says, or what was found to be best. */
#ifndef SM_STAGING_H
#define SM_STAGING_H

#include "synced_mem.h"

#include <stddef.h>

unsigned sm_staging_threads(void);
/* The size of one buffer; each thread has two. */
size_t sm_staging_buffer(void);
/* Transfers of so many bytes and more. */
size_t sm_staging_minimum(void);
/* Of pushes also those that are larger than a buffer, so these are staged from so many bytes on. */
size_t sm_staging_least_push(void);

/* All three; the struct is of the size that this version knows. */
void sm_staging_get(synced_mem_staging *staging);
/* ERR_INVALID_ARGUMENT: one is out of its bounds, and nothing has changed. */
synced_mem_status sm_staging_set(const synced_mem_staging *staging);

#endif
