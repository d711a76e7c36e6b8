/*
 * Staged transfers: pageable memory moves through page-locked buffers. Several threads fill or empty some buffers while
 * the device reads or writes others. A transfer is cut into chunks, and a chunk into pieces. The library's copy threads
 * take the pieces one by one, and so does every thread that waits for the transfer. So it makes progress even where no
 * copy thread is free.
 */
#ifndef SM_STAGED_H
#define SM_STAGED_H

#include "copy/transfer.h"

/* Returns whether a transfer of so many bytes from or to this host copy is staged. It is if that is faster, and a push
 * is if it is larger than a buffer. A transfer of a pageable part always is: the lock of its root is held while a
 * transfer is queued. up: to the device. */
bool sm_is_staged(const struct sm_copy *host, size_t size, bool up);

/*
 * Enters a staged transfer as work in flight on both copies, and begins it on the internal stream. Does not block. The
 * device copy's fence is pending once the device's part is queued. The host copy's fence is done once the host's part
 * is. The work that writes the source must be done, or be covered by after (NULL: none), on which this takes a hold.
 * Nothing may be in flight on the target but on the internal stream. On failure nothing has changed.
 */
synced_mem_status sm_staged_begin(const struct sm_transfer *transfer, struct sm_stream *internal,
                                  struct sm_fence *after);

/* Returns whether there are copy threads, so that a transfer makes progress though nobody waits for it. */
bool sm_staged_has_threads(void);

/* Ends a transfer that no thread has begun, unless there are copy threads. Nothing is moved then. arrival: the target's
 * fence, which stays held. The head must not count on it. Ignores fences of other work, and NULL. */
void sm_staged_cancel(struct sm_fence *arrival);

/* Ends the copy threads, and waits for them. */
void sm_staged_shutdown(void);

#endif
