/*
 * Waits: the fences that the host waits for before a call goes on. A call on an object in many parts collects all that
 * it finds, so that it releases the object's lock, publishes and looks at the parts again once, and not once a fence.
 */
#ifndef SM_WAITS_H
#define SM_WAITS_H

#include "base/status.h"
#include "stream/fence.h"

enum { SM_FEW_WAITS = 4 };

/* A host wait without these lasts until the fence's work is done, and fails if that has failed. */
enum {
    SM_UNTIL_QUEUED = 1, /* only until a stream can wait for the fence */
    SM_MAY_FAIL = 2      /* the call overwrites what the work has written, so it goes on if the work fails */
};

struct sm_wait {
    struct sm_fence *fence;
    unsigned purpose;
};

/* There are none if all is zeros, and after sm_waits_begin(). */
struct sm_waits {
    size_t count;
    size_t room;          /* of many */
    struct sm_wait *many; /* NULL: they fit in few */
    struct sm_wait few[SM_FEW_WAITS];
    bool full; /* there is no room for another one */
    /* Of a call on one record, until it ends: it waits, or has waited, for all kernels that were launched before it
     * with pointers given out without a stream. */
    bool ends_kernels;
};

static inline void sm_waits_begin(struct sm_waits *waits)
{
    waits->count = 0;
    waits->many = NULL;
    waits->full = false;
    waits->ends_kernels = false;
}

/* The part of sm_waits_add_for() for a fence that is not NULL. */
synced_mem_status sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose);

/* Adds a fence, and holds it. purpose: a sum of the values above. Returns SM_AGAIN; OK if the fence is NULL. Does not
 * block. */
static inline synced_mem_status sm_waits_add_for(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose)
{
    return fence ? sm_waits_add_fence(waits, fence, purpose) : SYNCED_MEM_OK;
}

/* Adds a fence to wait for until its work is done. */
static inline synced_mem_status sm_waits_add(struct sm_waits *waits, struct sm_fence *fence)
{
    return sm_waits_add_for(waits, fence, 0);
}

/* Returns OK in place of SM_AGAIN while there is room for another fence, for a call that collects the waits of several
 * records: it goes on with the next record. */
static inline synced_mem_status sm_waits_go_on(const struct sm_waits *waits, synced_mem_status status)
{
    return status == SM_AGAIN && !waits->full ? SYNCED_MEM_OK : status;
}

/* Returns SM_AGAIN if there are some. */
static inline synced_mem_status sm_waits_status(const struct sm_waits *waits)
{
    return waits->count > 0 ? SM_AGAIN : SYNCED_MEM_OK;
}

/* Waits on the host for each fence. Blocks. Returns the first failure of one that may not fail. *ended: false if a
 * fence failed and its work may still run; the rest was then not waited for. */
synced_mem_status sm_waits_wait(const struct sm_waits *waits, bool *ended);

/* Drops the fences. There are none then. */
void sm_waits_end(struct sm_waits *waits);

#endif
