/* The parts of the test of waits: the runs, and the search for instances of waits. */
#ifndef WAITS_H
#define WAITS_H

#include "cudart_emu.h"

/* ---- Runs: sequences of calls, all of which end well ---- */

int waits_runs(void);
/* Longer runs, for instances that the others do not cover; numbered from waits_runs() on. */
int waits_more_runs(void);
/* Plays a run. Call it in a process of its own. Exits if something is wrong. */
void waits_run(int run);

/* ---- Instances ---- */

enum { MOST_INSTANCES = 1000, CHAINS_EACH = 60, NAME = 1000 };

/* A wait, named by the calls from a public function down to a call of the runtime that waits. Several call chains of
 * the test may lead there. */
struct instance {
    char name[NAME]; /* "cudaEventSynchronize < function line < ..." */
    int chain[CHAINS_EACH];
    int chains;
    int place; /* the index of the same calls, up to the function that decides to wait */
};

struct instances {
    struct instance of[MOST_INSTANCES];
    int count;
    int places;
};

void instances_find(struct instances *all, const struct emu_wait_place *chains, int count);

/* Returns why a test cannot notice that the wait is dropped. NULL: the test must notice. */
const char *redundant_because(const struct instance *instance);

#endif
