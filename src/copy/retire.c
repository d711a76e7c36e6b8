/* Retiring copies. */
#include "memory/accounting.h"
#include "copy/copy.h"
#include "copy/free.h"
#include "copy/inflight.h"
#include "memory/guard.h"
#include "base/hands.h"
#include "copy/retired.h"
#include "copy/device_cache.h"
#include "base/status.h"

/* Keeps device memory in the device cache. Returns a list of copies to free: the copy, or those kept for longest. */
static struct sm_copy *keep_in_cache(struct sm_copy *copy)
{
    if (copy->source != SYNCED_MEM_SOURCE_DEVICE || sm_inflight_queueing(copy, true))
        return copy;
    sm_inflight_note_strays(copy);
    if (copy->untracked || sm_copy_end_streamless(copy) != SYNCED_MEM_OK)
        return copy;
    sm_gpu_spared(copy->device, sm_allocation_of(copy)->bytes);
    sm_allocation_of(copy)->is_cached = true;
    return sm_device_cache_keep(copy);
}

/* Retires each copy of a list. Stores the first failure. first is NULL: failures are ignored. */
static void retire_copies(struct sm_copy *copy, struct sm_outcome *first)
{
    while (copy) {
        struct sm_copy *const next = sm_allocation_of(copy)->next;
        const struct sm_fence *pending;
        synced_mem_status status = SYNCED_MEM_OK;
        if (!sm_retired_is_for_later(copy) && sm_copy_try_dispose(copy, true, &pending, &status))
            sm_copy_struct_give(copy);
        else
            sm_retired_add(copy);
        if (first && first->status == SYNCED_MEM_OK)
            sm_outcome_set(first, status);
        copy = next;
    }
}

void sm_copy_retire(struct sm_copy *copy)
{
    if (!copy)
        return;
    sm_guard_forget(copy);
    copy->arriving = false; /* nobody needs the contents any more */
    sm_hands_fill();
    retire_copies(keep_in_cache(copy), NULL);
    sm_hands_empty(true);
}

/* Returns whether the memory is gone. A failure to end the uses leaves that to a later try. */
static bool free_on_stream(struct sm_copy *copy, struct sm_stream *stream)
{
    sm_inflight_note_strays(copy);
    return !copy->untracked && !sm_inflight_queueing(copy, true) && sm_copy_end_streamless(copy) == SYNCED_MEM_OK &&
           sm_free_device_on(copy, stream);
}

void sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *stream)
{
    sm_guard_forget(copy);
    copy->arriving = false;
    sm_hands_fill();
    if (stream && free_on_stream(copy, stream))
        sm_copy_struct_give(copy);
    else
        retire_copies(copy, NULL);
    sm_hands_empty(true);
}

static void free_cached_on(int device, struct sm_outcome *first)
{
    sm_hands_fill();
    struct sm_copy *const all = sm_device_cache_take_all(device);
    retire_copies(all, first);
    sm_hands_empty(all != NULL);
}

synced_mem_status sm_copy_free_cached(int device)
{
    struct sm_outcome first;
    sm_outcome_set(&first, SYNCED_MEM_OK);
    if (device >= 0)
        free_cached_on(device, &first);
    for (int each = 0; device < 0 && each < SM_MAX_DEVICES; each++)
        free_cached_on(each, &first);
    return sm_outcome_end(&first);
}
