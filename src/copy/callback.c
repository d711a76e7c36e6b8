/* Calls of the caller's code, and the thread that reaps in passing. */
#include "copy/callback.h"

#include "base/hands.h"
#include "base/process.h"

#include <stdatomic.h>

/* Set while the thread runs code of the caller's that a copy is given to. */
static _Thread_local bool calls_back;

/* The generation plus one of the process in which a thread reaps in passing. 0: no thread does. */
static atomic_uint passed_by;
static _Thread_local unsigned passes_by; /* the same number in that thread, else 0 */

/* A forked child overwrites the number that its parent's thread has left. */
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
