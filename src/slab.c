/* Small structs of one size, in chunks that keep their type. */
#include "slab.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <sys/mman.h>

/* Each chunk is twice as large as the one before, up to a point; what no cell of it was taken of is not touched. */
enum { FIRST_CHUNK = 16384, LARGEST_CHUNK = 1048576, CACHE_LINE = 64 };

/* At the beginning of a chunk. */
struct chunk {
    struct chunk *next;
    size_t bytes;
};

static void **link_of(const struct sm_slab *slab, void *cell)
{
    return (void **)((char *)cell + slab->cell - sizeof(void *));
}

static bool grow(struct sm_slab *slab)
{
    const struct chunk *const last = slab->chunks;
    const size_t twice = last ? last->bytes * 2 : FIRST_CHUNK;
    const size_t bytes = twice < LARGEST_CHUNK ? twice : LARGEST_CHUNK;
    struct chunk *const chunk = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return false;
    *chunk = (struct chunk){.next = slab->chunks, .bytes = bytes};
    slab->chunks = chunk;
    slab->fresh = (char *)chunk + CACHE_LINE;
    slab->fresh_cells = (bytes - CACHE_LINE) / slab->cell;
    return true;
}

static void *take_fresh(struct sm_slab *slab)
{
    if (slab->fresh_cells == 0 && !grow(slab))
        return NULL;
    void *const cell = slab->fresh;
    slab->fresh = (char *)slab->fresh + slab->cell;
    slab->fresh_cells--;
    return cell;
}

static void *take(struct sm_slab *slab)
{
    void *const cell = slab->free;
    if (!cell)
        return take_fresh(slab);
    slab->free = *link_of(slab, cell);
    *link_of(slab, cell) = NULL;
    return cell;
}

void *sm_slab_take(struct sm_slab *slab)
{
    assert(slab->cell % alignof(void *) == 0);
    sm_lock(&slab->lock);
    void *const cell = take(slab);
    slab->used += cell != NULL;
    sm_unlock(&slab->lock);
    return cell;
}

void sm_slab_give(struct sm_slab *slab, void *cell)
{
    sm_lock(&slab->lock);
    *link_of(slab, cell) = slab->free;
    slab->free = cell;
    slab->used--;
    sm_unlock(&slab->lock);
}

static void free_chunks(struct sm_slab *slab)
{
    while (slab->chunks) {
        struct chunk *const chunk = slab->chunks;
        slab->chunks = chunk->next;
        (void)munmap(chunk, chunk->bytes);
    }
    slab->free = NULL;
    slab->fresh_cells = 0;
}

void sm_slab_trim(struct sm_slab *slab)
{
    sm_lock(&slab->lock);
    if (slab->used == 0)
        free_chunks(slab);
    sm_unlock(&slab->lock);
}
