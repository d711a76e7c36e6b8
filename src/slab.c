/* Small structs of one size, in chunks that keep their type. */
#include "slab.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

/* Each chunk is twice as large as the one before, up to a point, beyond which the C library maps it: what no cell of it
 * was taken of is then not touched. With the C library's own record it is a whole number of pages. */
enum { FIRST_CHUNK = 16384, LARGEST_CHUNK = 1048576, ROOM_FOR_RECORD = 64, CACHE_LINE = 64 };

/* At the beginning of a chunk. */
struct chunk {
    struct chunk *next;
    size_t bytes;
};

static void **link_of(const struct sm_cells *cells, void *cell)
{
    return (void **)((char *)cell + cells->cell - sizeof(void *));
}

static bool grow(struct sm_cells *cells)
{
    const struct chunk *const last = cells->chunks;
    const size_t twice = last ? last->bytes * 2 : FIRST_CHUNK;
    const size_t bytes = twice < LARGEST_CHUNK ? twice : LARGEST_CHUNK;
    struct chunk *const chunk = calloc(1, bytes - ROOM_FOR_RECORD);
    if (!chunk)
        return false;
    *chunk = (struct chunk){.next = cells->chunks, .bytes = bytes};
    cells->chunks = chunk;
    const size_t before =
        CACHE_LINE - (uintptr_t)chunk % CACHE_LINE; /* of the first cell; there is room for the struct */
    cells->fresh = (char *)chunk + before;
    cells->fresh_cells = (bytes - ROOM_FOR_RECORD - before) / cells->cell;
    return true;
}

static void *take_fresh(struct sm_cells *cells)
{
    if (cells->fresh_cells == 0 && !grow(cells))
        return NULL;
    void *const cell = cells->fresh;
    cells->fresh = (char *)cells->fresh + cells->cell;
    cells->fresh_cells--;
    return cell;
}

static void *take_free(struct sm_cells *cells)
{
    void *const cell = cells->free;
    cells->free = *link_of(cells, cell);
    *link_of(cells, cell) = NULL;
    return cell;
}

void *sm_cells_take(struct sm_cells *cells)
{
    assert(cells->cell % alignof(void *) == 0);
    void *const cell = cells->free ? take_free(cells) : take_fresh(cells);
    cells->used += cell != NULL;
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
        struct chunk *const chunk = cells->chunks;
        cells->chunks = chunk->next;
        free(chunk);
    }
    cells->free = NULL;
    cells->fresh_cells = 0;
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
