/* The arena: segments of page-locked memory, and which parts of them are in use. */
#include "memory/pinned/arena.h"

#include "memory/pinned/host_node.h"
#include "memory/pinned/segment.h"
#include "base/process.h"
#include "memory/pinned/runs.h"
#include "base/status.h"

#include <time.h>

static struct {
    struct sm_lock lock; /* guards the members below, and all blocks and runs */
    struct sm_tlsf spaces[SM_HOST_PLACES];
    struct sm_runs runs[SM_HOST_PLACES];
    struct sm_segment *first;
    struct sm_arena_facts facts;
    size_t limit; /* of the bytes held; 0: none */
} store = {.lock = SM_LOCK_INITIALIZER};

static size_t whole_granules(size_t size)
{
    return (size + SM_TLSF_GRANULE - 1) / SM_TLSF_GRANULE * SM_TLSF_GRANULE;
}

size_t sm_arena_rounded(size_t size)
{
    return size <= SM_RUNS_LARGEST ? sm_runs_cell(sm_runs_class(size)) : whole_granules(size);
}

size_t sm_arena_least(size_t size)
{
    return whole_granules(size);
}

unsigned sm_arena_place_of(const void *owner)
{
    const struct sm_block *const block = owner;
    const struct sm_segment *const slab = block->stretch;
    return slab->place;
}

size_t sm_arena_bytes_of(const void *owner)
{
    const struct sm_block *const block = owner;
    return block->user ? sm_runs_cell_of(block) : block->bytes;
}

uint64_t sm_arena_time(unsigned ago)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return ms > ago ? ms - ago : 0;
}

/* ---- With the arena locked ---- */

static struct sm_block *take_block(unsigned place, size_t bytes, bool look_at_all)
{
    struct sm_block *const block = sm_tlsf_take(&store.spaces[place], bytes, look_at_all);
    if (block)
        ((struct sm_segment *)block->stretch)->unused = NULL;
    return block;
}

static void give_block(unsigned place, struct sm_block *block)
{
    struct sm_segment *const slab = block->stretch;
    block = sm_tlsf_give(&store.spaces[place], block);
    if (sm_block_is_all(block)) {
        slab->unused = block;
        slab->since = sm_arena_time(0);
    }
}

/* Adds a run of the class's cells. Returns false without room for it. */
static bool add_run(unsigned place, unsigned class, bool look_at_all)
{
    struct sm_block *const block = take_block(place, sm_runs_bytes(class), look_at_all);
    const bool added = block && sm_runs_add(&store.runs[place], class, block);
    if (block && !added)
        give_block(place, block);
    return added;
}

static bool take_cell(unsigned place, size_t size, bool look_at_all, struct sm_pinned *out)
{
    struct sm_block *block = NULL;
    const unsigned class = sm_runs_class(size);
    void *data = sm_runs_take(&store.runs[place], class, &block);
    if (!data && add_run(place, class, look_at_all))
        data = sm_runs_take(&store.runs[place], class, &block);
    if (!data)
        return false;
    *out = (struct sm_pinned){.data = data, .bytes = size, .owner = block};
    store.facts.used += sm_runs_cell(class);
    return true;
}

static bool take_whole(unsigned place, size_t size, bool look_at_all, struct sm_pinned *out)
{
    struct sm_block *const block = take_block(place, whole_granules(size), look_at_all);
    if (!block)
        return false;
    *out = (struct sm_pinned){.data = block->start, .bytes = size, .owner = block};
    store.facts.used += block->bytes;
    return true;
}

static bool take_here(unsigned place, size_t size, bool look_at_all, struct sm_pinned *out)
{
    return size <= SM_RUNS_LARGEST ? take_cell(place, size, look_at_all, out)
                                   : take_whole(place, size, look_at_all, out);
}

/* Takes a cell or else a whole block. A small segment may have no room for a run, or there may be no memory for the
 * run's record. */
static bool take_somehow(unsigned place, size_t size, struct sm_pinned *out)
{
    return take_here(place, size, true, out) || take_whole(place, size, true, out);
}

static void give_here(void *data, struct sm_block *block)
{
    const unsigned place = sm_arena_place_of(block);
    store.facts.used -= sm_arena_bytes_of(block);
    if (!block->user || sm_runs_give(&store.runs[place], block, data))
        give_block(place, block);
}

static void enlist(struct sm_segment *slab)
{
    slab->next = store.first;
    slab->previous = NULL;
    if (store.first)
        store.first->previous = slab;
    store.first = slab;
    store.facts.slabs++;
}

static void strike(struct sm_segment *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        store.first = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
    store.facts.slabs--;
}

static struct sm_segment *longest_unused(uint64_t until)
{
    struct sm_segment *found = NULL;
    for (struct sm_segment *slab = store.first; slab; slab = slab->next)
        if (slab->unused && slab->since <= until && (!found || slab->since < found->since))
            found = slab;
    return found;
}

/* ---- Memory ---- */

bool sm_arena_take(unsigned place, size_t size, bool look_at_all, struct sm_pinned *out)
{
    sm_lock(&store.lock);
    const bool found = take_here(place, size, look_at_all, out);
    sm_unlock(&store.lock);
    return found;
}

bool sm_arena_take_anywhere(size_t size, struct sm_pinned *out)
{
    bool found = false;
    sm_lock(&store.lock);
    for (unsigned place = 0; place < SM_HOST_PLACES && !found; place++)
        found = take_somehow(place, size, out);
    sm_unlock(&store.lock);
    return found;
}

void sm_arena_give(void *data, void *owner)
{
    sm_lock(&store.lock);
    give_here(data, owner);
    sm_unlock(&store.lock);
}

/* ---- Segments ---- */

static struct sm_block *new_block(void)
{
    sm_lock(&store.lock);
    struct sm_block *const block = sm_tlsf_block();
    sm_unlock(&store.lock);
    return block;
}

static void drop_block(struct sm_block *block, size_t held)
{
    sm_lock(&store.lock);
    sm_tlsf_remove(block);
    store.facts.held -= held;
    sm_unlock(&store.lock);
}

static void add_slab(struct sm_segment *slab, struct sm_block *block, size_t size, struct sm_pinned *out)
{
    struct sm_arena_facts *const facts = &store.facts;
    sm_lock(&store.lock);
    sm_tlsf_add(&store.spaces[slab->place], block, slab->start, slab->bytes, slab);
    slab->unused = block; /* it may stay unused: take_somehow() may find memory that others have given back meanwhile */
    slab->since = sm_arena_time(0);
    enlist(slab);
    facts->registrations++;
    facts->held += slab->bytes;
    facts->peak_held = facts->held > facts->peak_held ? facts->held : facts->peak_held;
    (void)take_somehow(slab->place, size, out);
    sm_unlock(&store.lock);
}

static synced_mem_status check_limit(size_t bytes)
{
    sm_lock(&store.lock);
    const size_t held = store.facts.held;
    const size_t limit = store.limit;
    sm_unlock(&store.lock);
    if (limit == 0 || (held <= limit && bytes <= limit - held))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
                   "%zu more bytes of page-locked memory exceed the limit of %zu, as %zu are held", bytes, limit, held);
}

/* Creates the record of the block before the segment, so that a new segment can't get lost. */
synced_mem_status sm_arena_grow(int device, unsigned place, size_t bytes, size_t size, struct sm_pinned *out)
{
    struct sm_segment *slab;
    struct sm_block *const block = new_block();
    if (!block)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a block's record");
    synced_mem_status status = check_limit(bytes);
    if (status == SYNCED_MEM_OK)
        status = sm_segment_create(device, place, bytes, &slab);
    if (status == SYNCED_MEM_OK)
        add_slab(slab, block, size, out);
    else
        drop_block(block, 0);
    return status;
}

/* Takes the longest unused segment off the list and its block out of the index, as if it were in use. NULL: there is
 * none, or no more than keep bytes are held. */
static struct sm_segment *withdraw(size_t keep, uint64_t until)
{
    sm_lock(&store.lock);
    struct sm_segment *const slab = store.facts.held > keep ? longest_unused(until) : NULL;
    if (slab) {
        sm_tlsf_take_block(&store.spaces[slab->place], slab->unused);
        strike(slab);
    }
    sm_unlock(&store.lock);
    return slab;
}

static void put_back(struct sm_segment *slab)
{
    sm_lock(&store.lock);
    enlist(slab);
    slab->unused = sm_tlsf_give(&store.spaces[slab->place], slab->unused);
    sm_unlock(&store.lock);
}

/* Puts segments that the runtime refuses to unregister back after the others are released. */
synced_mem_status sm_arena_release(size_t keep, uint64_t until, bool *any)
{
    synced_mem_status first = SYNCED_MEM_OK;
    struct sm_segment *stuck = NULL;
    struct sm_segment *slab;
    *any = false;
    while ((slab = withdraw(keep, until)) != NULL) {
        struct sm_block *const block = slab->unused;
        const size_t bytes = slab->bytes;
        const synced_mem_status status = sm_segment_destroy(slab);
        if (status == SYNCED_MEM_OK) {
            drop_block(block, bytes);
            *any = true;
            continue;
        }
        first = first == SYNCED_MEM_OK ? status : first;
        slab->next = stuck;
        stuck = slab;
    }
    while ((slab = stuck) != NULL) {
        stuck = slab->next;
        put_back(slab);
    }
    return first;
}

/* ---- Numbers ---- */

bool sm_arena_set_limit(size_t bytes)
{
    sm_lock(&store.lock);
    store.limit = bytes;
    const bool over = bytes > 0 && store.facts.held > bytes;
    sm_unlock(&store.lock);
    return over;
}

struct sm_arena_facts sm_arena_facts(void)
{
    sm_lock(&store.lock);
    const struct sm_arena_facts facts = store.facts;
    sm_unlock(&store.lock);
    return facts;
}

void sm_arena_reset_peak(void)
{
    sm_lock(&store.lock);
    store.facts.peak_held = store.facts.held;
    sm_unlock(&store.lock);
}

void sm_arena_trim(void)
{
    sm_lock(&store.lock);
    sm_tlsf_trim();
    sm_runs_trim();
    sm_unlock(&store.lock);
}
