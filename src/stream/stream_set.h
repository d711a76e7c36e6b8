/*
 * Sets of streams. The streams that have an object's pointer to read are published as one set, so that each of them
 * finds the pointer without the lock. A set never changes, and is never freed: a thread may search one that is published
 * no more.
 */
#ifndef SM_STREAM_SET_H
#define SM_STREAM_SET_H

#include "stream/stream.h"

enum { SM_SET_MOST = 16 };

/* Returns the set of these streams, 2 to SM_SET_MOST, all different, in any order, as a struct whose hot is
 * SM_HANDLE_OF_SET; NULL: nobody has made it. Does not block. */
struct sm_stream *sm_stream_set_find(struct sm_stream *const *streams, unsigned count);
/* Makes the set if there is none and a place is left. The caller holds the streams, and may not hold another brief
 * lock. */
void sm_stream_set_make(struct sm_stream *const *streams, unsigned count);

/* Returns whether one of the set's streams has the handle. */
bool sm_stream_set_has(const struct sm_stream *set, synced_mem_stream handle);
/* Returns the set's streams. */
unsigned sm_stream_set_members(const struct sm_stream *set, struct sm_stream *const **members);

#endif
