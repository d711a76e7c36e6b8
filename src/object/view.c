/* Making and releasing views. */
#include "object/view.h"

#include "base/status.h"
#include "object/piece.h"
#include "object/publish.h"
#include "object/span.h"

static synced_mem_status check_range(const struct synced_mem *of, size_t offset, size_t size)
{
    if (offset <= sm_size(of) && size <= sm_size(of) - offset)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the part of %zu bytes at offset %zu is not within %zu bytes", size,
                   offset, sm_size(of));
}

static synced_mem_status hold_borders(struct synced_mem *root, size_t begin, size_t end)
{
    SM_TRY(sm_hold_border(root, begin));
    const synced_mem_status status = sm_hold_border(root, end);
    if (status != SYNCED_MEM_OK)
        sm_drop_border(root, begin);
    return status;
}

/* With the root's lock. */
static synced_mem_status cut_view(struct synced_mem *view, struct synced_mem *root, size_t begin, size_t size)
{
    if (!sm_is_divided(root))
        SM_TRY(sm_divide(root));
    const synced_mem_status status = hold_borders(root, begin, begin + size);
    if (status != SYNCED_MEM_OK) {
        sm_undivide(root);
        return status;
    }
    root->holders++;
    view->at = (struct sm_position){.first = sm_find_piece(root, begin)};
    sm_publish_nothing(view);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_view_begin(struct synced_mem *view, const struct synced_mem *of, size_t offset, size_t size)
{
    struct synced_mem *const root = sm_root(of);
    SM_TRY(sm_lock_first(root));
    synced_mem_status status = check_range(of, offset, size);
    const size_t begin = sm_offset(of) + offset;
    if (status == SYNCED_MEM_OK && size > 0)
        status = cut_view(view, root, begin, size);
    if (status == SYNCED_MEM_OK && size == 0) {
        sm_put_device(view, sm_device(root));
        view->at.empty.root = root;
        view->at.empty.offset = begin;
    }
    if (status == SYNCED_MEM_OK)
        view->kind = SM_VIEW;
    sm_unlock_last(root);
    return status;
}

/* A forked child leaves the root as it is, as for all objects of the parent process. */
void sm_view_end(struct synced_mem *view)
{
    struct synced_mem *const root = sm_root(view);
    if (!view->at.first || sm_lock_first(root) != SYNCED_MEM_OK)
        return;
    const size_t begin = sm_begin_of(view);
    sm_withdraw(view);
    view->at.first = NULL;
    root->holders--;
    sm_drop_border(root, begin);
    sm_drop_border(root, begin + sm_size(view));
    if (root->holders == 0) {
        sm_join_records(root);
        sm_undivide(root);
    }
    sm_unlock_last(root);
}
