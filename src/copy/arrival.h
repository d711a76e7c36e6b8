/*
 * Arrivals: small pulls into pageable memory. The device writes the bytes to a bounce buffer, in the stream's order.
 * Once they are there, the first thread that waits for the arrival or polls it copies them to their place. The runtime
 * would block the caller instead, and is slower.
 */
#ifndef SM_ARRIVAL_H
#define SM_ARRIVAL_H

#include "stream/fence.h"

struct sm_arrival;

/* Larger pulls are slower this way than by the runtime or by threads. */
enum { SM_LARGEST_ARRIVAL = 131072 };

/* Returns an arrival of size bytes at to, which the caller begins or gives up. Waits for no work. is_awaited: the
 * caller waits for the arrival at once; a thread that waits reads the target into its caches meanwhile. NULL: the
 * arrival is too large, or no memory is available. */
struct sm_arrival *sm_arrival_make(int device, void *to, size_t size, bool is_awaited);

/* Returns the buffer, which the device is to write. */
void *sm_arrival_buffer(const struct sm_arrival *arrival);

/* Returns the fence of the arrival, which the caller holds. It is queueing until the bytes are in their place.
 * transferred: stands for the device's part, and is held; NULL: that is over. */
struct sm_fence *sm_arrival_begin(struct sm_arrival *arrival, struct sm_fence *transferred);

/* Gives up an arrival that was not begun. stray: the device may still write the buffer. */
void sm_arrival_give_up(struct sm_arrival *arrival, bool stray);

#endif
