/* Slabs and their chunks. */
#include "base/slab.h"

#include "system/clock.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

/* Each chunk is twice as large as the one before, up to LARGEST_CHUNK. The C library maps chunks of that size, so pages
 * without a taken cell stay untouched. ROOM_FOR_MALLOC is for the C library's own header: the two fill whole pages. */
enum { FIRST_CHUNK = 16384, LARGEST_CHUNK = 1048576, ROOM_FOR_MALLOC = 64 };

/* Begins each chunk. */
struct chunk {
    struct chunk *next;
    size_t bytes;
};

static void **get_cell_link(const struct sm_cells *cells, void *cell)
{
    return (void **)((char *)cell + cells->cell - sizeof(void *));
}

/* Returns the offset of a chunk's first cell, which begins a cache line. struct chunk fits in front of it. */
static size_t get_cells_offset(const struct chunk *chunk)
{
    return SM_CACHE_LINE - (uintptr_t)chunk % SM_CACHE_LINE;
}

static size_t count_cells_in(const struct sm_cells *cells, const struct chunk *chunk)
{
    return (chunk->bytes - ROOM_FOR_MALLOC - get_cells_offset(chunk)) / cells->cell;
}

static bool add_chunk(struct sm_cells *cells)
{
    const struct chunk *const last = cells->chunks;
    const size_t twice = last ? last->bytes * 2 : FIRST_CHUNK;
    const size_t bytes = twice < LARGEST_CHUNK ? twice : LARGEST_CHUNK;
    struct chunk *const chunk = calloc(1, bytes - ROOM_FOR_MALLOC);
    if (!chunk)
        return false;
    *chunk = (struct chunk){.next = cells->chunks, .bytes = bytes};
    cells->chunks = chunk;
    cells->fresh = (char *)chunk + get_cells_offset(chunk);
    cells->fresh_cells = count_cells_in(cells, chunk);
    return true;
}

void *sm_cells_take(struct sm_cells *cells)
{
    assert(cells->cell % alignof(void *) == 0);
    void *cell = cells->free;
    if (cell) {
        cells->free = *get_cell_link(cells, cell);
        *get_cell_link(cells, cell) = NULL;
    } else {
        if (cells->fresh_cells == 0 && !add_chunk(cells))
            return NULL;
        cell = cells->fresh;
        cells->fresh = (char *)cells->fresh + cells->cell;
        cells->fresh_cells--;
    }
    cells->used++;
    return cell;
}

void sm_cells_give(struct sm_cells *cells, void *cell)
{
    *get_cell_link(cells, cell) = cells->free;
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
    cells->trims++;
    cells->free = NULL;
    cells->fresh_cells = 0;
}

/* ---- Bundles ---- */

enum { BUNDLE = 32 };

static void push_cell(const struct sm_slab *slab, void **list, void *cell)
{
    *get_cell_link(&slab->cells, cell) = *list;
    *list = cell;
}

/* Prefetches both ends of the cell that is taken next. Cells that were given back at random are far apart. */
static void *pop_cell(const struct sm_slab *slab, void **list)
{
    void *const cell = *list;
    if (!cell)
        return NULL;
    void *const next = *get_cell_link(&slab->cells, cell);
    *get_cell_link(&slab->cells, cell) = NULL;
    *list = next;
    if (next) {
        __builtin_prefetch(next, 1);
        __builtin_prefetch(get_cell_link(&slab->cells, next), 1);
    }
    return cell;
}

/* Gives each of the bundle's cells back to the slab, which is locked. */
static void dissolve_bundle(struct sm_slab *slab, void *bundle)
{
    void *cell;
    while ((cell = pop_cell(slab, &bundle)) != NULL)
        sm_cells_give(&slab->cells, cell);
}

/* Takes a bundle of cells from the slab, which is locked. New cells leave in the order of their addresses. */
static void *make_bundle(struct sm_slab *slab)
{
    void *cells[BUNDLE];
    void *bundle = NULL;
    int count = 0;
    while (count < BUNDLE && (cells[count] = sm_cells_take(&slab->cells)) != NULL)
        count++;
    while (count > 0)
        push_cell(slab, &bundle, cells[--count]);
    return bundle;
}

/* Ignores NULL. */
static __attribute__((noinline)) void give_bundle(struct sm_slab *slab, void *bundle)
{
    if (!bundle)
        return;
    sm_lock(&slab->lock);
    if (slab->bundle_count < SM_BUNDLES)
        slab->bundles[slab->bundle_count++] = bundle;
    else
        dissolve_bundle(slab, bundle);
    sm_unlock(&slab->lock);
}

/* ---- Shelves ---- */

/* With the shelf locked. */
static void *pop_from_shelf(const struct sm_slab *slab, struct sm_shelf *shelf)
{
    if (!shelf->list) {
        shelf->list = shelf->bundle;
        shelf->count = shelf->bundle ? BUNDLE : 0;
        shelf->bundle = NULL;
    }
    void *const cell = pop_cell(slab, &shelf->list);
    shelf->count -= cell != NULL;
    return cell;
}

/* With the shelf locked, which guards its shard's part of the counter. */
static void count_cells(const struct sm_slab *slab, const struct sm_shelf *shelf, uint64_t more)
{
    if (slab->counter == SM_COUNTERS)
        return;
    _Atomic uint64_t *const count = &sm_counts[shelf - slab->shelves].of[slab->counter];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more, memory_order_relaxed);
}

static void *take_from_shelf(const struct sm_slab *slab, struct sm_shelf *shelf)
{
    sm_lock_briefly(&shelf->lock);
    void *const cell = pop_from_shelf(slab, shelf);
    if (cell)
        count_cells(slab, shelf, 1);
    sm_unlock_brief(&shelf->lock);
    return cell;
}

/* Gives the shelf a bundle. Returns false if there is none. Another thread of the shard may have restocked it
 * meanwhile: that bundle goes back. */
static bool restock_shelf(struct sm_slab *slab, struct sm_shelf *shelf)
{
    sm_lock(&slab->lock);
    void *const bundle = slab->bundle_count > 0 ? slab->bundles[--slab->bundle_count] : make_bundle(slab);
    sm_unlock(&slab->lock);
    if (!bundle)
        return false;
    sm_lock_briefly(&shelf->lock);
    void *const other = shelf->bundle;
    shelf->bundle = bundle;
    sm_unlock_brief(&shelf->lock);
    give_bundle(slab, other);
    return true;
}

/* Rare work is not inlined, so that a call without it saves few registers. */
static __attribute__((noinline, cold)) void *restock_and_take(struct sm_slab *slab, struct sm_shelf *shelf)
{
    void *cell = NULL;
    while (!cell && restock_shelf(slab, shelf))
        cell = take_from_shelf(slab, shelf);
    /* The system has no memory. Another shard's shelf may have a cell. */
    for (int i = 0; i < SM_SHARDS && !cell; i++)
        cell = take_from_shelf(slab, &slab->shelves[i]);
    return cell;
}

void *sm_slab_take(struct sm_slab *slab)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    void *const cell = take_from_shelf(slab, shelf);
    return cell ? cell : restock_and_take(slab, shelf);
}

void *sm_slab_take_list(struct sm_slab *slab, size_t count)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    void *list = NULL;
    do {
        void *cell;
        sm_lock_briefly(&shelf->lock);
        while (count > 0 && (cell = pop_from_shelf(slab, shelf)) != NULL) {
            push_cell(slab, &list, cell);
            count--;
        }
        sm_unlock_brief(&shelf->lock);
    } while (count > 0 && restock_shelf(slab, shelf));
    return list;
}

/* Empties a full shelf into its bundle. Returns the bundle that was there. */
static void *make_room(struct sm_shelf *shelf)
{
    void *const bundle = shelf->bundle;
    shelf->bundle = shelf->list;
    shelf->list = NULL;
    shelf->count = 0;
    return bundle;
}

static __attribute__((noinline)) void give_several(struct sm_slab *slab, void *list)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    while (list) {
        void *bundle = NULL;
        sm_lock_briefly(&shelf->lock);
        if (shelf->count == BUNDLE)
            bundle = make_room(shelf);
        while (shelf->count < BUNDLE && list) {
            push_cell(slab, &shelf->list, pop_cell(slab, &list));
            shelf->count++;
        }
        sm_unlock_brief(&shelf->lock);
        if (bundle)
            give_bundle(slab, bundle);
    }
}

void sm_slab_give(struct sm_slab *slab, void *cell)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    void *bundle = NULL;
    sm_lock_briefly(&shelf->lock);
    if (shelf->count == BUNDLE)
        bundle = make_room(shelf);
    push_cell(slab, &shelf->list, cell);
    shelf->count++;
    count_cells(slab, shelf, (uint64_t)-1);
    sm_unlock_brief(&shelf->lock);
    if (bundle)
        give_bundle(slab, bundle);
}

void sm_slab_uncount(struct sm_slab *slab)
{
    struct sm_shelf *const shelf = &slab->shelves[sm_shard()];
    sm_lock_briefly(&shelf->lock);
    count_cells(slab, shelf, (uint64_t)-1);
    sm_unlock_brief(&shelf->lock);
}

/* Most lists are of one cell. */
void sm_slab_give_list(struct sm_slab *slab, void *list)
{
    if (list && !*get_cell_link(&slab->cells, list))
        sm_slab_give(slab, list);
    else
        give_several(slab, list);
}

void sm_slab_trim(struct sm_slab *slab)
{
    for (struct sm_shelf *shelf = slab->shelves; shelf < slab->shelves + SM_SHARDS; shelf++) {
        sm_lock_briefly(&shelf->lock);
        void *const list = shelf->list;
        void *const bundle = shelf->bundle;
        shelf->list = shelf->bundle = NULL;
        shelf->count = 0;
        sm_unlock_brief(&shelf->lock);
        sm_lock(&slab->lock);
        dissolve_bundle(slab, list);
        dissolve_bundle(slab, bundle);
        sm_unlock(&slab->lock);
    }
    sm_lock(&slab->lock);
    while (slab->bundle_count > 0)
        dissolve_bundle(slab, slab->bundles[--slab->bundle_count]);
    sm_cells_trim(&slab->cells);
    sm_unlock(&slab->lock);
}

/* ---- Walks ---- */

/* The number of cells that a walk visits before it unlocks the slab. */
enum { AT_ONCE = 1024 };

/* Visits up to AT_ONCE cells of the walk's chunk. The slab is locked. */
static void *find_in_chunk(const struct sm_cells *cells, struct sm_slab_walk *walk,
                           bool (*wanted)(void *cell, const void *user), const void *user)
{
    const struct chunk *const chunk = walk->chunk;
    const size_t count = count_cells_in(cells, chunk);
    const size_t end = count - walk->cell > AT_ONCE ? walk->cell + AT_ONCE : count;
    while (walk->cell < end) {
        char *const cell = (char *)(uintptr_t)chunk + get_cells_offset(chunk) + walk->cell++ * cells->cell;
        if (wanted(cell, user))
            return cell;
    }
    if (end == count) {
        walk->chunk = chunk->next;
        walk->cell = 0;
    }
    return NULL;
}

void *sm_slab_find(struct sm_slab *slab, struct sm_slab_walk *walk, bool (*wanted)(void *cell, const void *user),
                   const void *user)
{
    const struct sm_cells *const cells = &slab->cells;
    void *found = NULL;
    for (;;) {
        sm_lock(&slab->lock);
        /* Begins the walk, or ends it if the slab was trimmed. Chunks added after the walk began precede those
         * that it visits, so it does not see them. */
        if (!walk->begun)
            *walk = (struct sm_slab_walk){.begun = true, .chunk = cells->chunks, .trims = cells->trims};
        else if (walk->trims != cells->trims)
            walk->chunk = NULL;
        if (walk->chunk)
            found = find_in_chunk(cells, walk, wanted, user);
        sm_unlock(&slab->lock);
        if (found || !walk->chunk)
            return found;
        sm_yield(); /* otherwise this thread may retake the lock before others get it */
    }
}
