/*
 * The trace's file, in the array format of Chrome's traces: an opening bracket, then one event a line. A killed process
 * leaves a file without the closing bracket, which is valid too. One thread at a time may call these functions.
 */
#ifndef SM_TRACE_FILE_H
#define SM_TRACE_FILE_H

#include "trace/trace_event.h"

/* Creates or empties the file. ERR_FILE. */
synced_mem_status sm_trace_file_open(const char *path);
/* Writes an event to the file's buffer. */
void sm_trace_file_write(const struct sm_trace_event *event);
/* Writes the buffer to the system. */
void sm_trace_file_flush(void);
/* Writes the summary and closes the file. ERR_FILE: something could not be written. */
synced_mem_status sm_trace_file_close(const struct sm_traced *top, size_t count, uint64_t lost);
/* Closes the descriptor in a forked child. The file is the parent's. */
void sm_trace_file_leave(void);

/* Escapes text for a JSON string. Bytes that are not UTF-8 are replaced. out has room for 6 bytes per byte of text, and
 * 1. */
void sm_trace_escape(char *out, const char *text);

#endif
