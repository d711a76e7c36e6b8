/* When the process ends, the trace is written: before the runtime ends, if that was started meanwhile. */
#ifndef SM_TRACE_EXIT_H
#define SM_TRACE_EXIT_H

#include <stdbool.h>

/* What is called when the process ends; the same for the rest of the process. */
void sm_trace_set_exit(void (*function)(void));

/* Registers it with the C library, once before the runtime starts and once after that. */
void sm_trace_watch_exit(bool with_runtime);

#endif
