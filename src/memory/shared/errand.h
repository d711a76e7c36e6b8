/*
 * Errands: calls of the system on a file that other processes have too. A process that has a million locks on the file
 * makes each such call take a tenth of a second, in which the system runs nothing else on that processor. So threads of
 * the library run the errands, on fewer processors than there are, and whoever needs one waits only so long.
 */
#ifndef SM_ERRAND_H
#define SM_ERRAND_H

#include "base/deadline.h"

#include <stdatomic.h>
#include <stdbool.h>

/* A call waits so much longer than its timeout for an errand, in nanoseconds. */
#define SM_ERRAND_PATIENCE ((uint64_t)40000000)

struct sm_errand {
    void (*run)(struct sm_errand *errand);
    /* Ends an errand that nobody waits for any more, after run(). */
    void (*abandon)(struct sm_errand *errand);
    struct sm_errand *next;
    atomic_uint state;
};

/* Runs the errand in a thread, and blocks until it has run, or until the deadline; without a deadline in this thread.
 * Returns whether it has run: it is the caller's again. Otherwise it ends by itself, and the caller must not use it. If
 * the system refuses a thread, the errand runs in this one. In a forked child that was inside this call it never ends.
 * */
bool sm_errand_run(struct sm_errand *errand, sm_deadline until);

/* Returns whether nobody waits any more for an errand that runs. */
bool sm_errand_is_abandoned(struct sm_errand *errand);

/* Closes a descriptor as an errand that nobody waits for. Ignores -1. */
void sm_errand_close(int fd);

/* Returns whether no errand is under way. For tests. */
bool sm_errand_none(void);

#endif
