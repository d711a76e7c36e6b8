/* Fixtures of the suites that fork. */
#ifndef FORK_KIT_H
#define FORK_KIT_H

#include "fixture.h"

enum { SIZE = 5000, PATIENCE_S = 500 };

/* The number of forks of a process with running threads. Sanitizers do not take their own locks across a fork. */
enum { FORKS = SANITIZED ? 0 : 80 };

/* Returns how many of these forks each of a suite's runs makes. */
int forks_of_a_schedule(void);

/* Runs the function in a child, and ends the child if it waits too long. */
bool child_succeeds(void (*function)(const void *argument), const void *argument);

/* Checks that new objects work on the host. */
void live_on_the_host(const void *unused);

/* Uses the device, if there is one. The process must not have used it before. */
void use_the_device(const void *unused);

#endif
