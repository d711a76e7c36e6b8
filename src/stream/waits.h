/*
 * Waits: the fences that the host waits for before a call goes on. A call on an object in many parts collects all that
 * it finds, so that it releases the object's lock, publishes and looks at the parts again once, and not once a fence.
 */
#ifndef SM_WAITS_H
#define SM_WAITS_H

#include "stream/fence.h"

enum { SM_FEW_WAITS = 4 };

struct sm_waits {
    size_t count, room;
    struct sm_fence **many; /* NULL: they fit in few */
    struct sm_fence *few[SM_FEW_WAITS];
};

static inline void sm_waits_begin(struct sm_waits *waits)
{
    waits->count = 0;
    waits->room = SM_FEW_WAITS;
    waits->many = NULL;
}

/* Adds a fence, and holds it. Ignores NULL. Returns whether there is room for another one: if not, the caller waits for
 * what it has, and looks again. Does not block. */
bool sm_waits_add(struct sm_waits *waits, struct sm_fence *fence);

/* Returns the first fence; NULL: there is none. The caller does not hold it. */
static inline struct sm_fence *sm_waits_first(const struct sm_waits *waits)
{
    struct sm_fence *const *const list = waits->many ? waits->many : waits->few;
    return waits->count > 0 ? list[0] : NULL;
}

/* Waits on the host for all fences, or with until_queued until a stream can wait for them. Blocks. Returns the first
 * failure. *over: no fence is open any more, or with until_queued none that failed; else a wait has failed. */
synced_mem_status sm_waits_wait(const struct sm_waits *waits, bool until_queued, bool *over);

/* Drops the fences. There are none then. */
void sm_waits_end(struct sm_waits *waits);

#endif
