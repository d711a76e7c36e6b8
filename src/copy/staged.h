/*
 * Staged transfers: pageable memory moves through page-locked buffers, which several threads fill or empty while the
 * device reads or writes others. A transfer is cut into chunks; the library's copy threads take them one by one, and so
 * does every thread that waits for the transfer, so that it gets on even where no copy thread is free.
 */
#ifndef SM_STAGED_H
#define SM_STAGED_H

#include "copy/transfer.h"

/* Whether a transfer of so many bytes from or to this host copy is staged: if it is worth it, and in any case a push
 * that is larger than a buffer. up: to the device. */
bool sm_is_staged(const struct sm_copy *host, size_t size, bool up);

/*
 * Enters a staged transfer as work in flight on both copies, and begins it on the internal stream. The device copy's
 * fence is queued once the device's part is, and the host copy's done once the host's part is. What writes the source
 * must be done, or be what after stands for (NULL: nothing), which is held; and nothing may be in flight on the target
 * but on the internal stream. On failure nothing changed.
 */
synced_mem_status sm_staged_begin(const struct sm_transfer *transfer, struct sm_stream *internal,
                                  struct sm_fence *after);

/* Whether there are copy threads, so that a transfer gets on though nobody waits for it. */
bool sm_staged_goes_on(void);

/* Ends a transfer that nobody has begun to work on, unless a copy thread will: nothing was moved.
 * arrival: the target's fence, held; the head does not count on it. */
void sm_staged_cancel(struct sm_fence *arrival);

/* Ends the copy threads. */
void sm_staged_shutdown(void);

#endif
