/* The state machine: which work an access needs, and who waits for whom. */
#ifndef SM_COHERENCE_H
#define SM_COHERENCE_H

#include "call.h"
#include "transfer.h"

/* All take and release the object's lock; none holds it while it waits for a ticket on the host, or calls back. What
 * else can block, with the lock held: a copy from or to pageable memory that is too small to be staged, and the
 * synchronization of a stream behind which no event could be recorded. */

/* Makes the side's copy ready for the access, for every stream, and returns its pointer. */
synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out);

/* Makes the device copy ready for the access in the order of the caller's stream. */
synced_mem_status sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out);

/* Ends the stream's use of the device copy. */
synced_mem_status sm_done_on(struct synced_mem *mem, synced_mem_stream handle);

/* Whether the library's own work on the object is pending; with wait set it is waited for. */
synced_mem_status sm_pending(struct synced_mem *mem, bool wait, bool *pending);

/* ---- For the calls that move contents; with the lock held ---- */

/* Sees to it that a copy which an untracked transfer may still be writing is used no more. */
synced_mem_status sm_make_usable(struct synced_mem *mem, enum sm_side side);

/* Host memory for size bytes; the object's own is as it was. */
synced_mem_status sm_obtain_host(const struct synced_mem *mem, size_t size, bool zeroed, struct sm_copy **out);

/* Which device host memory of the object's is going to be transferred with; -1: nothing says that yet. */
int sm_device_for_host(const struct synced_mem *mem);

/* What the host has to wait for before the transfer of the contents to the side can be queued. NULL: nothing. callers:
 * it will be for a stream of the caller's. */
synced_mem_status sm_unready(struct synced_mem *mem, enum sm_side side, bool callers, struct sm_ticket **wait);

/* Device memory for size bytes, or memory that both sides use; the object's own is as it was. */
synced_mem_status sm_obtain_device(const struct synced_mem *mem, size_t size, const struct sm_stream *stream,
                                   struct sm_copy **out);

/* Prepares the transfer of the contents to the side, whose copy gets memory if it has none, in the stream's order, and
 * queues it; or begins it, if it is staged. *wait: nothing was done, and the host has to wait for that first. */
synced_mem_status sm_queue_move(struct synced_mem *mem, enum sm_side side, struct sm_stream *stream,
                                struct sm_transfer *transfer, struct sm_ticket **wait);

/* Sees to it that the side has memory, and if there is work to do, that it holds the contents: then the head has the
 * side's bit, and they may be arriving. stream: to do it on; NULL: one of the library's own. *wait: as above. */
synced_mem_status sm_provide(struct synced_mem *mem, enum sm_side side, enum sm_work work, struct sm_stream *stream,
                             struct sm_ticket **wait);

#endif
