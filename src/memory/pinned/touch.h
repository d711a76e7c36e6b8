/* Fresh pages from the system, by several threads: each page costs a fault and is filled with zeros. */
#ifndef SM_TOUCH_H
#define SM_TOUCH_H

#include <stddef.h>

/* Touches each page of memory that was never used. */
void sm_touch(void *start, size_t bytes);

#endif
