/*
 * Small structs of one size, from chunks that keep their type: a cell that was given back stays readable memory of the
 * same struct until the library shuts down. That is what makes a release past zero detectable without undefined
 * behaviour.
 */
#ifndef SM_SLAB_H
#define SM_SLAB_H

#include "process.h"

#include <stddef.h>

struct sm_slab {
    struct sm_lock lock; /* guards all below */
    const size_t cell;   /* size of the struct; its last pointer-sized bytes are the slab's while the cell is free */
    void *free;          /* cells that were given back, linked through those bytes */
    void *fresh;         /* cells that nobody has had yet follow one another from here */
    size_t fresh_cells;  /* so many */
    void *chunks;
    size_t used; /* cells given out */
};

#define SM_SLAB_INITIALIZER(type)                                                                                      \
    {                                                                                                                  \
        .lock = SM_LOCK_INITIALIZER, .cell = sizeof(type)                                                              \
    }

/* A cell: zeros when new, else as it was given back. NULL when the system has no memory. */
void *sm_slab_take(struct sm_slab *slab);
void sm_slab_give(struct sm_slab *slab, void *cell);

/* Returns the chunks to the system if no cell is given out. */
void sm_slab_trim(struct sm_slab *slab);

#endif
