/* The calling thread's caller. */
#include "base/caller.h"

_Thread_local struct sm_caller sm_caller;
atomic_bool sm_caller_wanted;

void sm_by_caller(struct sm_by *by)
{
    by->function = sm_caller.function;
    by->place = sm_caller.place;
    sm_scope_text(by->scope);
}
