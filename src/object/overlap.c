/* Memory that the objects of one call have in common. */
#include "object/overlap.h"

#include "base/status.h"
#include "object/span.h"

#include <stdlib.h>

static int compare_begins(const void *a, const void *b)
{
    const uintptr_t first = ((const struct sm_range *)a)->begin;
    const uintptr_t second = ((const struct sm_range *)b)->begin;
    return (first > second) - (first < second);
}

/* Returns the copy that has the record's memory. A piece may have no part of it yet. */
static const struct sm_copy *get_memory(const struct sm_record *record, enum sm_side side)
{
    return sm_copy_of(sm_own_record(sm_owner_of(record)), side);
}

static bool may_share_memory(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const memory = get_memory(record, side);
    return memory && sm_copy_is_of_user(memory);
}

/* A copy to read-only memory takes other memory. */
static bool is_written(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const memory = get_memory(record, side);
    return memory && !memory->read_only;
}

/* The library's memory belongs to one object, unless the caller has given it to another object too. */
static bool has_memory_of_user(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++)
        found = may_share_memory(all[i].to, pairs->side) || may_share_memory(all[i].from, SM_CPU) ||
                may_share_memory(all[i].from, SM_GPU);
    return found;
}

/* Adds the bytes that the pair writes, or reads. */
static void add_range(struct sm_range *ranges, size_t *used, const struct sm_pair *pair, enum sm_side side,
                      bool written)
{
    const struct sm_record *const record = written ? pair->to : pair->from;
    const struct sm_copy *const memory = get_memory(record, side);
    if (!memory || pair->size == 0)
        return;
    const uintptr_t begin = (uintptr_t)sm_copy_data(memory) + sm_begin_of(record) + (written ? 0 : pair->from_offset);
    ranges[(*used)++] =
        (struct sm_range){.begin = begin, .end = begin + pair->size, .written = written, .owner = sm_owner_of(record)};
}

static size_t collect_ranges(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                             struct sm_range *ranges)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_written(all[i].to, pairs->side))
            add_range(ranges, &used, &all[i], pairs->side, true);
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            if (sm_head(all[i].from) & sm_bit(side))
                add_range(ranges, &used, &all[i], side, false);
    }
    return used;
}

static synced_mem_status fail_overlap(const struct sm_range *a, const struct sm_range *b, struct synced_mem **failed)
{
    const struct sm_range *const written = a->written ? a : b;
    *failed = written->owner;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "the call writes the memory at %p, which overlaps memory of another of its objects",
                   (void *)written->begin);
}

/* Compares each range with the one that reaches furthest of those that begin earlier. */
synced_mem_status sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                    struct sm_range *ranges, struct synced_mem **failed)
{
    if (!has_memory_of_user(pairs, all, count))
        return SYNCED_MEM_OK;
    const struct sm_range *furthest = NULL;
    const struct sm_range *furthest_written = NULL;
    const size_t used = collect_ranges(pairs, all, count, ranges);
    qsort(ranges, used, sizeof *ranges, compare_begins);
    for (const struct sm_range *at = ranges; at < ranges + used; at++) {
        const struct sm_range *const before = at->written ? furthest : furthest_written;
        if (before && before->end > at->begin)
            return fail_overlap(at, before, failed);
        if (!furthest || at->end > furthest->end)
            furthest = at;
        if (at->written && (!furthest_written || at->end > furthest_written->end))
            furthest_written = at;
    }
    return SYNCED_MEM_OK;
}
