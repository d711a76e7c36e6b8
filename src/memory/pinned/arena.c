/* The arena: segments of page-locked memory, and which parts of them are in use. */
#include "memory/pinned/arena.h"

#include "memory/pinned/host_node.h"
#include "memory/pinned/segment.h"
#include "base/process.h"
#include "memory/pinned/runs.h"
#include "base/status.h"
#include "system/clock.h"

static struct {
    struct sm_lock lock; /* guards the members below, and all blocks and runs */
    struct sm_tlsf tlsf[SM_HOST_PLACES];
    struct sm_runs runs[SM_HOST_PLACES];
    struct sm_segment *first;
    struct sm_arena_facts facts;
    size_t limit; /* of the bytes held; 0: none */
} arena = {.lock = SM_LOCK_INITIALIZER};

static size_t round_to_granules(size_t size)
{
    return (size + SM_TLSF_GRANULE - 1) / SM_TLSF_GRANULE * SM_TLSF_GRANULE;
}

size_t sm_arena_rounded(size_t size)
{
    return size <= SM_RUNS_LARGEST ? sm_runs_cell(sm_runs_class(size)) : round_to_granules(size);
}

size_t sm_arena_least(size_t size)
{
    return round_to_granules(size);
}

unsigned sm_arena_place_of(const void *given)
{
    const struct sm_block *const block = given;
    const struct sm_segment *const segment = block->stretch;
    return segment->place;
}

size_t sm_arena_bytes_of(const void *given)
{
    const struct sm_block *const block = given;
    return block->user ? sm_runs_cell_of(block) : block->bytes;
}

uint64_t sm_arena_time(unsigned ago)
{
    const uint64_t ms = sm_now() / 1000000;
    return ms > ago ? ms - ago : 0;
}

/* ---- With the arena locked ---- */

static struct sm_block *take_block(unsigned place, size_t bytes, bool try_all)
{
    struct sm_block *const block = sm_tlsf_take(&arena.tlsf[place], bytes, try_all);
    if (block)
        ((struct sm_segment *)block->stretch)->unused = NULL;
    return block;
}

static void give_block(unsigned place, struct sm_block *block)
{
    struct sm_segment *const segment = block->stretch;
    block = sm_tlsf_give(&arena.tlsf[place], block);
    if (sm_block_is_all(block)) {
        segment->unused = block;
        segment->since = sm_arena_time(0);
    }
}

static bool take_cell(unsigned place, size_t size, bool try_all, struct sm_pinned *out)
{
    struct sm_block *block = NULL;
    const unsigned class = sm_runs_class(size);
    void *data = sm_runs_take(&arena.runs[place], class, &block);
    if (!data) {
        struct sm_block *const run = take_block(place, sm_runs_bytes(class), try_all);
        if (run && sm_runs_add(&arena.runs[place], class, run))
            data = sm_runs_take(&arena.runs[place], class, &block);
        else if (run)
            give_block(place, run);
    }
    if (!data)
        return false;
    *out = (struct sm_pinned){.data = data, .bytes = size, .block = block};
    arena.facts.used += sm_runs_cell(class);
    return true;
}

static bool take_whole_block(unsigned place, size_t size, bool try_all, struct sm_pinned *out)
{
    struct sm_block *const block = take_block(place, round_to_granules(size), try_all);
    if (!block)
        return false;
    *out = (struct sm_pinned){.data = block->start, .bytes = size, .block = block};
    arena.facts.used += block->bytes;
    return true;
}

static bool take_memory_at_place(unsigned place, size_t size, bool try_all, struct sm_pinned *out)
{
    return size <= SM_RUNS_LARGEST ? take_cell(place, size, try_all, out) : take_whole_block(place, size, try_all, out);
}

/* Takes a cell or else a whole block. A small segment may have no room for a run, or there may be no memory for the
 * run's struct. */
static bool take_cell_or_block(unsigned place, size_t size, struct sm_pinned *out)
{
    return take_memory_at_place(place, size, true, out) || take_whole_block(place, size, true, out);
}

static void link_segment(struct sm_segment *segment)
{
    segment->next = arena.first;
    segment->previous = NULL;
    if (arena.first)
        arena.first->previous = segment;
    arena.first = segment;
    arena.facts.segments++;
}

static void unlink_segment(struct sm_segment *segment)
{
    if (segment->previous)
        segment->previous->next = segment->next;
    else
        arena.first = segment->next;
    if (segment->next)
        segment->next->previous = segment->previous;
    arena.facts.segments--;
}

static struct sm_segment *find_longest_unused_segment(uint64_t until)
{
    struct sm_segment *found = NULL;
    for (struct sm_segment *segment = arena.first; segment; segment = segment->next)
        if (segment->unused && segment->since <= until && (!found || segment->since < found->since))
            found = segment;
    return found;
}

/* ---- Memory ---- */

bool sm_arena_take(unsigned place, size_t size, bool try_all, struct sm_pinned *out)
{
    sm_lock(&arena.lock);
    const bool found = take_memory_at_place(place, size, try_all, out);
    sm_unlock(&arena.lock);
    return found;
}

bool sm_arena_take_anywhere(size_t size, struct sm_pinned *out)
{
    bool found = false;
    sm_lock(&arena.lock);
    for (unsigned place = 0; place < SM_HOST_PLACES && !found; place++)
        found = take_cell_or_block(place, size, out);
    sm_unlock(&arena.lock);
    return found;
}

void sm_arena_give(void *data, void *given)
{
    struct sm_block *const block = given;
    sm_lock(&arena.lock);
    const unsigned place = sm_arena_place_of(block);
    arena.facts.used -= sm_arena_bytes_of(block);
    if (!block->user || sm_runs_give(&arena.runs[place], block, data))
        give_block(place, block);
    sm_unlock(&arena.lock);
}

/* ---- Segments ---- */

static void drop_block_struct(struct sm_block *block, size_t held)
{
    sm_lock(&arena.lock);
    sm_tlsf_remove(block);
    arena.facts.held -= held;
    sm_unlock(&arena.lock);
}

static void add_segment(struct sm_segment *segment, struct sm_block *block, size_t size, struct sm_pinned *out)
{
    struct sm_arena_facts *const facts = &arena.facts;
    sm_lock(&arena.lock);
    sm_tlsf_add(&arena.tlsf[segment->place], block, segment->start, segment->bytes, segment);
    /* It may stay unused: take_cell_or_block() may find memory that others have given back meanwhile. */
    segment->unused = block;
    segment->since = sm_arena_time(0);
    link_segment(segment);
    facts->registrations++;
    facts->held += segment->bytes;
    facts->peak_held = facts->held > facts->peak_held ? facts->held : facts->peak_held;
    (void)take_cell_or_block(segment->place, size, out);
    sm_unlock(&arena.lock);
}

static synced_mem_status check_limit(size_t bytes)
{
    sm_lock(&arena.lock);
    const size_t held = arena.facts.held;
    const size_t limit = arena.limit;
    sm_unlock(&arena.lock);
    if (limit == 0 || (held <= limit && bytes <= limit - held))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
                   "%zu more bytes of page-locked memory exceed the limit of %zu, as %zu are held", bytes, limit, held);
}

/* Creates the struct of the block before the segment, so that a new segment can't get lost. */
synced_mem_status sm_arena_grow(int device, unsigned place, size_t bytes, size_t size, struct sm_pinned *out)
{
    struct sm_segment *segment;
    sm_lock(&arena.lock);
    struct sm_block *const block = sm_tlsf_block();
    sm_unlock(&arena.lock);
    if (!block)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a block's record");
    synced_mem_status status = check_limit(bytes);
    if (status == SYNCED_MEM_OK)
        status = sm_segment_create(device, place, bytes, &segment);
    if (status == SYNCED_MEM_OK)
        add_segment(segment, block, size, out);
    else
        drop_block_struct(block, 0);
    return status;
}

/* Takes the longest unused segment off the list and its block out of the index, as if it were in use. NULL: there is
 * none, or no more than keep bytes are held. */
static struct sm_segment *withdraw_segment(size_t keep, uint64_t until)
{
    sm_lock(&arena.lock);
    struct sm_segment *const segment = arena.facts.held > keep ? find_longest_unused_segment(until) : NULL;
    if (segment) {
        sm_tlsf_take_block(&arena.tlsf[segment->place], segment->unused);
        unlink_segment(segment);
    }
    sm_unlock(&arena.lock);
    return segment;
}

/* Puts segments that the runtime refuses to unregister back after the others are released. */
synced_mem_status sm_arena_release(size_t keep, uint64_t until, bool *any)
{
    struct sm_outcome first = {.status = SYNCED_MEM_OK};
    struct sm_segment *stuck = NULL;
    struct sm_segment *segment;
    *any = false;
    while ((segment = withdraw_segment(keep, until)) != NULL) {
        struct sm_block *const block = segment->unused;
        const size_t bytes = segment->bytes;
        const synced_mem_status status = sm_segment_destroy(segment);
        if (status == SYNCED_MEM_OK) {
            drop_block_struct(block, bytes);
            *any = true;
            continue;
        }
        if (first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
        segment->next = stuck;
        stuck = segment;
    }
    while ((segment = stuck) != NULL) {
        stuck = segment->next;
        sm_lock(&arena.lock);
        link_segment(segment);
        segment->unused = sm_tlsf_give(&arena.tlsf[segment->place], segment->unused);
        sm_unlock(&arena.lock);
    }
    return sm_outcome_end(&first);
}

/* ---- Numbers ---- */

bool sm_arena_set_limit(size_t bytes)
{
    sm_lock(&arena.lock);
    arena.limit = bytes;
    const bool over = bytes > 0 && arena.facts.held > bytes;
    sm_unlock(&arena.lock);
    return over;
}

struct sm_arena_facts sm_arena_facts(void)
{
    sm_lock(&arena.lock);
    const struct sm_arena_facts facts = arena.facts;
    sm_unlock(&arena.lock);
    return facts;
}

void sm_arena_reset_peak(void)
{
    sm_lock(&arena.lock);
    arena.facts.peak_held = arena.facts.held;
    sm_unlock(&arena.lock);
}

void sm_arena_trim(void)
{
    sm_lock(&arena.lock);
    sm_tlsf_trim();
    sm_runs_trim();
    sm_unlock(&arena.lock);
}
