/* Scopes: nested names that the program gives to a thread's work. Each thread has its own. */
#ifndef SM_SCOPE_H
#define SM_SCOPE_H

#include "synced_mem.h"

/* Room for the names of the thread's open scopes, "outer/inner". */
enum { SM_SCOPE_TEXT = 64 };

/* Writes the names of the calling thread's open scopes, "outer/inner". Without room for all, the innermost are written.
 * "": no scope is open. */
void sm_scope_text(char out[SM_SCOPE_TEXT]);

#endif
