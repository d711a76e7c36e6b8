/* Turns of a shareable object: when this process may use the contents. */
#ifndef SM_ACQUIRE_H
#define SM_ACQUIRE_H

#include "base/deadline.h"
#include "object/shareable.h"

/* Waits for contents as wished and for a turn, and takes over the published head. To read, makes the side valid first.
 * Blocks until the deadline, and then for the transfer of contents to the side. On failure there is no turn.
 * ERR_INVALID_STATE: the process has a turn, or waits for one; the wished slot is not taken. ERR_TIMEOUT,
 * ERR_OWNER_DIED, ERR_PEER; ERR_INVALID_DEVICE: the process does not see the device that is needed; ERR_FORKED, GPU
 * errors. */
synced_mem_status sm_begin_turn(struct sm_sharing *sharing, enum sm_side side, struct sm_wish wish,
                                sm_deadline deadline);

/* Waits for this process's work on the object, publishes the head, and ends the turn. One that read for a slot has
 * consumed the contents. Blocks for calls of other threads on the object, too. On failure the turn goes on.
 * ERR_INVALID_STATE: there is no turn, or the memory is exported. GPU errors. */
synced_mem_status sm_end_turn(struct sm_sharing *sharing);
/* Does the same without publishing what was written, and without consuming what was read: as a death in the turn. A
 * lost device is no failure. */
synced_mem_status sm_abandon_turn(struct sm_sharing *sharing);

/* Gives the object to the process at the other end of the socket. Within a turn. Reserves the device memory before the
 * first time. Errors: as sm_shared_send(), sm_gate_begin(). */
synced_mem_status sm_share(struct sm_sharing *sharing, int socket, sm_deadline deadline);

/* Ends the turn, if there is one, and the use of an object that is about to be released. */
void sm_sharing_end(struct sm_sharing *sharing);

#endif
