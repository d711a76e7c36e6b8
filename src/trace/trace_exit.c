/* Calls a function when the process ends. */
#include "trace/trace_exit.h"

#include "system/process.h"

#include <stdatomic.h>

static void (*_Atomic at_exit)(void);

static void call_at_exit(void)
{
    void (*const function)(void) = atomic_load(&at_exit);
    if (function)
        function();
}

void sm_trace_set_exit(void (*function)(void))
{
    atomic_store(&at_exit, function);
}

void sm_trace_watch_exit(bool with_runtime)
{
    static atomic_flag watched[2] = {ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT};
    if (!atomic_flag_test_and_set_explicit(&watched[with_runtime], memory_order_relaxed))
        sm_watch_exit(call_at_exit);
}
