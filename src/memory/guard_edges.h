/*
 * Pages that several guards share: those of the parts of one object's memory, which is the library's own. Such a page
 * is protected as much as all of its guards want, and only if they have all of its bytes. The functions run with the
 * guards' lock held.
 */
#ifndef SM_GUARD_EDGES_H
#define SM_GUARD_EDGES_H

#include "memory/guard.h"

/* Adds a guard with the bytes from first to past, which wants nothing. Returns false if there is no memory. */
bool sm_edges_add(uintptr_t first, uintptr_t past, size_t page);

/* Changes what a guard wants from before to after. Returns false if the system refuses to protect a page, or to open
 * it. */
bool sm_edges_change(uintptr_t first, uintptr_t past, size_t page, enum sm_protection before, enum sm_protection after);

/* Removes a guard that wants nothing. */
void sm_edges_remove(uintptr_t first, uintptr_t past, size_t page);

#endif
