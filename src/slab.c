/* Small structs of one size, in chunks that keep their type. */
#include "slab.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16384, CACHE_LINE = 64 };

static void **link_of(const struct sm_slab *slab, void *cell)
{
    return (void **)((char *)cell + slab->cell - sizeof(void *));
}

static int grow(struct sm_slab *slab)
{
    char *const chunk = aligned_alloc(CHUNK_BYTES / 4, CHUNK_BYTES);
    if (!chunk)
        return -1;
    memset(chunk, 0, CHUNK_BYTES);
    *(void **)(void *)chunk = slab->chunks;
    slab->chunks = chunk;
    /* Pushed from the end, so that cells are handed out in order of address. */
    const size_t count = (CHUNK_BYTES - CACHE_LINE) / slab->cell;
    for (size_t i = count; i-- > 0;) {
        void *const cell = chunk + CACHE_LINE + i * slab->cell;
        *link_of(slab, cell) = slab->free;
        slab->free = cell;
    }
    return 0;
}

void *sm_slab_take(struct sm_slab *slab)
{
    assert(slab->cell % alignof(void *) == 0);
    sm_lock(&slab->lock);
    void *cell = NULL;
    if (slab->free || grow(slab) == 0) {
        cell = slab->free;
        slab->free = *link_of(slab, cell);
        *link_of(slab, cell) = NULL;
        slab->used++;
    }
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

void sm_slab_trim(struct sm_slab *slab)
{
    sm_lock(&slab->lock);
    if (slab->used == 0) {
        while (slab->chunks) {
            void *const chunk = slab->chunks;
            slab->chunks = *(void **)chunk;
            free(chunk);
        }
        slab->free = NULL;
    }
    sm_unlock(&slab->lock);
}
