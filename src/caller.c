/* The calling thread's public function, and its call place. */
#include "caller.h"

#include "debug.h"
#include "device.h"
#include "trace.h"

_Thread_local struct sm_caller sm_caller;
atomic_bool sm_caller_wanted;

void sm_by_caller(struct sm_by *by)
{
    by->function = sm_caller.function;
    by->place = sm_caller.place;
    sm_scope_text(by->scope);
}

/* Not inlined: it returns to the public function, which returns to the call place. */
__attribute__((noinline)) void sm_caller_set(const char *function, const struct synced_mem *mem)
{
    const bool told = sm_trace_on() || sm_debug_on();
    sm_caller.function = function;
    sm_caller.mem = mem;
    sm_caller.place = told ? sm_place_of(function, __builtin_return_address(0)) : NULL;
    sm_caller.ranged = sm_trace_on();
    if (sm_caller.ranged)
        sm_trace_range(function, mem);
}

void sm_caller_clear(void)
{
    if (sm_caller.ranged)
        sm_device_range_end();
    sm_caller = (struct sm_caller){.function = NULL};
    if (sm_trace_on())
        sm_trace_tend();
}
