/*
 * Gathered sources: the bytes of many small pushes from pageable memory, one behind the other in few bounce buffers. So
 * the host copies a source, and neither takes nor gives back a buffer for each.
 */
#ifndef SM_GATHER_H
#define SM_GATHER_H

#include "copy/bounce.h"

/* The buffers of one call's transfers. {NULL}: there is none. */
struct sm_gather {
    struct sm_bounce *last; /* each buffer begins with a pointer to the one before it */
    size_t used;            /* bytes of the last buffer */
    size_t room;            /* of the last buffer */
};

/* Copies the source into a buffer, and returns its place there, which is aligned as the target is. count: of sources
 * that the call may have, from this one on. NULL: there is no page-locked memory, as with sm_bounce_take(). */
const void *sm_gather_add(struct sm_gather *gather, int device, const void *to, const void *source, size_t size,
                          size_t count);

/* Gives all buffers back, as sm_bounce_give(). */
void sm_gather_give(struct sm_gather *gather, struct sm_fence *fence);

/* Gives up all buffers, as sm_bounce_lose(). */
void sm_gather_lose(struct sm_gather *gather);

#endif
