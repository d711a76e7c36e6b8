/* Checks of a write against the objects in its file. */
#include "object/overwritten.h"

#include "object/backing.h"
#include "object/objects.h"
#include "object/piece.h"
#include "object/span.h"
#include "object/transaction.h"

#include <stdlib.h>

struct check {
    struct synced_mem *const *roots;
    size_t count;
    uint64_t begin;
    uint64_t end;
    struct sm_extent in_use; /* the bytes that an object has in the file, if the write is refused */
};

static int compare_roots(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t) * (const struct synced_mem *const *)a;
    const uintptr_t second = (uintptr_t) * (const struct synced_mem *const *)b;
    return (first > second) - (first < second);
}

/* Returns whether one of the root's records has this backing and bytes in the range. Notes those of the first one. */
static bool has_records_in(struct synced_mem *root, const struct sm_backing *backing, struct check *check)
{
    const uint64_t from = check->begin > backing->extent.begin ? check->begin : backing->extent.begin;
    const uint64_t to = check->end < backing->extent.end ? check->end : backing->extent.end;
    const size_t end = (size_t)(to - backing->origin);
    struct sm_record *each =
        sm_is_divided(root) ? &sm_find_piece(root, (size_t)(from - backing->origin))->record : sm_own_record(root);
    while (each && !sm_is_backed_by(each, backing))
        each = sm_next_before(each, end);
    if (each) {
        const uint64_t begin = backing->origin + sm_begin_of(each);
        check->in_use = (struct sm_extent){.begin = begin, .end = begin + sm_size_of(each)};
    }
    return each != NULL;
}

static bool is_free(struct sm_extent *extent, void *user)
{
    const struct sm_backing *const backing = (const struct sm_backing *)(const void *)extent;
    struct check *const check = user;
    if (backing->stored && sm_stored_state(backing->stored) == SM_NOT_STORED)
        return true;
    struct synced_mem *const *const own =
        bsearch(&backing->root, check->roots, check->count, sizeof *check->roots, compare_roots);
    if (!own)
        check->in_use = *extent;
    return own && !has_records_in(*own, backing, check);
}

synced_mem_status sm_check_overwritten(struct synced_mem_file *file, uint64_t offset, size_t size,
                                       struct synced_mem *const *roots, size_t count)
{
    struct check check = {.roots = roots, .count = count, .begin = offset, .end = offset + size};
    sm_files_lock();
    const bool allowed = sm_extents_visit(&file->backings, check.begin, check.end, is_free, &check);
    sm_files_unlock();
    if (allowed)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "an object has contents among the %llu bytes at offset %llu of the file: change, clear or release "
                   "all of them first",
                   (unsigned long long)(check.in_use.end - check.in_use.begin), (unsigned long long)check.in_use.begin);
}

/* The records of a view are its root's. */
static bool is_root(const struct synced_mem *mem, void *user)
{
    (void)user;
    return mem->record.kind == SM_WHOLE;
}

/* *user: whether a record has left its place. */
static void settle_visited(const struct synced_mem *visited, void *user)
{
    struct synced_mem *const mem = (struct synced_mem *)(uintptr_t)visited;
    bool *const any_settled = user;
    if (sm_check_and_lock(mem) == SYNCED_MEM_OK) {
        for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
            const unsigned before = sm_raw_head(each);
            sm_settle(each);
            *any_settled = *any_settled || sm_raw_head(each) != before;
        }
        sm_unlock_root(mem);
    }
}

bool sm_settle_all_promises(void)
{
    struct sm_slab_walk walk = {0};
    bool any_settled = false;
    const struct sm_detail first = sm_detail_get();
    while (sm_objects_next(&walk, is_root, settle_visited, &any_settled))
        continue;
    sm_detail_set(&first);
    return any_settled;
}
