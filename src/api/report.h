/*
 * The begin and end of public functions. The words:
 *
 *    caller    the public function and the object that the thread's call is about; recorded for traces and debug mode
 *    wanted    a trace or debug mode needs the caller
 *    detail    the text that sm_fail() records for a failure (base/status.h)
 *    publish   make status and detail the thread's last error, under the function's and the object's name
 *    handler   the function of the program that each failure calls
 *
 * A public function with a slow path begins it with sm_caller_begin(). Every public function that can fail ends with
 * sm_report(). No function in a lower folder reports.
 */
#ifndef SM_REPORT_H
#define SM_REPORT_H

#include "base/caller.h"
#include "base/status.h"
#include "synced_mem.h"

/* Sets the caller. The trace begins a range for it. Does not block. */
__attribute__((cold)) void sm_caller_set(const char *function, const struct synced_mem *mem);

/* Sets the caller at the beginning of a public function's slow path, if it is wanted. It has no frame of its own in any
 * build, see base/place.h. sm_report() ends the caller, with no object locked. */
static inline __attribute__((always_inline)) void sm_caller_begin(const char *function, const struct synced_mem *mem)
{
    if (sm_caller_is_wanted())
        sm_caller_set(function, mem);
}

/* The part of sm_report() for failures, and for callers that are wanted. */
__attribute__((cold)) synced_mem_status sm_report_fully(synced_mem_status status, const char *function,
                                                        const char *object_name);

/* Ends a public function that can fail. Publishes the recorded detail under the function's and the object's name
 * (NULL: none), ends the caller, and calls the handler. The thread is in no public function any more by then. A
 * large part of a trace is written to its file. Returns status. No lock may be held. Blocks in the handler, and to
 * write the trace. */
static inline synced_mem_status sm_report(synced_mem_status status, const char *function, const char *object_name)
{
    if (status == SYNCED_MEM_OK && !sm_caller_is_wanted())
        return SYNCED_MEM_OK;
    return sm_report_fully(status, function, object_name);
}

#endif
