/* Hints that this processor is about to write bytes. */
#ifndef SM_PREFETCH_H
#define SM_PREFETCH_H

#include <stddef.h>

/* Asks the processor to read the cache lines of these bytes, and does not wait for them. Stores to them then seldom wait
 * for memory. Their values don't change, and addresses that can't be accessed are no fault. */
void sm_prefetch_lines(void *data, size_t bytes);

#endif
