/* Condition variables that wait by the clock of sm_now(). */
#include "system/posix/cond.h"

#include "system/clock.h"

#include <time.h>

static const uint64_t SECOND = 1000000000;

void sm_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void sm_cond_wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t nanoseconds)
{
    const uint64_t end = sm_now() + nanoseconds;
    const struct timespec until = {.tv_sec = (time_t)(end / SECOND), .tv_nsec = (long)(end % SECOND)};
    (void)pthread_cond_timedwait(cond, mutex, &until);
}
