/* Work on a copy that is over. */
#include "copy/inflight.h"

static void prune_list(struct sm_copy *copy, struct sm_use **list)
{
    struct sm_use **link = list;
    while (*link) {
        struct sm_use *const use = *link;
        if (!sm_use_is_by_stream(use) && !sm_fence_is_open(use->fence)) {
            *link = use->next;
            sm_inflight_note_stray(copy, use->fence, SM_UNTRACKED_READ);
            sm_use_free(use);
        } else {
            link = &use->next;
        }
    }
}

/* Lost work that was to bring contents, or to write a shared copy, is remembered: the host can use the memory, but it
 * has no contents. The state is read once, as a copy thread may change it. */
static void forget_write_if_over(struct sm_copy *copy, struct sm_fence **slot)
{
    const enum sm_fence_state state = sm_fence_state(*slot);
    const bool needed = sm_copy_is_shared(copy) || *slot == sm_inflight_arrival(copy);
    if (state == SM_FENCE_LOST ? needed : state != SM_FENCE_DONE)
        return;
    /* The fence may have become a stray's since the strays were noted. */
    sm_inflight_note_stray(copy, *slot, SM_UNTRACKED_WRITE);
    sm_fence_drop(*slot);
    *slot = NULL;
}

void sm_inflight_forget_ended(struct sm_copy *copy)
{
    sm_inflight_note_strays(copy);
    copy->arriving = sm_fence_state(sm_inflight_arrival(copy)) != SM_FENCE_DONE;
    forget_write_if_over(copy, &copy->write);
    if (!copy->writer)
        forget_write_if_over(copy, &copy->writer_fence);
    prune_list(copy, &copy->reads);
    prune_list(copy, &copy->covered);
}
