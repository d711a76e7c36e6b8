/* The parts of the test of waits: what is played, and how the instances of waits are told apart. */
#ifndef WAITS_H
#define WAITS_H

#include "cudart_emu.h"

/* ---- Runs: sequences of calls, all of which end well ---- */

int waits_runs(void);
/* Longer ones, for what those do not tell; numbered from waits_runs() on. */
int waits_more_runs(void);
/* In a process of its own; exits if something is wrong. */
void waits_run(int run);

/* ---- Instances ---- */

enum { MOST_INSTANCES = 1000, CHAINS_EACH = 60, NAME = 400 };

/* The calls from a public function down to one of the runtime's that waits; several chains of calls of the test's own
 * may lead there. */
struct instance {
    char name[NAME]; /* "cudaEventSynchronize < function line < ..." */
    int chain[CHAINS_EACH];
    int chains;
    int place; /* the same, up to the function that decides to wait */
};

struct instances {
    struct instance of[MOST_INSTANCES];
    int count;
    int places;
};

void instances_find(struct instances *all, const struct emu_wait_place *chains, int count);

/* Why nobody notices when it is dropped; NULL: somebody must. */
const char *redundant_because(const struct instance *instance);

#endif
