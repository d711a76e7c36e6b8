/* Making and releasing views. */
#include "object/view.h"

#include "base/status.h"
#include "object/piece.h"
#include "object/publish.h"
#include "object/span.h"

synced_mem_status sm_view_check_range(const struct synced_mem *of, size_t offset, size_t size)
{
    if (offset <= sm_size(of) && size <= sm_size(of) - offset)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the part of %zu bytes at offset %zu is not within %zu bytes", size,
                   offset, sm_size(of));
}

/* Stores the piece that begins at the first border. */
static synced_mem_status hold_borders(struct synced_mem *root, size_t begin, size_t end, struct sm_piece **first)
{
    struct sm_piece *behind;
    SM_TRY(sm_hold_border(root, begin, first));
    const synced_mem_status status = sm_hold_border(root, end, &behind);
    if (status != SYNCED_MEM_OK)
        sm_drop_border(*first);
    return status;
}

/* With the root's lock. */
static synced_mem_status cut_view(struct synced_mem *view, struct synced_mem *root, size_t begin, size_t size)
{
    if (!sm_is_divided(root))
        SM_TRY(sm_divide(root));
    struct sm_piece *first;
    const synced_mem_status status = hold_borders(root, begin, begin + size, &first);
    if (status != SYNCED_MEM_OK) {
        sm_undivide(root);
        return status;
    }
    root->record.holders++;
    view->at = (struct sm_position){.first = first};
    atomic_store_explicit(&view->gpu_data, NULL, memory_order_relaxed);
    atomic_store_explicit(&view->gpu_data_at, &view->gpu_data, memory_order_relaxed);
    sm_publish_nothing(view);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_view_begin(struct synced_mem *view, const struct synced_mem *of, size_t offset, size_t size)
{
    struct synced_mem *const root = sm_root(of);
    SM_TRY(sm_check_and_lock(root));
    synced_mem_status status = sm_view_check_range(of, offset, size);
    const size_t begin = sm_offset(of) + offset;
    if (status == SYNCED_MEM_OK && size > 0)
        status = cut_view(view, root, begin, size);
    if (status == SYNCED_MEM_OK && size == 0) {
        view->at.empty.root = root;
        view->at.empty.offset = begin;
    }
    if (status == SYNCED_MEM_OK)
        view->record.kind = SM_VIEW;
    sm_unlock_root(root);
    return status;
}

/* Returns the piece that begins where the view ends; NULL: none does. */
static struct sm_piece *find_behind(const struct synced_mem *view)
{
    struct synced_mem *const root = sm_root(view);
    const size_t end = sm_object_begin(view) + sm_size(view);
    if (sm_has_one_record(view))
        return view->at.first->after;
    return end < sm_size(root) ? sm_find_piece(root, end) : NULL;
}

/* With the root's lock. */
static void end_view(struct synced_mem *view, struct synced_mem *root)
{
    struct sm_piece *const first = view->at.first;
    struct sm_piece *const behind = find_behind(view);
    sm_withdraw(view);
    view->at.first = NULL;
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_put_copy(&view->record, side, NULL);
    root->record.holders--;
    sm_drop_border(behind);
    sm_drop_border(first);
    if (root->record.holders == 0) {
        sm_join_records(root);
        sm_undivide(root);
    }
}

/* A forked child leaves the root as it is, as for all objects of the parent process. */
void sm_view_end(struct synced_mem *view)
{
    struct synced_mem *const root = sm_root(view);
    if (!view->at.first || sm_check_and_lock(root) != SYNCED_MEM_OK)
        return;
    end_view(view, root);
    sm_unlock_root(root);
}

static bool drop_reference_unless_last(struct synced_mem *root)
{
    unsigned references = atomic_load(&root->references);
    while (references > 1)
        if (atomic_compare_exchange_weak(&root->references, &references, references - 1))
            return true;
    return false;
}

bool sm_view_leave(struct synced_mem *view)
{
    struct synced_mem *const root = sm_root(view);
    struct sm_copy *own[SM_SIDES] = {NULL};
    const bool locked = sm_check_and_lock(root) == SYNCED_MEM_OK;
    const bool left = drop_reference_unless_last(root);
    if (left && locked && view->at.first)
        end_view(view, root);
    else if (left && locked) /* a view of 0 bytes has memory of its own */
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            own[side] = sm_take_copy(sm_own_record(view), side);
    if (locked)
        sm_unlock_root(root);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (own[side])
            sm_copy_retire(own[side]);
    return left;
}
