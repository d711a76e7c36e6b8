/*
 * Shared ends: in a call on several records, one event on a stream ends the stream's uses of all of them.
 *
 * The event covers the work that the stream was given before the call. So the thread holds the locks of all objects
 * from sm_share_ends() to sm_share_no_ends(), or, as an unhold does, ends no use that may have begun meanwhile. Work
 * that other threads launch meanwhile is in no order with the call.
 */
#ifndef SM_SHARED_ENDS_H
#define SM_SHARED_ENDS_H

#include "stream/fence.h"

/* Of more streams the last ones are remembered. */
enum { SM_SHARED_ENDS = 4 };

struct sm_shared_ends {
    struct sm_fence *fences[SM_SHARED_ENDS]; /* held */
    unsigned added;
};

/* From now on sm_stream_end_use() shares ends in this thread. Calls do not nest. Does not block. */
void sm_share_ends(struct sm_shared_ends *ends);
void sm_share_no_ends(void);

/* Returns the fence that the call has recorded on the stream with this serial. NULL: none, or no ends are shared. The
 * caller does not hold it. */
struct sm_fence *sm_shared_end(uint64_t serial);
/* Adds a fence that was just recorded, and holds it. No effect if no ends are shared. */
void sm_shared_end_add(struct sm_fence *fence);

#endif
