/* The clock, and the processor's time. */
#ifndef SM_SYSTEM_CLOCK_H
#define SM_SYSTEM_CLOCK_H

#include <stdint.h>

/* Returns the nanoseconds of a clock that never goes back and that all threads share. It is above 0, and so
 * far below UINT64_MAX that deadlines can be added. */
uint64_t sm_now(void);

/* Lets another thread that is ready have the processor. */
void sm_yield(void);

#endif
