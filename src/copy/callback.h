/* The begin and end of calls to callbacks and allocators of the caller's, which get a copy's memory. Also admits only
 * one thread at a time that reaps in passing. */
#ifndef SM_CALLBACK_H
#define SM_CALLBACK_H

#include <stdbool.h>

/* Begin and end a call of such code, with full hands. Code of the caller's may take any time and may call the library.
 * The hands are empty meanwhile, and another thread may reap in passing. Also for calls of the runtime that may wait
 * for the device. sm_callback_begin() returns the value that
 * sm_callback_end() needs. Neither blocks. */
bool sm_callback_begin(void);
void sm_callback_end(bool before);

/* Returns whether the calling thread runs such code. */
bool sm_callback_runs(void);

/* Admits the calling thread as the one that reaps in passing: each such thread polls all retired copies. Returns false
 * if another thread does. Does not block. A call of the caller's code ends it, as sm_passing_end() does. */
bool sm_passing_begin(void);
void sm_passing_end(void);

#endif
