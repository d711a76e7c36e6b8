/* Small structs of one size, in chunks that keep their type. */
#include "slab.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16384, CACHE_LINE = 64 };

static void **link_of(const struct sm_cells *cells, void *cell)
{
    return (void **)((char *)cell + cells->cell - sizeof(void *));
}

static int grow(struct sm_cells *cells)
{
    char *const chunk = aligned_alloc(CHUNK_BYTES / 4, CHUNK_BYTES);
    if (!chunk)
        return -1;
    memset(chunk, 0, CHUNK_BYTES);
    *(void **)(void *)chunk = cells->chunks;
    cells->chunks = chunk;
    /* Pushed from the end, so that cells are handed out in order of address. */
    const size_t count = (CHUNK_BYTES - CACHE_LINE) / cells->cell;
    for (size_t i = count; i-- > 0;) {
        void *const cell = chunk + CACHE_LINE + i * cells->cell;
        *link_of(cells, cell) = cells->free;
        cells->free = cell;
    }
    return 0;
}

void *sm_cells_take(struct sm_cells *cells)
{
    assert(cells->cell % alignof(void *) == 0);
    if (!cells->free && grow(cells) != 0)
        return NULL;
    void *const cell = cells->free;
    cells->free = *link_of(cells, cell);
    *link_of(cells, cell) = NULL;
    cells->used++;
    return cell;
}

void sm_cells_give(struct sm_cells *cells, void *cell)
{
    *link_of(cells, cell) = cells->free;
    cells->free = cell;
    cells->used--;
}

void sm_cells_trim(struct sm_cells *cells)
{
    if (cells->used > 0)
        return;
    while (cells->chunks) {
        void *const chunk = cells->chunks;
        cells->chunks = *(void **)chunk;
        free(chunk);
    }
    cells->free = NULL;
}

void *sm_slab_take(struct sm_slab *slab)
{
    sm_lock(&slab->lock);
    void *const cell = sm_cells_take(&slab->cells);
    sm_unlock(&slab->lock);
    return cell;
}

void sm_slab_give(struct sm_slab *slab, void *cell)
{
    sm_lock(&slab->lock);
    sm_cells_give(&slab->cells, cell);
    sm_unlock(&slab->lock);
}

void sm_slab_trim(struct sm_slab *slab)
{
    sm_lock(&slab->lock);
    sm_cells_trim(&slab->cells);
    sm_unlock(&slab->lock);
}
