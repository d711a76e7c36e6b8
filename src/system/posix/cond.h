/* Condition variables with timeouts that no change of the wall clock affects. Systems differ in how to wait so. */
#ifndef SM_SYSTEM_POSIX_COND_H
#define SM_SYSTEM_POSIX_COND_H

#include <pthread.h>
#include <stdint.h>

void sm_cond_init(pthread_cond_t *cond);

/* Waits for a signal, at most so long (a year or less), or for no reason. */
void sm_cond_wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t nanoseconds);

#endif
