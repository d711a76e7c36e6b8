/*
 * Small pieces of page-locked memory: a run is a block of a space cut into equal cells, so that what is known of a
 * cell is a bit. The lock of the spaces guards it.
 */
#ifndef SM_RUNS_H
#define SM_RUNS_H

#include "memory/pinned/tlsf.h"

/* The largest cell, and what all of them are multiples of. */
enum { SM_RUNS_LARGEST = 16384, SM_RUNS_SMALLEST = 256, SM_RUNS_CLASSES = 32 };

struct sm_runs {
    struct sm_run *open[SM_RUNS_CLASSES]; /* that have free cells, by size */
};

/* The class of a size from 1 to SM_RUNS_LARGEST, and how large its cells and its runs are. */
unsigned sm_runs_class(size_t size);
size_t sm_runs_cell(unsigned class);
size_t sm_runs_bytes(unsigned class);

/* Makes a block, of the class's bytes at least, a run; its user is set. False: no memory to note it. */
bool sm_runs_add(struct sm_runs *runs, unsigned class, struct sm_block *block);

/* A cell; NULL if no run has one free. block receives that of the run. */
void *sm_runs_take(struct sm_runs *runs, unsigned class, struct sm_block **block);

/* True: no cell of the block is in use any more, and it is no run from now on. */
bool sm_runs_give(struct sm_runs *runs, struct sm_block *block, void *cell);

/* How large the cells of a run are. */
size_t sm_runs_cell_of(const struct sm_block *block);

/* Frees what is kept, if there is no run. */
void sm_runs_trim(void);

#endif
