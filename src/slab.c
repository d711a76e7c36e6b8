/* Small structs of one size, in chunks that keep their type. */
#include "slab.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

/* Each chunk is twice as large as the one before, up to a point, beyond which the C library maps it: what no cell of it
 * was taken of is then not touched. With the C library's own record it is a whole number of pages. */
enum { FIRST_CHUNK = 16384, LARGEST_CHUNK = 1048576, ROOM_FOR_RECORD = 64 };

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
        SM_CACHE_LINE - (uintptr_t)chunk % SM_CACHE_LINE; /* of the first cell; there is room for the struct */
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

/* ---- Shelves ---- */

/* So many go between a shelf and the rest at a time. A shelf that has twice as many, or more, gives some up. */
enum { BATCH = 16 };

static void put_on(const struct sm_slab *slab, struct sm_shelf *shelf, void *cell)
{
    *link_of(&slab->cells, cell) = shelf->first;
    shelf->first = cell;
    shelf->count++;
}

static void *take_off(const struct sm_slab *slab, struct sm_shelf *shelf)
{
    void *const cell = shelf->first;
    if (!cell)
        return NULL;
    shelf->first = *link_of(&slab->cells, cell);
    *link_of(&slab->cells, cell) = NULL;
    shelf->count--;
    return cell;
}

/* One more than the shelf gets: the first is what was asked for, and new ones go out in the order of their addresses. */
static void *restock(struct sm_slab *slab, struct sm_shelf *shelf)
{
    void *cells[BATCH];
    int count = 0;
    sm_lock(&slab->lock);
    while (count < BATCH && (cells[count] = sm_cells_take(&slab->cells)) != NULL)
        count++;
    sm_unlock(&slab->lock);
    sm_lock(&shelf->lock);
    for (int i = count - 1; i > 0; i--)
        put_on(slab, shelf, cells[i]);
    sm_unlock(&shelf->lock);
    return count > 0 ? cells[0] : NULL;
}

static void *take_from(const struct sm_slab *slab, struct sm_shelf *shelf)
{
    sm_lock(&shelf->lock);
    void *const cell = take_off(slab, shelf);
    sm_unlock(&shelf->lock);
    return cell;
}

/* Where the system has no memory. */
static void *take_from_any(struct sm_slab *slab)
{
    void *cell = NULL;
    for (int i = 0; i < SM_SHARDS && !cell; i++)
        cell = take_from(slab, &slab->shelves[i]);
    return cell;
}

static void give_all(struct sm_slab *slab, void *const *cells, int count)
{
    sm_lock(&slab->lock);
    for (int i = 0; i < count; i++)
        sm_cells_give(&slab->cells, cells[i]);
    sm_unlock(&slab->lock);
}

void *sm_slab_take(struct sm_slab *slab)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    void *cell = take_from(slab, shelf);
    if (!cell)
        cell = restock(slab, shelf);
    return cell ? cell : take_from_any(slab);
}

static int take_batch(const struct sm_slab *slab, struct sm_shelf *shelf, void **cells)
{
    int count = 0;
    while (count < BATCH && shelf->first)
        cells[count++] = take_off(slab, shelf);
    return count;
}

void sm_slab_give(struct sm_slab *slab, void *cell)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    void *cells[BATCH];
    sm_lock(&shelf->lock);
    const int count = shelf->count >= 2 * BATCH ? take_batch(slab, shelf, cells) : 0;
    put_on(slab, shelf, cell);
    sm_unlock(&shelf->lock);
    if (count > 0)
        give_all(slab, cells, count);
}

static void clear(struct sm_slab *slab, struct sm_shelf *shelf)
{
    void *cells[BATCH];
    int count;
    do {
        sm_lock(&shelf->lock);
        count = take_batch(slab, shelf, cells);
        sm_unlock(&shelf->lock);
        give_all(slab, cells, count);
    } while (count > 0);
}

void sm_slab_trim(struct sm_slab *slab)
{
    for (int i = 0; i < SM_SHARDS; i++)
        clear(slab, &slab->shelves[i]);
    sm_lock(&slab->lock);
    sm_cells_trim(&slab->cells);
    sm_unlock(&slab->lock);
}
