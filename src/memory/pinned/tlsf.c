/*
 * An index of free memory: the two-level segregated fit of Masmano, Ripoll, Crespo and Real (ECRTS 2004). Its structs
 * are not in the memory itself.
 */
#include "memory/pinned/tlsf.h"

#include "base/slab.h"

#include <assert.h>

/* A list may have blocks that are too small. After this many tries a larger block is split. */
enum { TRIES = 8 };

static struct sm_cells structs = SM_CELLS_INITIALIZER(struct sm_block);

/* A list. Below SM_TLSF_STEPS granules, each size has its own; above, each power of two has SM_TLSF_STEPS lists. */
struct place {
    unsigned power;
    unsigned step;
};

static unsigned compute_log2(size_t value)
{
    return 63 - (unsigned)__builtin_clzll(value);
}

static struct place find_list_of_size(size_t bytes)
{
    const size_t granules = bytes / SM_TLSF_GRANULE;
    if (granules < SM_TLSF_STEPS)
        return (struct place){.power = 0, .step = (unsigned)granules};
    const unsigned shift = compute_log2(granules) - SM_TLSF_STEPS_LOG;
    return (struct place){.power = shift + 1, .step = (unsigned)(granules >> shift) - SM_TLSF_STEPS};
}

static void link_block(struct sm_tlsf *tlsf, struct sm_block *block)
{
    const struct place at = find_list_of_size(block->bytes);
    struct sm_block **const first = &tlsf->lists[at.power][at.step];
    block->free = true;
    block->previous = NULL;
    block->next = *first;
    if (*first)
        (*first)->previous = block;
    *first = block;
    tlsf->steps[at.power] |= UINT32_C(1) << at.step;
    tlsf->powers |= UINT32_C(1) << at.power;
}

static void unlink_block(struct sm_tlsf *tlsf, struct sm_block *block)
{
    const struct place at = find_list_of_size(block->bytes);
    struct sm_block **const first = &tlsf->lists[at.power][at.step];
    if (block->previous)
        block->previous->next = block->next;
    else
        *first = block->next;
    if (block->next)
        block->next->previous = block->previous;
    if (!*first)
        tlsf->steps[at.power] &= ~(UINT32_C(1) << at.step);
    if (!tlsf->steps[at.power])
        tlsf->powers &= ~(UINT32_C(1) << at.power);
    block->free = false;
    block->user = NULL;
}

/* Returns the smallest block of the list that is large enough, of the first few or of all. NULL: none. */
static struct sm_block *find_best_block(struct sm_block *block, size_t bytes, bool try_all)
{
    struct sm_block *best = NULL;
    for (int i = 0; block && (i < TRIES || try_all); i++, block = block->next)
        if (block->bytes >= bytes && (!best || block->bytes < best->bytes))
            best = block;
    return best;
}

/* Returns a block of the next list of larger blocks. NULL: none. */
static struct sm_block *find_larger_block(const struct sm_tlsf *tlsf, struct place at)
{
    uint32_t steps = at.step + 1 < SM_TLSF_STEPS ? tlsf->steps[at.power] >> (at.step + 1) << (at.step + 1) : 0;
    if (!steps) {
        const uint32_t powers = at.power + 1 < SM_TLSF_POWERS ? tlsf->powers >> (at.power + 1) << (at.power + 1) : 0;
        if (!powers)
            return NULL;
        at.power = (unsigned)__builtin_ctz(powers);
        steps = tlsf->steps[at.power];
    }
    return tlsf->lists[at.power][__builtin_ctz(steps)];
}

struct sm_block *sm_tlsf_block(void)
{
    struct sm_block *const block = sm_cells_take(&structs);
    if (block)
        *block = (struct sm_block){.bytes = 0};
    return block;
}

void sm_tlsf_add(struct sm_tlsf *tlsf, struct sm_block *block, void *start, size_t bytes, void *stretch)
{
    assert(bytes > 0 && bytes % SM_TLSF_GRANULE == 0 && bytes <= SM_TLSF_LARGEST);
    *block = (struct sm_block){.start = start, .bytes = bytes, .stretch = stretch};
    link_block(tlsf, block);
}

/* Splits the block. Without memory for the rest's struct, the block keeps its size. */
static void split_block(struct sm_tlsf *tlsf, struct sm_block *block, size_t bytes)
{
    struct sm_block *const rest = block->bytes > bytes ? sm_cells_take(&structs) : NULL;
    if (!rest)
        return;
    *rest = (struct sm_block){.start = block->start + bytes,
                              .bytes = block->bytes - bytes,
                              .before = block,
                              .after = block->after,
                              .stretch = block->stretch};
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    link_block(tlsf, rest);
}

struct sm_block *sm_tlsf_take(struct sm_tlsf *tlsf, size_t bytes, bool try_all)
{
    assert(bytes > 0 && bytes % SM_TLSF_GRANULE == 0 && bytes <= SM_TLSF_LARGEST);
    const struct place at = find_list_of_size(bytes);
    struct sm_block *block = find_best_block(tlsf->lists[at.power][at.step], bytes, try_all);
    if (!block)
        block = find_larger_block(tlsf, at);
    if (block) {
        unlink_block(tlsf, block);
        split_block(tlsf, block, bytes);
    }
    return block;
}

/* Joins two neighbours to one, the first. Neither is in a list. */
static void join_blocks(struct sm_block *first, struct sm_block *second)
{
    first->bytes += second->bytes;
    first->after = second->after;
    if (first->after)
        first->after->before = first;
    sm_cells_give(&structs, second);
}

struct sm_block *sm_tlsf_give(struct sm_tlsf *tlsf, struct sm_block *block)
{
    struct sm_block *const before = block->before;
    struct sm_block *const after = block->after;
    assert(!block->free);
    if (after && after->free) {
        unlink_block(tlsf, after);
        join_blocks(block, after);
    }
    if (before && before->free) {
        unlink_block(tlsf, before);
        join_blocks(before, block);
        block = before;
    }
    link_block(tlsf, block);
    return block;
}

void sm_tlsf_take_block(struct sm_tlsf *tlsf, struct sm_block *block)
{
    assert(block->free);
    unlink_block(tlsf, block);
}

void sm_tlsf_remove(struct sm_block *block)
{
    assert(!block->free && sm_block_is_all(block));
    sm_cells_give(&structs, block);
}

void sm_tlsf_trim(void)
{
    sm_cells_trim(&structs);
}
