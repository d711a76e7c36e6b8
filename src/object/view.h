/* Making and releasing views. */
#ifndef SM_VIEW_H
#define SM_VIEW_H

#include "object/transaction.h"

/* Makes a new object a view of size bytes of an object or view, from offset on. Waits only for the lock. The caller
 * retains the root. On failure it is no view. ERR_INVALID_ARGUMENT: the bytes are not within the object or view.
 * ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_view_begin(struct synced_mem *view, const struct synced_mem *of, size_t offset, size_t size);

/* Ends a view that has no reference any more. Waits only for the lock. Ignores a view of 0 bytes. */
void sm_view_end(struct synced_mem *view);

#endif
