/*
 * Small structs of one size, from chunks that keep their type: a cell that was given back stays readable memory of the
 * same struct until the library shuts down. That is what makes a release past zero detectable without undefined
 * behaviour.
 */
#ifndef SM_SLAB_H
#define SM_SLAB_H

#include "base/process.h"
#include "base/shard.h"

#include <stddef.h>

struct sm_cells {
    const size_t cell;  /* size of the struct; its last pointer-sized bytes are not the user's while the cell is free */
    void *free;         /* cells that were given back, linked through those bytes */
    void *fresh;        /* cells that nobody has had yet follow one another from here */
    size_t fresh_cells; /* so many */
    void *chunks;
    size_t used;    /* cells given out */
    unsigned trims; /* how often all chunks have gone */
};

#define SM_CELLS_INITIALIZER(type)                                                                                     \
    {                                                                                                                  \
        .cell = sizeof(type)                                                                                           \
    }

/* As those of a slab below, for whoever has a lock of its own. */
void *sm_cells_take(struct sm_cells *cells);
void sm_cells_give(struct sm_cells *cells, void *cell);
void sm_cells_trim(struct sm_cells *cells);

/* Batches are lists of cells, which go from hand to hand as one, however long that takes to read. */
enum { SM_BATCHES = 256 };

/* Cells that a shard has at hand. They count as given out. */
struct sm_shelf {
    struct sm_lock lock; /* guards the rest */
    unsigned count;      /* on the list, at most */
    void *list;
    void *batch; /* NULL: none */
    char apart[SM_CACHE_LINE];
};

struct sm_slab {
    struct sm_lock lock; /* guards the cells and the batches */
    struct sm_cells cells;
    void *batches[SM_BATCHES]; /* they count as given out */
    unsigned batch_count;
    struct sm_shelf shelves[SM_SHARDS];
};

#define SM_SLAB_INITIALIZER(type)                                                                                      \
    {                                                                                                                  \
        .lock = SM_LOCK_INITIALIZER, .cells = SM_CELLS_INITIALIZER(type),                                              \
        .shelves = {SM_SIXTEEN_TIMES({.lock = SM_LOCK_INITIALIZER})},                                                  \
    }

/* A cell: zeros when new, else as it was given back. NULL when the system has no memory. */
void *sm_slab_take(struct sm_slab *slab);
void sm_slab_give(struct sm_slab *slab, void *cell);

/* Returns the chunks to the system if no cell is given out. */
void sm_slab_trim(struct sm_slab *slab);

/* A walk over the cells: its progress; zeros at first. */
struct sm_slab_walk {
    bool begun;
    const void *chunk; /* NULL, once it has begun: there are no more */
    size_t cell;       /* of the chunk's, the next to be looked at */
    unsigned trims;    /* of the slab's when it began */
};
/* The next cell that is wanted, of all that were ever given out; NULL: there are no more. wanted() is called with the
 * slab locked, which is unlocked for a moment after some cells. A walk that a trim overtakes is at its end. */
void *sm_slab_find(struct sm_slab *slab, struct sm_slab_walk *walk, bool (*wanted)(void *cell, const void *user),
                   const void *user);

#endif
