/* The end of a write that makes bytes of a file the place of the contents it writes. Objects and the job share one. */
#ifndef SM_STORED_H
#define SM_STORED_H

#include "stream/fence.h"

enum sm_stored_state { SM_STORING, SM_STORED, SM_NOT_STORED };

struct sm_stored {
    atomic_uint holders;
    atomic_int state;       /* enum sm_stored_state; no longer SM_STORING before the fence is done */
    struct sm_fence *fence; /* held, of the job; set before anybody shares this */
};

/* Returns one with a holder; NULL: there is no host memory. */
struct sm_stored *sm_stored_make(void);
struct sm_stored *sm_stored_hold(struct sm_stored *stored);
/* Removes a holder. NULL: no effect. */
void sm_stored_drop(struct sm_stored *stored);

/* Notes how the write has ended. */
void sm_stored_end(struct sm_stored *stored, bool succeeded);

static inline enum sm_stored_state sm_stored_state(const struct sm_stored *stored)
{
    return (enum sm_stored_state)atomic_load_explicit(&stored->state, memory_order_acquire);
}

#endif
