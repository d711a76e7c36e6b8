/* Prefault: gets fresh pages from the system with several threads. Each page costs a fault and is filled with zeros. */
#ifndef SM_PREFAULT_H
#define SM_PREFAULT_H

#include <stddef.h>

/* Touches each page of memory that was never used. Returns when all are touched. */
void sm_prefault(void *start, size_t bytes);

#endif
