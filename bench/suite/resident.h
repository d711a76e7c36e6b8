/* Counts resident memory, in a process of its own for each count. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stddef.h>

/* Returns the bytes of each of count things, exact to the byte. They include pages of the process and the heads of the
 * library's chunks.
 * fill: makes the things, in a process of its own, and calls resident_end() */
double resident_each(void (*fill)(void), size_t count);

/* For a fill: the number of things. */
size_t resident_count(void);
/* For a fill: the resident bytes of the process. */
size_t resident_now(void);
/* For a fill: an array that is resident from the start. */
void *resident_array(size_t count, size_t size);
/* For a fill: records the growth since before. Ends the process at once, as the release of a million things would take
 * time. */
_Noreturn void resident_end(size_t before);

#endif
