/*
 * Host memory of the caller's: whether the runtime knows it as page-locked, and page-locking it on request.
 *
 * Memory counts as pageable unless the runtime has said otherwise. Its transfers then wait although they need not.
 * Memory that was found page-locked is queried again before each transfer, since the caller may have changed it. Memory
 * that was found pageable is not.
 */
#ifndef SM_PIN_H
#define SM_PIN_H

#include "copy/copy.h"

/* Queries the runtime about the memory of a host copy, unless it is the library's or was found pageable. device: the
 * object's, or -1. Does not block. A query that fails leaves the memory pageable. ERR_INVALID_ARGUMENT: the host cannot
 * use this memory. */
synced_mem_status sm_pin_query(struct sm_copy *copy, int device);

/* Page-locks memory of the caller's, if it is not page-locked. It stays page-locked until sm_unpin(), even if another
 * copy of the same memory is released. May block in the runtime. On failure nothing has changed. */
synced_mem_status sm_pin(struct sm_copy *copy, int device);

/* Takes a share in the registration of memory that is page-locked for another object. So it stays page-locked for this
 * copy too. */
void sm_pin_share(struct sm_copy *copy);

/* Undoes sm_pin() and sm_pin_share(); ignores other copies. The runtime's failures are not reported, as the memory is
 * the caller's again. */
void sm_unpin(struct sm_copy *copy);

#endif
