/* Hints that a device is about to read what this processor has written. */
#ifndef SM_DEMOTE_H
#define SM_DEMOTE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether sm_demote() has an effect. */
bool sm_can_demote(void);

/* Moves these bytes from the caches that this processor alone has to the one that it shares with others. A device reads
 * them faster from there. Their values don't change. */
void sm_demote(void *data, size_t bytes);

#endif
