/*
 * Debug mode: protects a host copy that the program may not touch. The protection follows from the head, and is set
 * when the object's lock is released:
 *
 *    the host copy is stale    no access: each pointer to it has expired
 *    SYNCED                    no writes: pointers of mutable accesses have expired
 *    it alone is valid         not protected
 *
 * The hot path gets no pointer to write: each overwrite takes the slow path, and fills its memory. The library opens
 * the copy before it touches the memory itself. Memory that copy threads still read or write stays open to them.
 */
#ifndef SM_GUARDING_H
#define SM_GUARDING_H

#include "object/object.h"

/* Protects the record's host copy as its head requires. With the object's lock held. */
__attribute__((cold)) void sm_protect(const struct sm_record *record);

#endif
