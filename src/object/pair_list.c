/* The pairs of one call. */
#include "object/pair_list.h"

#include "base/status.h"
#include "object/piece.h"
#include "object/span.h"

#include <stdlib.h>

/* ---- Cutting ---- */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Makes a record of the object end after size bytes, if it is larger. The object may become divided. */
static synced_mem_status cut_record(struct synced_mem *object, const struct synced_mem *record, size_t size, bool *cut)
{
    struct synced_mem *const root = sm_root(object);
    const size_t border = sm_begin_of(record) + size;
    if (sm_size(record) <= size)
        return SYNCED_MEM_OK;
    *cut = true;
    if (!sm_is_divided(root))
        SM_TRY(sm_divide(root));
    return sm_cut_at(root, border); /* the record is kept below, before anything is joined */
}

/* Cuts both objects at the borders of each other. *cut: a record was cut. */
static synced_mem_status align_objects(struct synced_mem *to, struct synced_mem *from, bool *cut)
{
    size_t at = 0;
    while (at < sm_size(to)) {
        struct synced_mem *const target = sm_record_at(to, at);
        struct synced_mem *const source = sm_record_at(from, at);
        const size_t size = min_size(sm_size(target), sm_size(source));
        SM_TRY(cut_record(to, target, size, cut));
        SM_TRY(cut_record(from, source, size, cut));
        at += size;
    }
    return SYNCED_MEM_OK;
}

/* One object may be the source of several pairs, and so be cut after it was aligned. */
static synced_mem_status align_all(const struct sm_pair_list *list)
{
    bool cut;
    do {
        cut = false;
        for (size_t i = 0; i < list->count; i++)
            if (!sm_has_one_record(list->to[i]) || !sm_has_one_record(list->from[i]))
                SM_TRY(align_objects(list->to[i], list->from[i], &cut));
    } while (cut);
    return SYNCED_MEM_OK;
}

/* ---- Listing ---- */

static size_t count_pairs(const struct sm_pair_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        for (const struct synced_mem *each = sm_first_record(list->to[i]); each;
             each = sm_next_record(list->to[i], each))
            count++;
    return count;
}

/* Moves on to the earlier pair that the bytes belong to. NULL: nothing was listed before. */
static const struct sm_pair *find_earlier(const struct sm_pair_list *list, size_t *earlier, const struct sm_pair *pair)
{
    if (list->length == 0)
        return NULL;
    while (*earlier + 1 < list->length) {
        const struct sm_pair *const next = &list->pairs[*earlier + 1];
        if (next->of > pair->of || (next->of == pair->of && next->offset > pair->offset))
            break;
        ++*earlier;
    }
    return &list->pairs[*earlier];
}

static void list_pairs(const struct sm_pair_list *list, struct sm_pair *pairs)
{
    size_t earlier = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct synced_mem *source = sm_first_record(list->from[i]);
        size_t offset = 0;
        for (struct synced_mem *target = sm_first_record(list->to[i]); target;
             target = sm_next_record(list->to[i], target)) {
            *pairs = (struct sm_pair){.to = target, .from = source, .of = i, .offset = offset, .size = sm_size(target)};
            const struct sm_pair *const before = find_earlier(list, &earlier, pairs);
            if (before && before->done) {
                pairs->done = true;
                pairs->source = before->source;
                pairs->source_writes = before->source_writes;
                pairs->source_data = before->source_data;
                pairs->reads_gpu = before->reads_gpu;
            }
            sm_keep_record(target);
            sm_keep_record(source);
            offset += sm_size(target);
            source = sm_next_record(list->from[i], source);
            pairs++;
        }
    }
}

static void release_pair(const struct sm_pair *pair)
{
    sm_release_record(pair->to);
    sm_release_record(pair->from);
}

synced_mem_status sm_pair_list_fill(struct sm_pair_list *list)
{
    SM_TRY(align_all(list));
    const size_t length = count_pairs(list);
    struct sm_pair first;
    struct sm_pair *const block = length > 1 ? calloc(length, sizeof *block) : NULL;
    struct sm_pair *const pairs = length > 1 ? block : &first;
    if (!pairs)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu copies", length);
    list_pairs(list, pairs);
    for (size_t i = 0; i < list->length; i++)
        release_pair(&list->pairs[i]);
    free(list->block);
    list->block = block;
    list->one = pairs[0];
    list->pairs = block ? block : &list->one;
    list->length = length;
    return SYNCED_MEM_OK;
}

void sm_pair_list_end(struct sm_pair_list *list)
{
    for (size_t i = 0; i < list->length; i++) {
        sm_release_kept(list->pairs[i].to);
        sm_release_kept(list->pairs[i].from);
    }
    free(list->block);
}
