/*
 * Gathered sources: the bytes of many small pushes from pageable memory, one behind the other in few bounce buffers. So
 * the host neither takes nor gives back a buffer for each, and several threads can copy them.
 */
#ifndef SM_GATHER_H
#define SM_GATHER_H

#include "copy/bounce.h"

/* A source that is not copied yet. */
struct sm_gather_piece {
    void *to; /* its place in a buffer */
    const void *from;
    size_t size;
};

/* The buffers of one call's transfers. Beside pieces, all is 0 at first. */
struct sm_gather {
    struct sm_bounce *last;         /* linked to the one before it, and so on */
    size_t used;                    /* bytes of the last buffer */
    size_t room;                    /* of the last buffer */
    struct sm_gather_piece *pieces; /* the caller provides room for one of each transfer */
    size_t count;                   /* of pieces */
    size_t bytes;                   /* of all pieces */
};

/* Returns a place for a source in a buffer, which is aligned as the target is. count: of sources that the call may
 * have, from this one on. NULL: there is no page-locked memory, as with sm_bounce_take(). */
void *sm_gather_place(struct sm_gather *gather, int device, const void *to, size_t size, size_t count);

/* Lists a source, which sm_gather_fill() copies to its place. */
static inline void sm_gather_add(struct sm_gather *gather, void *place, const void *source, size_t size)
{
    gather->pieces[gather->count++] = (struct sm_gather_piece){place, source, size};
    gather->bytes += size;
}

/* Copies the listed sources, by several threads if they are large. On return they have been read. */
void sm_gather_fill(struct sm_gather *gather);

/* Keeps another buffer of the call's until they are given back. */
void sm_gather_keep(struct sm_gather *gather, struct sm_bounce *buffer);

/* Gives all buffers back, as sm_bounce_give(). Listed sources are not copied any more. */
void sm_gather_give(struct sm_gather *gather, struct sm_fence *fence);

/* Gives up all buffers, as sm_bounce_lose(). */
void sm_gather_lose(struct sm_gather *gather);

#endif
