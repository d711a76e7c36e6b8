/* The trace: who holds its file, and when that is written. */
#ifndef SM_TRACE_WRITER_H
#define SM_TRACE_WRITER_H

#include "trace/trace.h"

#include <stdio.h>

/* path NULL: only what the summary tells is kept. ERR_INVALID_STATE: there is a trace already; ERR_FILE. */
synced_mem_status sm_trace_start(const char *path);
/* ERR_INVALID_STATE: there is no trace; ERR_FILE: something could not be written. */
synced_mem_status sm_trace_stop(void);

/* For the environment: as sm_trace_start(), and prints the summary to stderr when the process ends. What fails is
 * printed there too. */
void sm_trace_start_for_process(const char *path, bool summary);

/* At the end of a public function: writes to the file if there is much to write. */
void sm_trace_tend(void);

/* Resolves what is pending and gives back what belongs to the devices; the trace goes on. */
void sm_trace_rest(void);

void sm_trace_print_summary(FILE *file);

#endif
