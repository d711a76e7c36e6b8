/* The state machine: which work an access needs, and who waits for whom. */
#ifndef SM_ACCESS_H
#define SM_ACCESS_H

#include "object/transaction.h"

/* All take and release the object's lock; none holds it while it waits for a fence on the host, or calls back. What
 * else can block, with the lock held: a copy from or to pageable memory that is too small to be staged, and the
 * synchronization of a stream behind which no event could be recorded. */

/* Makes the side's copy ready for the access, for every stream, and returns its pointer. */
synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out);

/* Makes the device copy ready for the access in the order of the caller's stream. */
synced_mem_status sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out);

/* Ends the stream's use of the device copy. */
synced_mem_status sm_end_use_on(struct synced_mem *mem, synced_mem_stream handle);

/* Whether the library's own work on the object is pending; with wait set it is waited for. */
synced_mem_status sm_pending(struct synced_mem *mem, bool wait, bool *pending);

#endif
