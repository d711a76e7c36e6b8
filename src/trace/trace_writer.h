/* The trace's writer: starts and stops the trace, and writes its file. */
#ifndef SM_TRACE_WRITER_H
#define SM_TRACE_WRITER_H

#include "trace/trace.h"

#include <stdio.h>

/* Starts a trace. path NULL: only the data of the summary is kept. ERR_INVALID_STATE: there is a trace already.
 * ERR_FILE. */
synced_mem_status sm_trace_start(const char *path);
/* Stops the trace and writes the rest of its file. ERR_INVALID_STATE: there is no trace. ERR_FILE: something could not
 * be written. */
synced_mem_status sm_trace_stop(void);

/* As sm_trace_start(), as the environment requests. Prints a failure to stderr. summary: prints the summary to stderr
 * when the process ends. */
void sm_trace_start_for_process(const char *path, bool summary);

/* Writes events to the file if there are many. Called at the end of a public function. */
void sm_trace_tend(void);

/* Waits for pending transfers, records them, and destroys what belongs to the devices. The trace goes on. */
void sm_trace_rest(void);

/* Prints the summary: the objects with most turns. */
void sm_trace_print_summary(FILE *file);

#endif
