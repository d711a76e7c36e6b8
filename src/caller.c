/* Which public function the calling thread is in. */
#include "caller.h"

#include "device.h"
#include "trace.h"

_Thread_local struct sm_caller sm_caller;
atomic_bool sm_caller_wanted;

void sm_caller_set(const char *function, const struct synced_mem *mem)
{
    sm_caller.function = function;
    sm_caller.mem = mem;
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
