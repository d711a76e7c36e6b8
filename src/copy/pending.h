/*
 * The streams whose work a pass over many copies has seen pending. Later events of such a stream are pending too, so
 * the pass queries one event a stream, however many streams there are.
 */
#ifndef SM_PENDING_H
#define SM_PENDING_H

#include "stream/fence.h"

enum { SM_FEW_PENDING = 16 };

/* The earliest event of a stream that was seen pending. */
struct sm_seen {
    uint64_t stream; /* 0: the slot is free */
    uint64_t order;
};

/* A hash table. Initialized by zeros. */
struct sm_pending {
    size_t count, room;   /* room is a power of two; 0: few has the slots */
    struct sm_seen *many; /* NULL: few has the slots */
    struct sm_seen few[SM_FEW_PENDING];
};

/* Notes a fence that was seen pending. Without memory for more streams some are forgotten, and queried again. */
void sm_pending_note(struct sm_pending *pending, const struct sm_fence *fence);
/* Returns whether the fence is pending because an earlier one of its stream is. */
bool sm_pending_has(const struct sm_pending *pending, const struct sm_fence *fence);
void sm_pending_end(struct sm_pending *pending);

#endif
