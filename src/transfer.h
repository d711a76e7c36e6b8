/* Moving bytes between two copies, and filling one with zeros: queued in the order that the work in flight on them asks
 * for, and entered there as work in flight. */
#ifndef SM_TRANSFER_H
#define SM_TRANSFER_H

#include "copy.h"

enum sm_direction { SM_H2D, SM_D2H };

/*
 * Queues size bytes from one copy to the other on a stream of the device. On success it is a read of the one and the
 * write of the other, which is arriving. On failure nothing changed, except that a copy may be untracked: a transfer
 * runs that nobody can wait for. The one it writes must then be let go of; the one it reads stays good to use.
 */
synced_mem_status sm_transfer(enum sm_direction direction, struct sm_copy *to, struct sm_copy *from, size_t size,
                              int device, sm_stream stream);

/* Queues a fill of a device copy with zeros. Otherwise as sm_transfer(). */
synced_mem_status sm_transfer_zeros(struct sm_copy *to, size_t size, sm_stream stream);

/* Makes a device copy's allocation on the stream its write: an access waits until the memory may be used. */
synced_mem_status sm_transfer_none(struct sm_copy *to, sm_stream stream);

#endif
