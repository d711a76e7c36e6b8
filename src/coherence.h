/* The state machine: which work an access needs, who waits for whom, and the one place where the head is written. */
#ifndef SM_COHERENCE_H
#define SM_COHERENCE_H

#include "object.h"

enum sm_mode { SM_READ, SM_MUTABLE, SM_OVERWRITE, SM_MODES };

/* All take and release the object's lock; none holds it while it waits for a ticket on the host, or calls back. What
 * else can block, with the lock held: a copy from or to pageable memory, and the synchronization of a stream behind
 * which no event could be recorded. */

/* Makes the side's copy ready for the access, and returns its pointer. */
synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out);

/* Queues the host copy's transfer to the device on the stream. */
synced_mem_status sm_push(struct synced_mem *mem, sm_stream stream);

/* Gives up one side's memory, contents kept. */
synced_mem_status sm_release_side(struct synced_mem *mem, enum sm_side side);

/* Puts copies in place of what is there, as the current contents. NULL: that side keeps its memory, which is stale
 * then; both NULL: neither side keeps any. On failure the copies are still the caller's. */
synced_mem_status sm_replace(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu);

#endif
