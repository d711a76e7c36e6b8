/* Scopes: nested names that the program gives to a thread's work. Each thread has its own scopes. */
#ifndef SM_SCOPE_H
#define SM_SCOPE_H

/* Bytes for the names of a thread's open scopes, "outer/inner". */
enum { SM_SCOPE_TEXT = 64 };

/* Opens a scope in the calling thread. NULL: a scope without a name. */
void sm_scope_begin(const char *name);
/* Closes the calling thread's innermost scope. No effect if none is open. */
void sm_scope_end(void);

/* Writes the names of the calling thread's open scopes, "outer/inner". If they don't all fit, the innermost are
 * written. "": no scope is open. */
void sm_scope_text(char out[SM_SCOPE_TEXT]);

#endif
