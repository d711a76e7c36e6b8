/*
 * Writes the trace when the process ends. If the GPU runtime has started meanwhile, the trace is written before that
 * ends.
 */
#ifndef SM_TRACE_EXIT_H
#define SM_TRACE_EXIT_H

#include <stdbool.h>

/* Sets the function to call at the end of the process. It stays the same for the rest of the process. */
void sm_trace_set_exit(void (*function)(void));

/* Registers the call with atexit(), once for each value. with_runtime: the runtime has started, so that the call
 * precedes the runtime's end. */
void sm_trace_watch_exit(bool with_runtime);

#endif
