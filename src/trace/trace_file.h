/*
 * The trace's file, in the array format of Chrome's traces: after the opening bracket one event a line. A file without
 * the closing bracket, as a process leaves it that is killed, is one too. One thread at a time.
 */
#ifndef SM_TRACE_FILE_H
#define SM_TRACE_FILE_H

#include "trace/trace_event.h"

/* Creates or empties the file. ERR_FILE. */
synced_mem_status sm_trace_file_open(const char *path);
void sm_trace_file_write(const struct sm_trace_event *event);
/* Hands what was written to the system. */
void sm_trace_file_flush(void);
/* With the summary. ERR_FILE: something could not be written. */
synced_mem_status sm_trace_file_close(const struct sm_traced *top, size_t count, uint64_t lost);
/* In a forked child: leaves it to the parent. */
void sm_trace_file_leave(void);

/* What makes text good for a string of JSON's; what is no UTF-8 is replaced. out has room for 6 bytes a byte, and 1. */
void sm_trace_escape(char *out, const char *text);

#endif
