/* Waits for several fences. */
#include "stream/waits.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for more fences. Without memory for more the fences that are there are enough to wait for. */
static bool make_room(struct sm_waits *waits, size_t room)
{
    struct sm_wait *const many = realloc(waits->many, 4 * room * sizeof *many);
    if (!many)
        return false;
    if (!waits->many)
        memcpy(many, waits->few, sizeof waits->few);
    waits->many = many;
    waits->room = 4 * room;
    return true;
}

synced_mem_status sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose)
{
    struct sm_wait *const list = waits->many ? waits->many : waits->few;
    const size_t room = waits->many ? waits->room : SM_FEW_WAITS;
    const struct sm_wait *const last = waits->count > 0 ? &list[waits->count - 1] : NULL;
    if (last && last->fence == fence && last->purpose == purpose)
        return SM_AGAIN;
    list[waits->count++] = (struct sm_wait){.fence = sm_fence_hold(fence), .purpose = purpose};
    waits->full = waits->count == room && !make_room(waits, room);
    return SM_AGAIN;
}

/* Fences that were waited for, of the last few streams. */
struct waited {
    const struct sm_fence *fences[SM_FEW_WAITS];
    unsigned count;
};

/* Waits for one fence. Of two fences of one stream the later one is waited for first, so that the wait for the earlier
 * one finds it done. The first fence of each stream is noted, which is the latest. */
static synced_mem_status wait_until_done(struct sm_fence *fence, struct waited *waited)
{
    bool is_noted = false;
    for (unsigned i = 0; i < SM_FEW_WAITS && waited->fences[i]; i++) {
        sm_fence_follow(fence, waited->fences[i]);
        is_noted = is_noted || waited->fences[i]->stream == fence->stream;
    }
    if (!is_noted)
        waited->fences[waited->count++ % SM_FEW_WAITS] = fence;
    return sm_fence_wait(fence);
}

synced_mem_status sm_waits_wait(const struct sm_waits *waits, bool *ended)
{
    const struct sm_wait *const list = waits->many ? waits->many : waits->few;
    struct sm_outcome first;
    struct waited waited = {.count = 0};
    sm_outcome_set(&first, SYNCED_MEM_OK);
    *ended = true;
    for (size_t i = waits->count; i > 0 && *ended; i--) {
        const struct sm_wait *const wait = &list[i - 1];
        const synced_mem_status status =
            wait->purpose & SM_UNTIL_QUEUED ? sm_fence_wait_queued(wait->fence) : wait_until_done(wait->fence, &waited);
        *ended = status == SYNCED_MEM_OK || !sm_fence_is_open(wait->fence);
        const bool fails = status != SYNCED_MEM_OK && !(*ended && wait->purpose & SM_MAY_FAIL);
        if (fails && first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
    }
    return sm_outcome_end(&first);
}

void sm_waits_end(struct sm_waits *waits)
{
    const struct sm_wait *const list = waits->many ? waits->many : waits->few;
    for (size_t i = 0; i < waits->count; i++)
        sm_fence_drop(list[i].fence);
    free(waits->many);
    waits->many = NULL;
    waits->count = 0;
    waits->full = false;
}
