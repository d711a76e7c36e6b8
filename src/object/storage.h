/* Calls that change an object's memory or its size. */
#ifndef SM_STORAGE_H
#define SM_STORAGE_H

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

synced_mem_status sm_resize(struct synced_mem *mem, size_t size, bool keep);

#endif
