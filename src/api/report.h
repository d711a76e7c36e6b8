/*
 * Around a public function: it begins with the caller, where that is wanted, and ends with the report of its status.
 */
#ifndef SM_REPORT_H
#define SM_REPORT_H

#include "base/caller.h"
#include "base/status.h"
#include "synced_mem.h"

void sm_caller_set(const char *function, const struct synced_mem *mem);

/* Sets the caller at the beginning of a public function's slow path. It has no frame of its own in any build, see
 * place.h. sm_report() ends the caller, with no object locked. */
static inline __attribute__((always_inline)) void sm_caller_begin(const char *function, const struct synced_mem *mem)
{
    if (sm_caller_is_wanted())
        sm_caller_set(function, mem);
}

/* At the end of every public function that can fail, with no lock held: publishes the recorded detail under the
 * function's and the object's name (NULL: none), and calls the handler. The thread is in no public function any more.
 * Returns the status. */
synced_mem_status sm_report(synced_mem_status status, const char *function, const char *object_name);

#endif
