/*
 * Host memory of the caller's: whether the runtime knows it as page-locked, and page-locking it on request.
 *
 * What the runtime does not say, because it was not asked or did not answer, is taken as pageable: transfers then wait
 * where they need not. Memory that was found page-locked is asked about again before each transfer, since the caller
 * may have changed it meanwhile; memory that was found pageable is not.
 */
#ifndef SM_PIN_H
#define SM_PIN_H

#include "copy/copy.h"

/* Looks at the memory of a host copy, if it is the caller's and has not been found pageable. device: of the object, or
 * -1. ERR_INVALID_ARGUMENT: it is no memory that the host may use. */
synced_mem_status sm_pin_query(struct sm_copy *copy, int device);

/* Page-locks memory of the caller's, if it is not page-locked already. It stays so until sm_unpin(), whoever else
 * releases the same memory. On failure nothing has changed. */
synced_mem_status sm_pin(struct sm_copy *copy, int device);

/* Memory that is handed in while it is page-locked for another object stays so for this one too. */
void sm_pin_share(struct sm_copy *copy);

/* Undoes the two above, and is nothing to other copies. What the runtime answers is not told: the memory is the
 * caller's again. */
void sm_unpin(struct sm_copy *copy);

#endif
