/* The memory for structs of uses. */
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
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a use");
        return NULL;
    }
    *use = (struct sm_use){.next = NULL};
    return use;
}

_Static_assert(offsetof(struct sm_use, next) + sizeof(void *) == sizeof(struct sm_use), "the slab's link is not next");

struct sm_use *sm_inflight_reserve_many(size_t count)
{
    return sm_slab_take_list(&uses, count);
}

void sm_inflight_unreserve(struct sm_use *use)
{
    if (use)
        sm_slab_give(&uses, use);
}

void sm_inflight_unreserve_many(struct sm_use *list)
{
    sm_slab_give_list(&uses, list);
}

void sm_use_free(struct sm_use *use)
{
    if (sm_use_is_by_stream(use))
        sm_stream_drop(use->by);
    sm_fence_drop(use->fence);
    sm_slab_give(&uses, use);
}

void sm_replaced_drop(const struct sm_replaced *replaced)
{
    if (replaced->fence)
        sm_fence_drop_often(replaced->fence, replaced->fences);
    if (replaced->stream)
        sm_stream_drop_often(replaced->stream, replaced->streams);
    if (replaced->uses)
        sm_slab_give_list(&uses, replaced->uses);
}

void sm_inflight_trim(void)
{
    sm_slab_trim(&uses);
}
