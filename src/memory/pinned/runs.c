/* Runs of equal cells, with one bit for each cell. */
#include "memory/pinned/runs.h"

#include "base/slab.h"

#include <assert.h>

/* Up to 2 KiB, the classes are the multiples of 256 bytes. Above, there are eight to each power of two. */
enum { FINE = 8, STEPS_LOG = 3, STEPS = 1 << STEPS_LOG, FINE_LOG = 11 };

/* RUN_BYTES: the preferred size of a run. FEWEST, MOST: limits of its cells. */
enum { RUN_BYTES = 128 << 10, FEWEST = 8, MOST = 64 };

struct sm_run {
    struct sm_block *block;
    struct sm_run *next; /* of the runs with free cells */
    struct sm_run *previous;
    uint64_t free; /* bit i: cell i is free */
    uint64_t all;
    unsigned class;
};

static struct sm_cells structs = SM_CELLS_INITIALIZER(struct sm_run);

unsigned sm_runs_class(size_t size)
{
    assert(size > 0 && size <= SM_RUNS_LARGEST);
    if (size <= (size_t)1 << FINE_LOG)
        return (unsigned)((size - 1) / SM_RUNS_SMALLEST);
    const unsigned power = 63 - (unsigned)__builtin_clzll(size - 1);
    return FINE + (power - FINE_LOG) * STEPS + (unsigned)((size - 1) >> (power - STEPS_LOG)) - STEPS;
}

size_t sm_runs_cell(unsigned class)
{
    if (class < FINE)
        return (class + 1) * (size_t)SM_RUNS_SMALLEST;
    const unsigned power = FINE_LOG + (class - FINE) / STEPS;
    return ((class - FINE) % STEPS + 1 + STEPS) * ((size_t)1 << (power - STEPS_LOG));
}

static unsigned count_cells(unsigned class)
{
    const size_t cells = RUN_BYTES / sm_runs_cell(class);
    return cells < FEWEST ? FEWEST : cells > MOST ? MOST : (unsigned)cells;
}

size_t sm_runs_bytes(unsigned class)
{
    const size_t bytes = count_cells(class) * sm_runs_cell(class);
    return (bytes + SM_TLSF_GRANULE - 1) / SM_TLSF_GRANULE * SM_TLSF_GRANULE;
}

static void open_run(struct sm_runs *runs, struct sm_run *run)
{
    struct sm_run **const first = &runs->open[run->class];
    run->previous = NULL;
    run->next = *first;
    if (*first)
        (*first)->previous = run;
    *first = run;
}

static void close_run(struct sm_runs *runs, struct sm_run *run)
{
    if (run->previous)
        run->previous->next = run->next;
    else
        runs->open[run->class] = run->next;
    if (run->next)
        run->next->previous = run->previous;
}

bool sm_runs_add(struct sm_runs *runs, unsigned class, struct sm_block *block)
{
    struct sm_run *const run = sm_cells_take(&structs);
    if (!run)
        return false;
    const uint64_t all = UINT64_MAX >> (64 - count_cells(class));
    *run = (struct sm_run){.block = block, .free = all, .all = all, .class = class};
    block->user = run;
    open_run(runs, run);
    return true;
}

void *sm_runs_take(struct sm_runs *runs, unsigned class, struct sm_block **block)
{
    struct sm_run *const run = runs->open[class];
    if (!run)
        return NULL;
    const unsigned cell = (unsigned)__builtin_ctzll(run->free);
    run->free &= run->free - 1;
    if (!run->free)
        close_run(runs, run);
    *block = run->block;
    return run->block->start + cell * sm_runs_cell(class);
}

bool sm_runs_give(struct sm_runs *runs, struct sm_block *block, void *cell)
{
    struct sm_run *const run = block->user;
    const size_t index = (size_t)((char *)cell - block->start) / sm_runs_cell(run->class);
    assert(!(run->free >> index & 1));
    if (!run->free)
        open_run(runs, run);
    run->free |= UINT64_C(1) << index;
    if (run->free != run->all)
        return false;
    close_run(runs, run);
    sm_cells_give(&structs, run);
    block->user = NULL;
    return true;
}

size_t sm_runs_cell_of(const struct sm_block *block)
{
    const struct sm_run *const run = block->user;
    return sm_runs_cell(run->class);
}

void sm_runs_trim(void)
{
    sm_cells_trim(&structs);
}
