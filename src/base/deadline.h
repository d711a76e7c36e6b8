/* Deadlines of calls that take a timeout. */
#ifndef SM_DEADLINE_H
#define SM_DEADLINE_H

#include "system/clock.h"

#include <stdint.h>

/* Nanoseconds of the monotonic clock. UINT64_MAX: never. */
typedef uint64_t sm_deadline;

/* Returns the deadline that is timeout milliseconds ahead; 0: now; negative: never. */
sm_deadline sm_deadline_after(int timeout_ms);

/* Returns the nanoseconds that are left; 0: the deadline has passed. */
uint64_t sm_deadline_left(sm_deadline deadline);

#endif
