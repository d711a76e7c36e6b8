/* The calling thread's caller. */
#include "base/caller.h"

#include "base/process.h"

#include <assert.h>
#include <stdio.h>

_Thread_local struct sm_caller sm_caller;
static _Thread_local unsigned callbacks; /* that the thread is in, one within the other */

void sm_subject_name(char out[SM_SUBJECT_BYTES], const struct sm_subject *subject)
{
    if (subject->root && !subject->name[0])
        (void)snprintf(out, SM_SUBJECT_BYTES, "%s[%zu:%zu]", subject->root_name, subject->begin, subject->end);
    else
        (void)snprintf(out, SM_SUBJECT_BYTES, "%s", subject->name);
}

void sm_by_caller(struct sm_by *by)
{
    by->function = sm_caller.function;
    by->place = sm_caller.place;
    sm_scope_text(by->scope);
}

void sm_caller_put_aside(struct sm_put_aside *before)
{
    assert(!sm_process_is_inside());
    before->caller = sm_caller;
    before->refusal = sm_refusal_get();
    before->detail = sm_detail_get();
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
