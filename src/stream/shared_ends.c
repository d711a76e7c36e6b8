/* Shared ends. */
#include "stream/shared_ends.h"

#include <assert.h>

static _Thread_local struct sm_shared_ends *shared; /* of the call that the thread is in */

void sm_share_ends(struct sm_shared_ends *ends)
{
    assert(!shared);
    *ends = (struct sm_shared_ends){.added = 0};
    shared = ends;
}

void sm_share_no_ends(void)
{
    for (unsigned i = 0; i < SM_SHARED_ENDS; i++)
        sm_fence_drop(shared->fences[i]);
    shared = NULL;
}

struct sm_fence *sm_shared_end(uint64_t serial)
{
    for (unsigned i = 0; shared && i < SM_SHARED_ENDS; i++)
        if (shared->fences[i] && shared->fences[i]->stream == serial)
            return shared->fences[i];
    return NULL;
}

void sm_shared_end_add(struct sm_fence *fence)
{
    if (!shared)
        return;
    struct sm_fence **const slot = &shared->fences[shared->added++ % SM_SHARED_ENDS];
    sm_fence_drop(*slot);
    *slot = sm_fence_hold(fence);
}
