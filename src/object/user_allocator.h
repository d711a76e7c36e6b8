/* Memory from the caller's allocators, which are called with the object's lock released: the one place that does so. */
#ifndef SM_USER_ALLOCATOR_H
#define SM_USER_ALLOCATOR_H

#include "object/object.h"
#include "stream/stream.h"

/* Which device host memory of the object's is going to be transferred with; -1: nothing says that yet. */
int sm_device_for_host(const struct synced_mem *mem);

/* The allocator to be asked for memory, if the side has none. */
const struct sm_allocator *sm_user_allocator_wanted(const struct synced_mem *mem, enum sm_side side);

/* Memory of the size that is not the object's yet. Device memory is usable in the stream's order, and entered as work
 * in flight there. With the lock held, which is released meanwhile: everything has to be looked at again. */
synced_mem_status sm_user_allocator_obtain_unlocked(struct synced_mem *mem, const struct sm_allocator *allocator,
                                                    size_t size, struct sm_stream *stream, struct sm_copy **out);

/* As that, for what the object lacks, which becomes capacity of its own, unless another thread was faster. *again: what
 * to wait for before all is looked at again. */
synced_mem_status sm_user_allocator_obtain(struct synced_mem *mem, enum sm_side side, struct sm_stream *stream,
                                           struct sm_fence **again);

#endif
