/* Scopes: nested names that the program gives to a thread's work. Each thread has its own. */
#ifndef SM_SCOPE_H
#define SM_SCOPE_H

/* Room for the names of the thread's open scopes, "outer/inner". */
enum { SM_SCOPE_TEXT = 64 };

/* Opens a scope in the calling thread, and closes the innermost. NULL stands for no name; an extra end is ignored. */
void sm_scope_begin(const char *name);
void sm_scope_end(void);

/* Writes the names of the calling thread's open scopes, "outer/inner". Without room for all, the innermost are written.
 * "": no scope is open. */
void sm_scope_text(char out[SM_SCOPE_TEXT]);

#endif
