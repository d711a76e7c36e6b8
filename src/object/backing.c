/* Backings. */
#include "object/backing.h"

#include "object/piece_tree.h"
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

/* Whoever visits the extents of the file reads which write the backing waits for. */
static struct sm_stored *take_stored(struct sm_backing *backing, bool removes)
{
    sm_files_lock();
    struct sm_stored *const stored = backing->stored;
    backing->stored = NULL;
    if (removes)
        sm_extents_remove(&backing->file->backings, &backing->extent);
    sm_files_unlock();
    return stored;
}

static void end_backing(struct sm_backing *backing)
{
    sm_stored_drop(take_stored(backing, true));
    sm_file_drop(backing->file);
    sm_scratch_drop(backing->range);
    free(backing);
}

void sm_backing_drop(struct sm_backing *backing)
{
    if (!backing || --backing->records > 0)
        return;
    if (backing->promised)
        sm_promise_end(backing);
    else
        end_backing(backing);
}

/* ---- Promises ---- */

void sm_backing_await(struct sm_backing *backing, struct sm_stored *stored)
{
    sm_files_lock();
    backing->stored = sm_stored_hold(stored);
    sm_files_unlock();
}

synced_mem_status sm_promise_make(struct sm_backing *backing, struct sm_backing **out)
{
    struct sm_backing *const promise = calloc(1, sizeof *promise);
    if (!promise)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of contents in a file");
    promise->promised = sm_backing_share(backing);
    *out = promise;
    return SYNCED_MEM_OK;
}

/* A promise holds backings alone, so the recursion has one step. */
void sm_promise_end(struct sm_backing *promise)
{
    if (!promise)
        return;
    sm_backing_drop(promise->promised);
    sm_backing_drop(promise->before);
    free(promise);
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

static void set_bits(struct sm_record *record, unsigned bits)
{
    atomic_store_explicit(&record->head, (unsigned char)(sm_head(record) | bits), memory_order_relaxed);
}

void sm_set_backing(struct sm_record *record, struct sm_backing *backing)
{
    put_backing(record, sm_backing_share(backing));
    set_bits(record, SM_IN_FILE);
}

void sm_give_up_backing(struct sm_record *record)
{
    put_backing(record, NULL);
    set_bits(record, 0);
}

void sm_set_promise(struct sm_record *record, struct sm_backing *promise)
{
    struct sm_backing *const present = *get_place(record);
    promise->before = sm_backing_share(present && present->promised ? present->before : present);
    put_backing(record, sm_backing_share(promise));
    set_bits(record, SM_PROMISED | (sm_whole_head(record) & SM_IN_FILE));
}

/* Returns the promise of a record that has one. */
static const struct sm_backing *get_promise(const struct sm_record *record)
{
    return *get_place(record);
}

/* NULL: another record of the write was settled. In the child of a fork a write that went on never ends, but its fence
 * is done. The state is set before the fence is. */
static enum sm_stored_state find_state(const struct sm_stored *stored)
{
    if (!stored)
        return SM_STORED;
    const bool is_over = sm_fence_state(stored->fence) != SM_FENCE_QUEUEING;
    const enum sm_stored_state state = sm_stored_state(stored);
    return is_over && state == SM_STORING ? SM_NOT_STORED : state;
}

void sm_settle_promise(struct sm_record *record)
{
    const struct sm_backing *const promise = get_promise(record);
    struct sm_backing *const promised = promise->promised;
    const enum sm_stored_state state = find_state(promised->stored);
    if (state == SM_STORING)
        return;
    struct sm_backing *const next = state == SM_STORED ? promised : promise->before;
    if (state == SM_STORED)
        sm_stored_drop(take_stored(promised, false));
    put_backing(record, sm_backing_share(next));
    set_bits(record, next ? SM_IN_FILE : 0);
    if (record->kind == SM_PIECE)
        sm_piece_tree_mark(sm_piece_of(record));
}

struct sm_fence *sm_promise_fence(const struct sm_record *record)
{
    if (!(sm_raw_head(record) & SM_PROMISED) || !get_promise(record)->promised->stored)
        return NULL;
    return get_promise(record)->promised->stored->fence;
}

const struct sm_backing *sm_backing_of(const struct sm_record *record)
{
    const struct sm_backing *const present = *get_place(record);
    return present && present->promised ? present->before : present;
}

bool sm_is_backed_by(const struct sm_record *record, const struct sm_backing *backing)
{
    if (!sm_has_backing(record) || sm_size_of(record) == 0)
        return false;
    const struct sm_backing *const present = *get_place(record);
    const struct sm_backing *const promised = present->promised;
    if (!promised)
        return present == backing;
    return promised == backing || (present->before == backing && find_state(promised->stored) != SM_STORED);
}

bool sm_is_placed_at(const struct sm_record *record, const struct synced_mem_file *file, uint64_t offset)
{
    if (!sm_has_backing(record) || sm_size_of(record) == 0)
        return false;
    const struct sm_backing *const present = *get_place(record);
    const struct sm_backing *const last = present->promised ? present->promised : present;
    return last->file == file && !last->range && last->origin + sm_begin_of(record) == offset;
}

uint64_t sm_offset_in_file(const struct sm_record *record)
{
    return sm_backing_of(record)->origin + sm_begin_of(record);
}
