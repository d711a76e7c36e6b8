/* The calling thread's caller. */
#include "base/caller.h"

#include "base/process.h"

#include <assert.h>

_Thread_local struct sm_caller sm_caller;
static _Thread_local unsigned callbacks; /* that the thread is in, one within the other */
atomic_bool sm_caller_wanted;

void sm_by_caller(struct sm_by *by)
{
    by->function = sm_caller.function;
    by->place = sm_caller.place;
    sm_scope_text(by->scope);
}

void sm_caller_put_aside(struct sm_put_aside *before)
{
    assert(!sm_process_is_inside());
    *before = (struct sm_put_aside){.caller = sm_caller, .refusal = sm_refusal_get(), .detail = sm_detail_get()};
    sm_caller = (struct sm_caller){.function = NULL};
    callbacks++;
}

void sm_caller_put_back(const struct sm_put_aside *before)
{
    callbacks--;
    sm_caller = before->caller;
    sm_refusal_set(&before->refusal);
    sm_detail_set(&before->detail);
}

bool sm_caller_is_in_callback(void)
{
    return callbacks > 0;
}
