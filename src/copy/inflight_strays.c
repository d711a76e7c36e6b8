/* Untracked work on a copy. */
#include "copy/inflight.h"

#include <assert.h>

static_assert(SM_PERMANENT_STREAMS < 1 << 10, "struct sm_copy has ten bits for the number of a permanent stream");

void sm_inflight_untrack(struct sm_copy *copy, enum sm_untracked how, struct sm_stream *stream)
{
    const unsigned on = stream ? sm_stream_permanent_number(stream) : 0;
    const bool elsewhere = copy->untracked && sm_copy_untracked_on(copy) != on; /* no single event can cover both */
    sm_copy_set_untracked_on(copy, elsewhere ? 0 : on);
    if (copy->untracked < how)
        copy->untracked = (unsigned char)how;
}

void sm_inflight_note_stray(struct sm_copy *copy, const struct sm_fence *fence, enum sm_untracked how)
{
    if (fence && sm_fence_state(fence) == SM_FENCE_LOST && atomic_load_explicit(&fence->stray, memory_order_relaxed))
        sm_inflight_untrack(copy, how, NULL);
}

void sm_inflight_note_strays(struct sm_copy *copy)
{
    sm_inflight_note_stray(copy, copy->write, SM_UNTRACKED_WRITE);
    for (const struct sm_use *use = copy->reads; use; use = use->next)
        sm_inflight_note_stray(copy, use->fence, SM_UNTRACKED_READ);
    for (const struct sm_use *use = copy->covered; use; use = use->next)
        sm_inflight_note_stray(copy, use->fence, SM_UNTRACKED_READ);
}

/* Makes the stream wait for the fence, and records an event there. */
static synced_mem_status record_behind(struct sm_stream *stream, struct sm_fence *fence, struct sm_fence **out)
{
    if (stream->kind == SM_STREAM_LEGACY) /* it may be refused now */
        SM_TRY(sm_stream_find_legacy(stream->device, &stream));
    SM_TRY(sm_stream_wait(stream, fence));
    return sm_stream_record(stream, out);
}

/* The new fence stands for the untracked work and for the write that it replaces. */
synced_mem_status sm_inflight_retrack(struct sm_copy *copy)
{
    struct sm_fence *fence = NULL;
    struct sm_stream *const on = copy->untracked ? sm_stream_permanent(sm_copy_untracked_on(copy)) : NULL;
    if (!on)
        return SYNCED_MEM_OK;
    const synced_mem_status status = record_behind(on, copy->write, &fence);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return status;
    if (fence) {
        sm_fence_drop(copy->write);
        copy->write = fence;
        copy->write_is_covered = false;
    }
    copy->untracked = SM_TRACKED;
    return SYNCED_MEM_OK;
}
