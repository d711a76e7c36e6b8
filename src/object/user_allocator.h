/* Memory from the caller's allocators. Only these functions call them for an object, with its lock released. */
#ifndef SM_USER_ALLOCATOR_H
#define SM_USER_ALLOCATOR_H

#include "object/object.h"
#include "stream/stream.h"

/* Returns the device that the object's host memory will be transferred with; -1: not known, or not usable. */
int sm_device_for_host(const struct synced_mem *mem);

/* Returns the allocator to call if the side has no memory; NULL: none, or the side has memory. */
const struct sm_allocator *sm_user_allocator_wanted(const struct synced_mem *mem, enum sm_side side);

/* Obtains memory of the size, which is not the object's yet. With the lock held, which is released meanwhile. The
 * caller owns *out, and must read the object's state again. Device memory is usable in the stream's order, and its
 * allocation is entered as work in flight there. On failure *out is unchanged. */
synced_mem_status sm_user_allocator_obtain_unlocked(struct synced_mem *mem, const struct sm_allocator *allocator,
                                                    size_t size, struct sm_stream *stream, struct sm_copy **out);

/* Does the same for the side's missing memory, which becomes the object's unless another thread was faster. Returns
 * SM_AGAIN, as the lock was released. */
synced_mem_status sm_user_allocator_obtain(struct synced_mem *mem, enum sm_side side, struct sm_stream *stream);

#endif
