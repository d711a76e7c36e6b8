/* The last work on borrowed memory. */
#include "object/borrowed.h"

#include "base/status.h"
#include "copy/inflight.h"
#include "object/span.h"

/* Finds the wait for borrowed memory, or a part of it. Memory with a share is unregistered, so the caller's stream must
 * have filled it. */
static synced_mem_status find_last_work(struct sm_copy *copy, bool pin_held, struct sm_fence **wait)
{
    SM_TRY(sm_inflight_retrack(copy));
    *wait = sm_inflight_transfer(copy);
    if (!*wait && pin_held && sm_fence_is_open(copy->writer_fence))
        *wait = copy->writer_fence;
    return SYNCED_MEM_OK;
}

static synced_mem_status find_wait_of_borrowed(const struct synced_mem *mem, enum sm_side side, struct sm_fence **wait)
{
    struct sm_copy *const memory = sm_copy_of(sm_own_record(mem), side);
    SM_TRY(find_last_work(memory, memory->pin_held, wait));
    if (!sm_is_divided(mem))
        return SYNCED_MEM_OK;
    for (const struct sm_record *each = sm_first_record(mem); each && !*wait; each = sm_next_record(mem, each))
        if (sm_copy_of(each, side))
            SM_TRY(find_last_work(sm_copy_of(each, side), memory->pin_held, wait));
    return SYNCED_MEM_OK;
}

synced_mem_status sm_find_wait_of_borrowed(const struct synced_mem *mem, enum sm_side side, struct sm_fence **wait)
{
    const struct sm_copy *const memory = sm_copy_of(sm_own_record(mem), side);
    *wait = NULL;
    if (!memory || memory->source != SYNCED_MEM_SOURCE_BORROWED)
        return SYNCED_MEM_OK;
    return find_wait_of_borrowed(mem, side, wait);
}
