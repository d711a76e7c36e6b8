/* In whose order device memory is freed. */
#ifndef SM_FREE_H
#define SM_FREE_H

#include "copy/copy.h"

/* An internal stream that comes after everything that is in flight on the copy. */
synced_mem_status sm_free_order(struct sm_copy *copy, struct sm_stream **internal);

/* Frees the library's own device memory behind everything that is in flight on it; blocks only where there are no
 * pools. The record stays. */
synced_mem_status sm_free_device(struct sm_copy *copy);

#endif
