/* Copies contents between objects, and gives up contents. */
#ifndef SM_COPYING_H
#define SM_COPYING_H

#include "object/object.h"

/* Copies the contents of each object in from to the object with the same index in to. Then they are valid on this side
 * alone. On the device the copies are in the order of the caller's stream. On the host the call blocks until the
 * contents have arrived. Takes the locks of all objects. If memory is refused, reclaims some and tries again. *failed:
 * the object that the failure concerns, or NULL. On failure each object of to is unchanged, has the contents, or has
 * lost its contents as synced_mem.h describes. */
synced_mem_status sm_copy_objects(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                  enum sm_side side, synced_mem_stream handle, struct synced_mem **failed);

/* Gives up the object's contents: the head becomes UNINITIALIZED. The memory stays. Does not block. */
synced_mem_status sm_clear(struct synced_mem *mem);

#endif
