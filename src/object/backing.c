/* Backings. */
#include "object/backing.h"

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

synced_mem_status sm_backing_make_spilled(struct sm_scratch_range *range, const struct synced_mem *root, size_t size,
                                          struct sm_backing **out)
{
    const synced_mem_status status = sm_backing_make(sm_scratch_file(range), range->offset, root, 0, size, out);
    if (status == SYNCED_MEM_OK)
        (*out)->range = range;
    else
        sm_scratch_drop(range);
    return status;
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
    sm_scratch_drop(backing->range);
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
