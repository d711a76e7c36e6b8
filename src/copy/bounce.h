/*
 * Bounce buffers: page-locked memory for small pushes from pageable memory. The host copies the source into one, so the
 * source has been read when the push returns. The runtime does not promise that for a copy from pageable memory. A
 * buffer returns to the pool when the work behind its fence has ended.
 */
#ifndef SM_BOUNCE_H
#define SM_BOUNCE_H

#include "stream/fence.h"

struct sm_bounce;

/* Returns a buffer with size bytes of the source, or of undefined contents without one, which the caller gives or
 * loses. Waits for no work. NULL: no page-locked memory is available, or the buffers in flight hold as many bytes as 24
 * staging buffers. */
struct sm_bounce *sm_bounce_take(int device, const void *source, size_t size);

/* Returns a link for a list of buffers that its taker keeps. */
struct sm_bounce **sm_bounce_link(struct sm_bounce *bounce);

/* Returns the bytes in the buffer. */
void *sm_bounce_data(const struct sm_bounce *bounce);

/* Gives the buffer back once the fence's work has ended. Takes a hold of its own on the fence; NULL: nothing is queued
 * on the buffer. Never blocks, and queries no device. */
void sm_bounce_give(struct sm_bounce *bounce, struct sm_fence *fence);

/* Gives up the buffer for ever, as nobody can tell when the work on it ends. */
void sm_bounce_lose(struct sm_bounce *bounce);

/* Returns whether work on any buffer is in flight, without a query to the device. */
bool sm_bounce_any(void);

/* Gives back the buffers whose work has ended. Polls once for each stream with such work. wait: first waits for all of
 * it, which blocks. Returns why a buffer had to stay. */
synced_mem_status sm_bounce_reap(bool wait);

#endif
