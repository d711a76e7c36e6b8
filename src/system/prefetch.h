/* Hints that this processor is about to write bytes. */
#ifndef SM_PREFETCH_H
#define SM_PREFETCH_H

#include <stddef.h>

/* Makes the processor read these bytes into its caches, and does not wait for them. A store to them need not wait for
 * memory then. Their values don't change, and addresses that can't be accessed are no fault. */
void sm_prefetch_lines(void *data, size_t bytes);

#endif
