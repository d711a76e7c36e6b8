/* Making and releasing views. */
#ifndef SM_VIEW_H
#define SM_VIEW_H

#include "object/transaction.h"

/* Makes a new object a view of size bytes of an object or view, from offset on. Waits only for the lock. The caller
 * retains the root. On failure it is no view. ERR_INVALID_ARGUMENT: the bytes are not within the object or view.
 * ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_view_begin(struct synced_mem *view, const struct synced_mem *of, size_t offset, size_t size);

/* Fails with ERR_INVALID_ARGUMENT unless the bytes are within the object or view. */
synced_mem_status sm_view_check_range(const struct synced_mem *of, size_t offset, size_t size);

/* Ends a view that has no reference any more. Waits only for the lock. Ignores a view of 0 bytes. */
void sm_view_end(struct synced_mem *view);

/* Does the same, gives up the memory of a view of 0 bytes, and drops the view's reference to its root, if the root has
 * other references: then returns true. Else nothing has changed, and the root's only reference is the caller's, as no
 * other thread can retain it. The root may be without references before this returns. So whoever destroys a root takes
 * its lock first. */
bool sm_view_leave(struct synced_mem *view);

#endif
