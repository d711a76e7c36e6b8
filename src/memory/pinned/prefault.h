/* Fresh pages from the system, by several threads: each page costs a fault and is filled with zeros. */
#ifndef SM_PREFAULT_H
#define SM_PREFAULT_H

#include <stddef.h>

/* Touches each page of memory that was never used. */
void sm_prefault(void *start, size_t bytes);

#endif
