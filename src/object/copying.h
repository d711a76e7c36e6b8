/* Copies of contents from objects to others, and giving up contents. */
#ifndef SM_COPYING_H
#define SM_COPYING_H

#include "object/object.h"

/* Copies the contents of each object in from to the one at the same place in to, which are then on this side. On the
 * device in the order of the caller's stream; on the host it blocks until they are there. Takes the locks of all
 * objects. If memory is refused, reclaims some and tries again. *failed: the object of the failure, if one is. On
 * failure each object of to is as it was, or has the contents; or its contents are lost, see synced_mem.h. */
synced_mem_status sm_copy_objects(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                  enum sm_side side, synced_mem_stream handle, struct synced_mem **failed);

/* Makes the object's contents zeros, lazily: the head becomes UNINITIALIZED. The memory stays. Does not block. */
synced_mem_status sm_clear(struct synced_mem *mem);

#endif
