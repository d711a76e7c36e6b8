/* What an access or a move needs of a side: memory, and the contents, which are there or arriving. All with the
 * object's lock held, which is released for nothing but the caller's allocators. */
#ifndef SM_FETCH_H
#define SM_FETCH_H

#include "object/transaction.h"
#include "copy/transfer.h"

/* Sees to it that a copy which an untracked transfer may still be writing is used no more. */
synced_mem_status sm_make_usable(struct synced_mem *mem, enum sm_side side);

/* Host memory for size bytes; the object's own is as it was. */
synced_mem_status sm_obtain_host(const struct synced_mem *mem, size_t size, bool zeroed, struct sm_copy **out);

/* What the host has to wait for before the transfer of the contents to the side can be queued. NULL: nothing. callers:
 * it will be for a stream of the caller's. */
synced_mem_status sm_unready(struct synced_mem *mem, enum sm_side side, bool callers, struct sm_fence **wait);

/* Device memory for size bytes, or memory that both sides use; the object's own is as it was. */
synced_mem_status sm_obtain_device(const struct synced_mem *mem, size_t size, const struct sm_stream *stream,
                                   struct sm_copy **out);

/* Prepares the transfer of the contents to the side, whose copy gets memory if it has none, in the stream's order, and
 * queues it; or begins it, if it is staged. *wait: nothing was done, and the host has to wait for that first. */
synced_mem_status sm_queue_move(struct synced_mem *mem, enum sm_side side, struct sm_stream *stream,
                                struct sm_transfer *transfer, struct sm_fence **wait);

/* Sees to it that the side has memory, and if there is work to do, that it holds the contents: then the head has the
 * side's bit, and they may be arriving. stream: to do it on; NULL: one of the library's own. *wait: as above. */
synced_mem_status sm_fetch(struct synced_mem *mem, enum sm_side side, enum sm_work work, struct sm_stream *stream,
                           struct sm_fence **wait);

/* Debug mode: fill a copy that is ready to be overwritten, so that what the caller leaves unwritten shows. On the
 * device the fill is in flight afterwards, on the stream, or on one of the library's own (NULL): whether the copy is
 * ready is to be asked again. A fill that the runtime refuses leaves the copy as it was. */
void sm_fill_unwritten_host(struct synced_mem *mem);
void sm_fill_unwritten_device(struct synced_mem *mem, struct sm_stream *stream);

#endif
