/*
 * Debug mode: a host copy that its owner may not touch is protected. What it is protected from follows from the head,
 * and is set where the object's lock is let go of:
 *
 *   the host copy is stale    from everything: each pointer to it has expired
 *   SYNCED                    from writes: pointers of mutable accesses have expired
 *   it alone is valid         from nothing
 *
 * No pointer to write is published for the hot path: each overwrite takes the slow path, and fills what it gives. The
 * library opens the copy before it touches that itself. Memory that copy threads still read or write is not protected
 * from that.
 */
#ifndef SM_GUARDING_H
#define SM_GUARDING_H

#include "object/object.h"

/* Protects the object's host copy as its head says; with its lock held. */
void sm_protect(const struct synced_mem *mem);

#endif
