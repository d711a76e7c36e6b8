/* Calls that give up or replace an object's memory. */
#ifndef SM_REPLACE_H
#define SM_REPLACE_H

#include "object/transaction.h"

/* Gives up one side's memory and keeps the contents. If this side alone has them, blocks until the other side has. Also
 * blocks until the library's work on borrowed memory has ended. If memory is refused, reclaims some and tries again. On
 * failure nothing is given up. */
synced_mem_status sm_release_side(struct synced_mem *mem, enum sm_side side);

/* Gives up the memory of both sides; the contents are zeros then. Blocks until the library's work on borrowed memory
 * has ended. On failure nothing is given up. */
synced_mem_status sm_release_memory(struct synced_mem *mem);

/* Replaces the object's copies by these, of which one is not NULL and which hold the current contents. Takes them over;
 * on failure they are still the caller's. NULL: that side keeps its memory, which is then stale. Blocks until the
 * library's work on borrowed memory has ended. ERR_INVALID_DEVICE: gpu is on another device than the object.
 * ERR_INVALID_ARGUMENT: the memory is the object's own. ERR_INVALID_STATE: the placement is unified, or another call
 * has resized the object. */
synced_mem_status sm_replace(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu);

/* Does the same for contents that are ready in the order of a stream. If the object has a device it must be the
 * stream's. ERR_CAPTURING: the stream captures. */
synced_mem_status sm_replace_on(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu,
                                synced_mem_stream handle);

#endif
