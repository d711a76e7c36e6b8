/* The memory for records of uses. */
#include "copy/inflight.h"

#include "base/slab.h"
#include "base/status.h"

static struct sm_stream nobody;
struct sm_stream *const sm_ended_use = &nobody;

static struct sm_slab uses = SM_SLAB_INITIALIZER(struct sm_use);

/* A cell that was given back has its old contents. */
struct sm_use *sm_inflight_reserve(void)
{
    struct sm_use *const use = sm_slab_take(&uses);
    if (!use) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the record of a use");
        return NULL;
    }
    *use = (struct sm_use){.next = NULL};
    return use;
}

struct sm_use *sm_inflight_reserve_many(size_t count)
{
    struct sm_use *list = NULL;
    void *cells = sm_slab_take_list(&uses, count);
    while (cells) {
        struct sm_use *const use = cells;
        cells = sm_slab_next(&uses, cells);
        *use = (struct sm_use){.next = list};
        list = use;
    }
    return list;
}

void sm_inflight_unreserve(struct sm_use *use)
{
    if (use)
        sm_slab_give(&uses, use);
}

void sm_inflight_unreserve_many(struct sm_use *list)
{
    while (list) {
        struct sm_use *const use = list;
        list = use->next;
        sm_inflight_unreserve(use);
    }
}

void sm_use_free(struct sm_use *use)
{
    if (sm_use_is_by_stream(use))
        sm_stream_drop(use->by);
    sm_fence_drop(use->fence);
    sm_slab_give(&uses, use);
}

/* Gives up the holds on the fence of the first uses, which have the same one. Returns the first other use. */
static struct sm_use *drop_shared_fence(struct sm_use *list)
{
    struct sm_fence *const fence = list->fence;
    size_t holders = 0;
    for (; list && list->fence == fence; list = list->next)
        holders++;
    sm_fence_drop_often(fence, holders);
    return list;
}

void sm_uses_free(struct sm_use *list)
{
    void *cells = NULL;
    for (struct sm_use *use = list; use;)
        use = drop_shared_fence(use);
    while (list) {
        struct sm_use *const use = list;
        list = use->next;
        sm_slab_add_to_list(&uses, &cells, use);
    }
    sm_slab_give_list(&uses, cells);
}

void sm_inflight_trim(void)
{
    sm_slab_trim(&uses);
}
