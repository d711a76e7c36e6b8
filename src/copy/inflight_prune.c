/* Work on a copy that is over. */
#include "copy/inflight.h"

/* Returns whether the use is neither open nor pending. */
static bool is_use_over(const struct sm_use *use)
{
    return !sm_use_is_by_stream(use) && !sm_fence_is_open(use->fence);
}

static void prune_list(struct sm_copy *copy, struct sm_use **list)
{
    struct sm_use **link = list;
    while (*link) {
        struct sm_use *const use = *link;
        if (is_use_over(use)) {
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
static bool must_keep_fence(const struct sm_copy *copy, const struct sm_fence *fence)
{
    const enum sm_fence_state state = sm_fence_state(fence);
    const bool needed = sm_copy_is_shared(copy) || fence == sm_inflight_arrival(copy);
    return state == SM_FENCE_LOST ? needed : state != SM_FENCE_DONE;
}

/* The fence may have become a stray's since the strays were noted. */
static void forget_write(struct sm_copy *copy, struct sm_fence **slot)
{
    sm_inflight_note_stray(copy, *slot, SM_UNTRACKED_WRITE);
    sm_fence_drop(*slot);
    *slot = NULL;
}

void sm_inflight_forget_ended(struct sm_copy *copy)
{
    sm_inflight_note_strays(copy);
    copy->arriving = sm_fence_state(sm_inflight_arrival(copy)) != SM_FENCE_DONE;
    if (!must_keep_fence(copy, copy->write))
        forget_write(copy, &copy->write);
    if (!copy->writer && !must_keep_fence(copy, copy->writer_fence))
        forget_write(copy, &copy->writer_fence);
    prune_list(copy, &copy->reads);
    prune_list(copy, &copy->covered);
}
