/* Around code of the caller's, and the thread that reaps in passing. */
#include "copy/callback.h"

#include "base/hands.h"
#include "base/process.h"

#include <stdatomic.h>

/* The thread runs code of the caller's that a copy is given to. */
static _Thread_local bool calls_back;

/* Of the process one of whose threads passes by: its generation plus one. 0: no thread does. */
static atomic_uint passed_by;
static _Thread_local unsigned passes_by; /* the same if the thread is the one, else 0 */

/* What the parent's thread has left is overwritten. */
bool sm_passing_begin(void)
{
    const unsigned own = sm_process_generation() + 1;
    unsigned seen = atomic_load_explicit(&passed_by, memory_order_relaxed);
    if (seen == own || !atomic_compare_exchange_strong(&passed_by, &seen, own))
        return false;
    passes_by = own;
    return true;
}

void sm_passing_end(void)
{
    unsigned own = passes_by;
    passes_by = 0;
    if (own != 0)
        (void)atomic_compare_exchange_strong(&passed_by, &own, 0);
}

bool sm_callback_runs(void)
{
    return calls_back;
}

bool sm_callback_begin(void)
{
    const bool before = calls_back;
    calls_back = true;
    sm_passing_end();
    sm_hands_empty(false);
    return before;
}

void sm_callback_end(bool before)
{
    calls_back = before;
    sm_hands_fill();
}
