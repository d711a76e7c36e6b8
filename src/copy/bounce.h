/*
 * Bounce buffers: page-locked memory that a small push from pageable memory is made from. The host copies the source
 * into one, so the source has been read when the push returns. The runtime promises no such thing of a copy from
 * pageable memory. A buffer goes back to the pool when the work behind its fence has ended.
 */
#ifndef SM_BOUNCE_H
#define SM_BOUNCE_H

#include "stream/fence.h"

struct sm_bounce;

/* A buffer that holds size bytes of the source. Waits for no work. NULL: no page-locked memory can be had, or the
 * buffers in flight have as many bytes as 16 staging buffers. */
struct sm_bounce *sm_bounce_take(int device, const void *source, size_t size);

const void *sm_bounce_data(const struct sm_bounce *bounce);

/* Gives the buffer back once the fence's work has ended; holds the fence. NULL: nothing is queued on the buffer.
 * Never blocks, and asks no device. */
void sm_bounce_give(struct sm_bounce *bounce, struct sm_fence *fence);

/* Gives the buffer up for good: nobody can tell when the work on it ends. */
void sm_bounce_lose(struct sm_bounce *bounce);

/* Whether work on any buffer is in flight, as far as is known without asking the device. */
bool sm_bounce_any(void);

/* Gives back the buffers whose work has ended. It asks the device once for each stream with such work. wait: waits for
 * all of it first, and returns why a buffer had to stay. */
synced_mem_status sm_bounce_reap(bool wait);

#endif
