/* Faults: accesses to memory that the program may not touch. */
#ifndef SM_SYSTEM_FAULTS_H
#define SM_SYSTEM_FAULTS_H

#include <stdint.h>

/* From now on each fault calls report(address), in the thread that has faulted, and then whatever would have handled
 * it before. report() must be safe in a signal handler: it takes no lock, allocates no memory and uses no stdio. errno
 * is restored after it. A second call has no effect: a forked child makes one if its parent was in the midst of the
 * first. */
void sm_faults_watch(void (*report)(uintptr_t address));

#endif
