/* Fixtures of the suites that fork. */
#ifndef FORK_KIT_H
#define FORK_KIT_H

#include "fixture.h"

enum { SIZE = 5000, PATIENCE_S = 10 };

/* Of a process in which other threads run. The locks of the sanitizers themselves are not held across a fork. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { FORKS = 0 };
#else
enum { FORKS = 80 };
#endif

/* Of these, how many there are in each of the runs that a suite makes. */
int forks_of_a_schedule(void);

/* Whatever the child waits for in vain ends it. */
bool child_succeeds(void (*function)(const void *argument), const void *argument);

/* New objects live on the host as anywhere. */
void live_on_the_host(const void *unused);

/* If there is one. The process has not used it before. */
void use_the_device(const void *unused);

#endif
