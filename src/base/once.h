/* Work that a process does once, by the first thread that needs it. */
#ifndef SM_ONCE_H
#define SM_ONCE_H

#include <stdatomic.h>

enum { SM_ONCE_NEVER, SM_ONCE_DONE, SM_ONCE_BEGUN /* and more: by which process, see once.c */ };

/* All zeros: not done. */
struct sm_once {
    atomic_uint state;
};

/* Runs the work, or waits for the thread that runs it. A forked child whose parent was at it runs it again. */
void sm_once_run(struct sm_once *once, void (*work)(void));

/* Runs the work unless it is done. Blocks while another thread runs it. */
static inline void sm_once(struct sm_once *once, void (*work)(void))
{
    if (atomic_load_explicit(&once->state, memory_order_acquire) != SM_ONCE_DONE)
        sm_once_run(once, work);
}

#endif
