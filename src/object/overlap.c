/* Bytes that the objects of one call have in common. */
#include "object/overlap.h"

#include "base/status.h"
#include "object/span.h"

#include <stdlib.h>

/* Bytes of one object in the call. */
struct range {
    const struct synced_mem *space; /* the owner that begin and end are offsets in; NULL: they are addresses */
    uintptr_t begin;
    uintptr_t end;
    bool written;
    struct synced_mem *object;
};

enum {
    RANGES_OF_PAIR = 3, /* at most: the copy that is written, and the two that hold the contents */
    FEW = 6             /* ranges, which need no allocation */
};

/* Returns room for the ranges; few has it for FEW. */
static struct range *make_room(size_t pairs, size_t ranges_each, struct range *few)
{
    return pairs * ranges_each <= FEW ? few : calloc(pairs, ranges_each * sizeof *few);
}

static void end_room(struct range *ranges, const struct range *few)
{
    if (ranges != few)
        free(ranges);
}

static synced_mem_status refuse_room(size_t pairs)
{
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to compare the objects of %zu copies", pairs);
}

static int compare_begins(const void *a, const void *b)
{
    const struct range *const one = a;
    const struct range *const other = b;
    const uintptr_t first = one->space == other->space ? one->begin : (uintptr_t)one->space;
    const uintptr_t second = one->space == other->space ? other->begin : (uintptr_t)other->space;
    return (first > second) - (first < second);
}

/* Returns whichever of two ranges reaches further among those of its space. */
static const struct range *get_further(const struct range *before, const struct range *at)
{
    return before && before->space == at->space && before->end >= at->end ? before : at;
}

/* Sorts the ranges. Returns one that overlaps the earlier range that is stored, where one of them is written; NULL:
 * there is none. Of the ranges that begin earlier, the one that reaches furthest is enough to compare with. */
static const struct range *find_overlap(struct range *ranges, size_t count, const struct range **earlier)
{
    const struct range *furthest = NULL;
    const struct range *furthest_written = NULL;
    qsort(ranges, count, sizeof *ranges, compare_begins);
    for (const struct range *at = ranges; at < ranges + count; at++) {
        *earlier = at->written ? furthest : furthest_written;
        if (*earlier && (*earlier)->space == at->space && (*earlier)->end > at->begin)
            return at;
        furthest = get_further(furthest, at);
        if (at->written)
            furthest_written = get_further(furthest_written, at);
    }
    return NULL;
}

/* ---- Names ---- */

/* An object of 0 bytes counts as one byte, so that it overlaps itself. */
static struct range get_name(struct synced_mem *object, bool written)
{
    const size_t begin = sm_object_begin(object);
    const size_t size = sm_size(object) > 0 ? sm_size(object) : 1;
    return (struct range){
        .space = sm_owner(object), .begin = begin, .end = begin + size, .object = object, .written = written};
}

synced_mem_status sm_check_names(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                 struct synced_mem **failed)
{
    struct range few[FEW];
    const struct range *earlier;
    struct range *const ranges = make_room(count, 2, few);
    if (!ranges)
        return refuse_room(count);
    for (size_t i = 0; i < count; i++) {
        ranges[2 * i] = get_name(to[i], true);
        ranges[2 * i + 1] = get_name(from[i], false);
    }
    const struct range *const found = find_overlap(ranges, 2 * count, &earlier);
    struct synced_mem *const object = found ? found->object : NULL;
    end_room(ranges, few);
    if (!object)
        return SYNCED_MEM_OK;
    *failed = object;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "the call writes the object, or a part of it, and names it a second time");
}

/* ---- Memory ---- */

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

static bool is_read_from_user(const struct sm_record *record, enum sm_side side)
{
    return (sm_head(record) & sm_bit(side)) && may_share_memory(record, side);
}

/* The library's memory belongs to one object, unless the caller has given it to another object too. */
bool sm_pair_has_memory_of_user(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    return may_share_memory(pair->to, pairs->side) || is_read_from_user(pair->from, SM_CPU) ||
           is_read_from_user(pair->from, SM_GPU);
}

/* Adds the bytes that the pair writes, or reads. */
static void add_range(struct range *ranges, size_t *used, const struct sm_pair *pair, enum sm_side side, bool written)
{
    const struct sm_record *const record = written ? pair->to : pair->from;
    const struct sm_copy *const memory = get_memory(record, side);
    if (!memory || pair->size == 0)
        return;
    const uintptr_t begin = (uintptr_t)sm_copy_data(memory) + sm_begin_of(record) + (written ? 0 : pair->from_offset);
    ranges[(*used)++] =
        (struct range){.begin = begin, .end = begin + pair->size, .written = written, .object = sm_owner_of(record)};
}

static size_t collect_ranges(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                             struct range *ranges)
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

synced_mem_status sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                    struct synced_mem **failed)
{
    struct range few[FEW];
    const struct range *earlier;
    struct range *const ranges = make_room(count, RANGES_OF_PAIR, few);
    if (!ranges)
        return refuse_room(count);
    const struct range *const found = find_overlap(ranges, collect_ranges(pairs, all, count, ranges), &earlier);
    const struct range written = found ? *(found->written ? found : earlier) : (struct range){.object = NULL};
    end_room(ranges, few);
    if (!written.object)
        return SYNCED_MEM_OK;
    *failed = written.object;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "the call writes the memory at %p, which overlaps memory of another of its objects",
                   (void *)written.begin);
}
