/*
 * Host memory of the caller's: whether the runtime knows it as page-locked, and page-locking it on request.
 *
 * Memory counts as pageable unless the runtime has said otherwise. Its transfers then wait although they need not.
 * Memory that was found page-locked is queried again before each transfer, since the caller may have changed it. Memory
 * that was found pageable is not.
 *
 * Memory that the library page-locks is a registration. Each copy whose memory lies in one has a share in it. The
 * registration ends with its last share. Memory of which only a part lies in registrations counts as pageable, and as
 * partial: the runtime refuses a transfer across their borders, so it must not get the pointer.
 */
#ifndef SM_PIN_H
#define SM_PIN_H

#include "copy/copy.h"

/* Queries whether the memory of a host copy is page-locked, unless it is the library's or was found pageable. Takes a
 * share if another object has page-locked the memory, at whatever time. device: the object's, or -1. Does not block. A
 * query that fails leaves the memory pageable. ERR_INVALID_ARGUMENT: the host cannot use this memory. */
synced_mem_status sm_pin_query(struct sm_copy *copy, int device);

/* Page-locks memory of the caller's, if it is not page-locked. It stays page-locked until sm_unpin(), even if another
 * copy of the same memory is released. May block in the runtime. On failure nothing has changed. A refusal by the
 * runtime is noted, see base/refusal.h. ERR_OUT_OF_HOST_MEMORY. ERR_CUDA: a part of the memory is page-locked. */
synced_mem_status sm_pin(struct sm_copy *copy, int device);

/* Gives up the copy's share; ignores copies without one. The last share ends the registration, and the runtime may wait
 * for the device. No lock may be held. The runtime's failures are not reported, as the memory is the caller's again. */
void sm_unpin(struct sm_copy *copy);

/* Does the same, unless the share is the last one. Returns whether the copy has no share any more. Does not block. */
bool sm_unpin_shared(struct sm_copy *copy);

#endif
