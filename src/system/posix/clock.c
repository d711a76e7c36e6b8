/* The clock, by POSIX. */
#include "system/clock.h"

#include <sched.h>
#include <time.h>

static const uint64_t SECOND = 1000000000;

uint64_t sm_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void sm_yield(void)
{
    (void)sched_yield();
}
