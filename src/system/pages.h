/*
 * Pages of memory, straight from the system: all zeros, and none is there before it is touched. A size need not be a
 * multiple of the page's; the last page is then whole. A function that returns a pointer returns NULL if the system
 * refuses it.
 */
#ifndef SM_SYSTEM_PAGES_H
#define SM_SYSTEM_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the size of a page, a power of two, 4096 or more. */
size_t sm_page_size(void);

/* Maps pages to read and write. */
void *sm_pages_map(size_t bytes);

/* Does the same from a multiple of alignment on, a power of two that is at least a page. Asks for huge pages. */
void *sm_pages_map_huge(size_t bytes, size_t alignment);

/* Reserves addresses for pages, which need no memory before sm_pages_commit() has been called for them. */
void *sm_pages_reserve(size_t bytes);
/* Makes the pages that have some of the reserved bytes ready to read and write; some of them may be ready already.
 * Returns false if there is no memory for them. */
bool sm_pages_commit(void *start, size_t bytes);

/* Gives back what one of these calls has returned, as a whole. */
void sm_pages_unmap(void *start, size_t bytes);

enum sm_protection { SM_PROTECT_NOTHING, SM_PROTECT_WRITES, SM_PROTECT_ALL };

/* Sets what the program may not do with whole pages of this process's, whoever has mapped them. Returns false if the
 * system refuses it for some of them; others may have changed. */
bool sm_pages_protect(void *start, size_t bytes, enum sm_protection protection);

#endif
