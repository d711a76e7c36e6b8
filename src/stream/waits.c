/* Waits for several fences. */
#include "stream/waits.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for more fences. Without memory for more the fences that are there are enough to wait for. */
static bool make_room(struct sm_waits *waits, size_t room)
{
    struct sm_fence **const many = realloc(waits->many, 4 * room * sizeof *many);
    if (!many)
        return false;
    if (!waits->many)
        memcpy(many, waits->few, sizeof waits->few);
    waits->many = many;
    waits->room = 4 * room;
    return true;
}

synced_mem_status sm_waits_add(struct sm_waits *waits, struct sm_fence *fence)
{
    if (!fence)
        return SYNCED_MEM_OK;
    struct sm_fence **const list = waits->many ? waits->many : waits->few;
    const size_t room = waits->many ? waits->room : SM_FEW_WAITS;
    if (waits->count > 0 && list[waits->count - 1] == fence)
        return SM_AGAIN;
    list[waits->count++] = sm_fence_hold(fence);
    waits->full = waits->count == room && !make_room(waits, room);
    return SM_AGAIN;
}

/* Fences that were waited for, of the last few streams: the first of each, which is its latest. */
struct waited {
    const struct sm_fence *fences[SM_FEW_WAITS];
    unsigned count;
};

/* Of two fences of one stream the later one is waited for first, so that the wait for the earlier one finds it done. */
synced_mem_status sm_waits_wait(const struct sm_waits *waits, bool until_queued, bool *over)
{
    struct sm_outcome first;
    struct waited waited = {.count = 0};
    struct sm_fence *const *const fences = waits->many ? waits->many : waits->few;
    sm_outcome_set(&first, SYNCED_MEM_OK);
    *over = true;
    for (size_t i = waits->count; i > 0 && *over; i--) {
        struct sm_fence *const fence = fences[i - 1];
        bool is_first = true;
        for (unsigned j = 0; j < SM_FEW_WAITS && waited.fences[j]; j++) {
            if (!until_queued)
                sm_fence_follow(fence, waited.fences[j]);
            is_first = is_first && waited.fences[j]->stream != fence->stream;
        }
        const synced_mem_status status = until_queued ? sm_fence_wait_queued(fence) : sm_fence_wait(fence);
        if (status != SYNCED_MEM_OK && first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
        *over = status == SYNCED_MEM_OK || !sm_fence_is_open(fence);
        if (is_first)
            waited.fences[waited.count++ % SM_FEW_WAITS] = fence;
    }
    return sm_outcome_end(&first);
}

void sm_waits_end(struct sm_waits *waits)
{
    struct sm_fence *const *const fences = waits->many ? waits->many : waits->few;
    for (size_t i = 0; i < waits->count; i++)
        sm_fence_drop(fences[i]);
    free(waits->many);
    waits->many = NULL;
    waits->count = 0;
    waits->full = false;
}
