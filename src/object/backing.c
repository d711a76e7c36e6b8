/* Backings. */
#include "object/backing.h"

#include "object/piece.h"
#include "object/span.h"

#include <stdlib.h>

synced_mem_status sm_backing_make(struct synced_mem_file *file, uint64_t offset, const struct synced_mem *root,
                                  size_t begin, size_t size, struct sm_backing **out)
{
    struct sm_backing *const backing = calloc(1, sizeof *backing);
    if (!backing)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of contents in a file");
    *backing = (struct sm_backing){
        .extent = {.begin = offset, .end = offset + size}, .file = file, .root = root, .origin = offset - begin};
    sm_file_hold(file);
    sm_files_lock();
    sm_extents_add(&file->backings, &backing->extent);
    sm_files_unlock();
    *out = backing;
    return SYNCED_MEM_OK;
}

struct sm_backing *sm_backing_share(struct sm_backing *backing)
{
    if (backing)
        backing->records++;
    return backing;
}

void sm_backing_drop(struct sm_backing *backing)
{
    if (!backing || --backing->records > 0)
        return;
    sm_files_lock();
    sm_extents_remove(&backing->file->backings, &backing->extent);
    sm_files_unlock();
    sm_file_drop(backing->file);
    free(backing);
}

/* ---- Records ---- */

/* Returns the place of a record's backing; NULL: it is that of a view of 0 bytes, which has none. */
static struct sm_backing **get_place(const struct sm_record *record)
{
    if (record->kind == SM_PIECE)
        return &sm_piece_of(record)->backing;
    struct synced_mem *const owner = sm_owner_of(record);
    return owner->record.kind == SM_WHOLE ? &owner->at.backing : NULL;
}

static void put_backing(struct sm_record *record, struct sm_backing *backing)
{
    struct sm_backing **const place = get_place(record);
    if (!place)
        return;
    sm_backing_drop(*place);
    *place = backing;
}

static void set_bit(struct sm_record *record, unsigned bit)
{
    atomic_store_explicit(&record->head, (unsigned char)(sm_head(record) | bit), memory_order_relaxed);
}

void sm_set_backing(struct sm_record *record, struct sm_backing *backing)
{
    put_backing(record, sm_backing_share(backing));
    set_bit(record, SM_IN_FILE);
}

void sm_give_up_backing(struct sm_record *record)
{
    put_backing(record, NULL);
    set_bit(record, 0);
}

const struct sm_backing *sm_backing_of(const struct sm_record *record)
{
    return *get_place(record);
}

uint64_t sm_offset_in_file(const struct sm_record *record)
{
    return sm_backing_of(record)->origin + sm_begin_of(record);
}

/* ---- Writes ---- */

struct check {
    struct synced_mem *const *roots;
    size_t count;
    uint64_t begin;
    uint64_t end;
};

static int compare_roots(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t) * (const struct synced_mem *const *)a;
    const uintptr_t second = (uintptr_t) * (const struct synced_mem *const *)b;
    return (first > second) - (first < second);
}

/* Returns whether one of the root's records has this backing and bytes in the range. */
static bool has_records_in(struct synced_mem *root, const struct sm_backing *backing, const struct check *check)
{
    const uint64_t from = check->begin > backing->extent.begin ? check->begin : backing->extent.begin;
    const uint64_t to = check->end < backing->extent.end ? check->end : backing->extent.end;
    const size_t end = (size_t)(to - backing->origin);
    struct sm_record *each =
        sm_is_divided(root) ? &sm_find_piece(root, (size_t)(from - backing->origin))->record : sm_own_record(root);
    for (; each; each = sm_next_before(each, end))
        if (sm_is_in_file(each) && sm_backing_of(each) == backing)
            return true;
    return false;
}

static bool is_free(struct sm_extent *extent, void *user)
{
    const struct sm_backing *const backing = (const struct sm_backing *)(const void *)extent;
    const struct check *const check = user;
    struct synced_mem *const *const own =
        bsearch(&backing->root, check->roots, check->count, sizeof *check->roots, compare_roots);
    return own && !has_records_in(*own, backing, check);
}

synced_mem_status sm_backing_check_write(struct synced_mem_file *file, uint64_t offset, size_t size,
                                         struct synced_mem *const *roots, size_t count)
{
    struct check check = {.roots = roots, .count = count, .begin = offset, .end = offset + size};
    sm_files_lock();
    const bool allowed = sm_extents_visit(&file->backings, check.begin, check.end, is_free, &check);
    sm_files_unlock();
    if (allowed)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "an object has its contents in the file's bytes %llu to %llu: change, clear or release it first",
                   (unsigned long long)check.begin, (unsigned long long)check.end);
}
