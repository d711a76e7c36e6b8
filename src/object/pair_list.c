/* The pairs of one call. */
#include "object/pair_list.h"

#include "base/status.h"
#include "object/head.h"
#include "object/overlap.h"
#include "object/piece.h"
#include "object/span.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static synced_mem_status check_sizes(const struct sm_pair_list *list, size_t which, struct synced_mem **failed)
{
    struct synced_mem *const to = list->to[which];
    const struct synced_mem *const from = list->from[which];
    if (sm_size(to) == sm_size(from))
        return SYNCED_MEM_OK;
    *failed = to;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "the object to copy has %zu bytes, but this object has %zu bytes", sm_size(from), sm_size(to));
}

/* ---- Cutting ---- */

/* Cuts the object behind its bytes before end. It may become divided. */
static synced_mem_status cut_object(struct synced_mem *object, size_t end)
{
    struct synced_mem *const root = sm_root(object);
    if (!sm_is_divided(root))
        SM_TRY(sm_divide(root));
    return sm_cut_at(root, sm_object_begin(object) + end); /* the record is held below, before anything is joined */
}

/* Cuts the target where a record of the source ends. */
static synced_mem_status align_target(struct synced_mem *to, struct synced_mem *from)
{
    size_t end = 0;
    for (const struct sm_record *source = sm_first_record(from); source; source = sm_next_record(from, source)) {
        end += sm_size_of(source);
        if (end < sm_size(to))
            SM_TRY(cut_object(to, end));
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_pair_list_check_sizes(const struct sm_pair_list *list, struct synced_mem **failed)
{
    for (size_t i = 0; i < list->count; i++)
        SM_TRY(check_sizes(list, i, failed));
    return SYNCED_MEM_OK;
}

static synced_mem_status align_all(const struct sm_pair_list *list, struct synced_mem **failed)
{
    SM_TRY(sm_pair_list_check_sizes(list, failed));
    for (size_t i = 0; i < list->count; i++)
        if (!sm_has_one_record(list->from[i]))
            SM_TRY(align_target(list->to[i], list->from[i]));
    return SYNCED_MEM_OK;
}

/* ---- Listing ---- */

static size_t count_pairs(const struct sm_pair_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        for (const struct sm_record *each = sm_first_record(list->to[i]); each;
             each = sm_next_record(list->to[i], each))
            count++;
    return count;
}

/* Returns the offset of a listed pair in the caller's. */
static size_t get_offset(const struct sm_pair_list *list, const struct sm_pair *pair)
{
    return list->has_pieces ? pair->offset : 0;
}

/* Moves on to the earlier pair that the bytes at the offset of the caller's pair belong to. */
static const struct sm_pair *find_earlier(const struct sm_pair_list *list, size_t *earlier, size_t of, size_t offset)
{
    while (*earlier + 1 < list->length) {
        const struct sm_pair *const next = &list->pairs[*earlier + 1];
        if (next->of > of || (next->of == of && get_offset(list, next) > offset))
            break;
        ++*earlier;
    }
    return &list->pairs[*earlier];
}

static void describe_pair(struct sm_pair *pair, struct sm_record *to, struct sm_record *from, size_t of,
                          size_t from_offset)
{
    pair->to = to;
    pair->from = from;
    pair->of = of;
    pair->from_offset = from_offset;
    pair->size = sm_size_of(to);
    pair->source = NULL;
    pair->source_data = NULL;
    pair->source_writes = 0;
    pair->reads_gpu = false;
    pair->done = false;
    pair->direct = false;
    pair->queued = false;
}

/* Clears the members behind the first cache line, but for the offset. */
static void clear_rest(struct sm_pair *pair)
{
    const size_t begin = offsetof(struct sm_pair, offset) + sizeof pair->offset;
    memset((char *)pair + begin, 0, sizeof *pair - begin);
}

/* Takes over what was done of the earlier pair, which has the bytes at this offset. */
static void inherit(struct sm_pair *pair, const struct sm_pair *earlier, size_t offset)
{
    if (!earlier->done)
        return;
    pair->done = true;
    pair->source = earlier->source;
    pair->source_writes = earlier->source_writes;
    pair->source_data = earlier->source_data + offset;
    pair->reads_gpu = earlier->reads_gpu;
}

/* The plan of a list: what is found out about all of its pairs while they are listed. */
struct plan {
    const struct sm_pairs *common;
    size_t direct;
    struct sm_expected expected;
    bool has_memory_of_user;
};

/* If the contents are on the device alone, the host copy is not looked at: the processor's cache may not have it. */
static void drop_lost(struct sm_record *record)
{
    if (sm_raw_head(record) != sm_bit(SM_GPU) || sm_inflight_lost(sm_slot_of(record, SM_GPU)))
        sm_drop_lost(record);
}

/* Loads the copies of an object that comes soon. */
static void prefetch_contents(const struct synced_mem *object)
{
    sm_prefetch_copies(&object->record, sm_raw_head(&object->record) | sm_bit(SM_GPU));
}

/* A direct pair of contents that are on the device alone has no other copies than the two that are loaded by now. */
static bool has_memory_of_user(const struct plan *plan, const struct sm_pair *pair)
{
    if (!pair->direct || sm_head(pair->from) != SYNCED_MEM_AT_GPU)
        return sm_pair_has_memory_of_user(plan->common, pair);
    return sm_copy_is_of_user(sm_slot_of(pair->to, SM_GPU)) || sm_copy_is_of_user(sm_slot_of(pair->from, SM_GPU));
}

static void plan_pair(struct plan *plan, struct sm_pair *pair)
{
    drop_lost(pair->to);
    drop_lost(pair->from);
    sm_pair_plan(plan->common, pair, &plan->expected);
    plan->has_memory_of_user = plan->has_memory_of_user || has_memory_of_user(plan, pair);
    plan->direct += pair->direct;
}

/* Loads the records of objects that come soon, and the copies of those that come next. A record in a view is no
 * record of its bytes. */
static void prefetch_objects(const struct sm_pair_list *list, size_t i, bool has_parts)
{
    if (i + 2 * SM_AHEAD < list->count) {
        sm_prefetch_record(&list->to[i + 2 * SM_AHEAD]->record);
        sm_prefetch_record(&list->from[i + 2 * SM_AHEAD]->record);
    }
    if (i + SM_AHEAD < list->count && !has_parts) {
        prefetch_contents(list->to[i + SM_AHEAD]);
        prefetch_contents(list->from[i + SM_AHEAD]);
    }
}

static synced_mem_status list_pairs(const struct sm_pair_list *list, struct sm_pair *pairs, bool has_parts,
                                    struct plan *plan, struct synced_mem **failed)
{
    size_t earlier = 0;
    for (size_t i = 0; i < list->count; i++) {
        prefetch_objects(list, i, has_parts);
        SM_TRY(check_sizes(list, i, failed));
        struct sm_record *source = sm_first_record(list->from[i]);
        size_t offset = 0;
        size_t source_offset = 0;
        for (struct sm_record *target = sm_first_record(list->to[i]); target;
             target = sm_next_record(list->to[i], target)) {
            if (offset - source_offset == sm_size_of(source) && sm_size_of(target) > 0) {
                source_offset += sm_size_of(source);
                source = sm_next_record(list->from[i], source);
            }
            describe_pair(pairs, target, source, i, offset - source_offset);
            if (list->length > 0) {
                const struct sm_pair *const before = find_earlier(list, &earlier, i, offset);
                inherit(pairs, before, offset - get_offset(list, before));
            }
            sm_hold_record(target);
            sm_hold_record(source);
            plan_pair(plan, pairs);
            if (has_parts)
                pairs->offset = offset;
            if (!pairs->direct)
                clear_rest(pairs);
            offset += sm_size_of(target);
            pairs++;
        }
    }
    return SYNCED_MEM_OK;
}

static void release_pair(const struct sm_pair *pair)
{
    sm_drop_record(pair->to);
    sm_drop_record(pair->from);
}

static_assert(offsetof(struct sm_pair, offset) <= SM_CACHE_LINE, "a direct pair uses one cache line");

static void *align(char *block)
{
    return block + SM_CACHE_LINE - (uintptr_t)block % SM_CACHE_LINE;
}

synced_mem_status sm_pair_list_fill(struct sm_pair_list *list, const struct sm_pairs *common, bool has_parts,
                                    struct synced_mem **failed)
{
    struct plan plan = {.common = common};
    if (has_parts)
        SM_TRY(align_all(list, failed));
    const size_t length = has_parts ? count_pairs(list) : list->count;
    struct sm_pair first = {.to = NULL};
    void *const block = length > 1 ? malloc(length * sizeof first + SM_CACHE_LINE) : NULL;
    struct sm_pair *const pairs = block ? align(block) : &first;
    if (!block && length > 1)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu copies", length);
    const synced_mem_status status = list_pairs(list, pairs, has_parts, &plan, failed);
    if (status != SYNCED_MEM_OK) {
        free(block);
        return status;
    }
    for (size_t i = 0; list->has_pieces && i < list->length; i++)
        release_pair(&list->pairs[i]);
    list->has_pieces = has_parts;
    free(list->block);
    list->block = block;
    list->one = pairs[0];
    list->pairs = block ? pairs : &list->one;
    list->length = length;
    list->direct = plan.direct;
    list->expected = plan.expected;
    list->has_memory_of_user = plan.has_memory_of_user;
    return SYNCED_MEM_OK;
}

void sm_pair_list_end(struct sm_pair_list *list)
{
    for (size_t i = 0; list->has_pieces && i < list->length; i++) {
        sm_drop_held_record(list->pairs[i].to);
        sm_drop_held_record(list->pairs[i].from);
    }
    free(list->block);
}
