/* Scopes: names that the program gives to what a thread is doing, one within the other. */
#ifndef SM_SCOPE_H
#define SM_SCOPE_H

#include "synced_mem.h"

/* Room for the names of the thread's open scopes, "outer/inner". */
enum { SM_SCOPE_TEXT = 64 };

/* The calling thread's scopes, on one line. The outermost are left out where there is no room for all; "": none. */
void sm_scope_text(char out[SM_SCOPE_TEXT]);

#endif
