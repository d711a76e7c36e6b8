/* Condition variables of macOS, which waits for a length of time. */
#include "system/posix/cond.h"

#include <time.h>

static const uint64_t SECOND = 1000000000;

void sm_cond_init(pthread_cond_t *cond)
{
    (void)pthread_cond_init(cond, NULL);
}

void sm_cond_wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t nanoseconds)
{
    const struct timespec most = {.tv_sec = (time_t)(nanoseconds / SECOND), .tv_nsec = (long)(nanoseconds % SECOND)};
    (void)pthread_cond_timedwait_relative_np(cond, mutex, &most);
}
