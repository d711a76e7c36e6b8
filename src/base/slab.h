/*
 * Slabs: pools of small structs of one size. A slab takes chunks from the system; a cell is one struct in a chunk. A
 * chunk keeps its type: a cell that was given back stays readable memory of the same struct until the library shuts
 * down. So a release past zero is detected without undefined behaviour.
 */
#ifndef SM_SLAB_H
#define SM_SLAB_H

#include "base/process.h"
#include "base/shard.h"
#include "base/stats.h"

#include <stdalign.h>
#include <stddef.h>

struct sm_cells {
    const size_t cell;  /* size of the struct; the last pointer-sized bytes of a free cell are its link */
    void *free;         /* cells that were given back, linked */
    void *fresh;        /* the first of the cells that were never taken; they are contiguous */
    size_t fresh_cells; /* their number */
    void *chunks;
    size_t used;    /* cells that are taken */
    unsigned trims; /* how often all chunks were freed */
};

#define SM_CELLS_INITIALIZER(type)                                                                                     \
    {                                                                                                                  \
        .cell = sizeof(type)                                                                                           \
    }

/* As the functions of a slab below, but without a lock: the caller has one. */
void *sm_cells_take(struct sm_cells *cells);
void sm_cells_give(struct sm_cells *cells, void *cell);
void sm_cells_trim(struct sm_cells *cells);

/* A bundle is a list of cells. It moves between a shelf and the slab as a whole, in constant time whatever its length.
 * A slab has room for the bundles of 131,072 cells. The cells of further ones are given back one by one, and are read
 * one by one when they are taken again. */
enum { SM_BUNDLES = 4096 };

/* A shard's stock of free cells. The slab counts them as taken. */
struct sm_shelf {
    alignas(SM_APART) struct sm_lock lock; /* guards the rest */
    unsigned count;                        /* at least the number of cells on the list */
    void *list;
    void *bundle; /* NULL: none */
};

struct sm_slab {
    const enum sm_counter counter; /* of the taken cells; SM_COUNTERS: none */
    struct sm_lock lock;           /* guards the cells and the bundles */
    struct sm_cells cells;
    void **const bundles; /* SM_BUNDLES; counted as taken */
    unsigned bundle_count;
    /* All threads read the members above; each writes its own shelf. */
    struct sm_shelf shelves[SM_SHARDS];
};

/* Of a slab at file scope. */
#define SM_SLAB_INITIALIZER(type) SM_COUNTED_SLAB_INITIALIZER(type, SM_COUNTERS)
/* Of one whose taken cells have a counter, which nobody else counts in. The shelves' locks guard it, so a count is no
 * locked instruction. No list of cells is taken from such a slab, or given back. */
#define SM_COUNTED_SLAB_INITIALIZER(type, of_cells)                                                                    \
    {                                                                                                                  \
        .counter = (of_cells), .lock = SM_LOCK_INITIALIZER, .cells = SM_CELLS_INITIALIZER(type),                       \
        .bundles = (void *[SM_BUNDLES]){NULL}, .shelves = {SM_SIXTEEN_TIMES({.lock = SM_LOCK_INITIALIZER})},           \
    }

/* Takes a cell: zeros if it is new, otherwise as it was given back. Returns NULL when the system has no memory. */
void *sm_slab_take(struct sm_slab *slab);
/* Takes count cells, or fewer if the system has no memory. Returns a list of them, linked by their last pointers. NULL:
 * none. */
void *sm_slab_take_list(struct sm_slab *slab, size_t count);
/* Gives a cell back. */
void sm_slab_give(struct sm_slab *slab, void *cell);
/* Gives back such a list. */
void sm_slab_give_list(struct sm_slab *slab, void *list);
/* Counts a taken cell of a counted slab as given back, though it never will be. */
void sm_slab_uncount(struct sm_slab *slab);

/* Frees all chunks if no cell is taken; otherwise frees none. */
void sm_slab_trim(struct sm_slab *slab);

/* The progress of a walk over all cells. All zeros at first. */
struct sm_slab_walk {
    bool begun;
    const void *chunk; /* NULL after the beginning: the end */
    size_t cell;       /* index in the chunk of the next cell to visit */
    unsigned trims;    /* the slab's trims when the walk began */
};
/* Returns the next cell, of all that were ever taken, for which wanted() returns true. NULL: the end of the walk.
 * wanted() runs with the slab locked; the slab is unlocked for a moment every so many cells. A trim ends the walk. */
void *sm_slab_find(struct sm_slab *slab, struct sm_slab_walk *walk, bool (*wanted)(void *cell, const void *user),
                   const void *user);

#endif
