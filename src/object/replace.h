/* Calls that give up or replace an object's memory. */
#ifndef SM_REPLACE_H
#define SM_REPLACE_H

#include "object/transaction.h"

/* Gives up one side's memory, contents kept. */
synced_mem_status sm_release_side(struct synced_mem *mem, enum sm_side side);

/* Puts copies in place of what is there, as the current contents. NULL: that side keeps its memory, which is stale
 * then; both NULL: neither side keeps any. On failure the copies are still the caller's. */
synced_mem_status sm_replace(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu);

/* As that, for contents that are ready in the order of a stream. The object's device, if it has one yet, must be the
 * stream's. */
synced_mem_status sm_replace_on(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu,
                                synced_mem_stream handle);

/* The library's work on borrowed memory that is about to be handed back; it may have got out of sight. *wait NULL: there
 * is none. */
synced_mem_status sm_blocker_of_borrowed(struct sm_copy *copy, struct sm_fence **wait);

#endif
