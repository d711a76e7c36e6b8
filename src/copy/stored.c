/* The end of a write that makes bytes of a file the place of the contents it writes. */
#include "copy/stored.h"

#include <stdlib.h>

struct sm_stored *sm_stored_make(void)
{
    struct sm_stored *const stored = calloc(1, sizeof *stored);
    if (stored)
        atomic_init(&stored->holders, 1);
    return stored;
}

struct sm_stored *sm_stored_hold(struct sm_stored *stored)
{
    atomic_fetch_add_explicit(&stored->holders, 1, memory_order_relaxed);
    return stored;
}

void sm_stored_drop(struct sm_stored *stored)
{
    if (!stored || atomic_fetch_sub_explicit(&stored->holders, 1, memory_order_acq_rel) > 1)
        return;
    sm_fence_drop(stored->fence);
    free(stored);
}

void sm_stored_end(struct sm_stored *stored, bool succeeded)
{
    atomic_store_explicit(&stored->state, succeeded ? SM_STORED : SM_NOT_STORED, memory_order_release);
}
