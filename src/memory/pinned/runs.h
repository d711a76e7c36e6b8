/*
 * Runs, for small requests of page-locked memory. A run is a block that is cut into equal cells, so that a cell's state
 * is one bit. The arena's lock guards all runs.
 */
#ifndef SM_RUNS_H
#define SM_RUNS_H

#include "memory/pinned/tlsf.h"

/* The largest cell and the smallest; all are multiples of the smallest. */
enum { SM_RUNS_LARGEST = 16384, SM_RUNS_SMALLEST = 256, SM_RUNS_CLASSES = 32 };

struct sm_runs {
    struct sm_run *open[SM_RUNS_CLASSES]; /* runs with free cells, by class */
};

/* Returns the class of a size from 1 to SM_RUNS_LARGEST. */
unsigned sm_runs_class(size_t size);
/* Returns the bytes of the class's cells. */
size_t sm_runs_cell(unsigned class);
/* Returns the bytes of the class's runs. */
size_t sm_runs_bytes(unsigned class);

/* Makes the block a run and sets the block's user. The block has at least sm_runs_bytes(class) bytes. Returns false if
 * there is no memory for the run's struct. */
bool sm_runs_add(struct sm_runs *runs, unsigned class, struct sm_block *block);

/* Takes a cell. *block: its run's block. Returns NULL if no run has a free cell. */
void *sm_runs_take(struct sm_runs *runs, unsigned class, struct sm_block **block);

/* Gives a cell back. Returns true if no cell of the block is in use any more; the block is then no run. */
bool sm_runs_give(struct sm_runs *runs, struct sm_block *block, void *cell);

/* Returns the bytes of the cells of the block's run. */
size_t sm_runs_cell_of(const struct sm_block *block);

/* Frees the structs if there is no run. */
void sm_runs_trim(void);

#endif
