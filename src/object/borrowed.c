/* The last work on borrowed memory. */
#include "object/borrowed.h"

#include "base/status.h"
#include "copy/inflight.h"
#include "object/span.h"

/* Unregistering memory while a stream still writes it would fail, so a wait for memory with a share of a registration
 * includes the caller's stream that fills it. */
static synced_mem_status find_last_work(struct sm_copy *copy, bool pin_held, struct sm_waits *waits)
{
    SM_TRY(sm_inflight_retrack(copy));
    SM_TRY(sm_waits_add(waits, sm_inflight_transfer(copy)));
    return pin_held && sm_fence_is_open(copy->writer_fence) ? sm_waits_add(waits, copy->writer_fence) : SYNCED_MEM_OK;
}

synced_mem_status sm_find_wait_of_borrowed(const struct synced_mem *mem, enum sm_side side, struct sm_waits *waits)
{
    struct sm_copy *const memory = sm_copy_of(sm_own_record(mem), side);
    if (!memory || memory->source != SYNCED_MEM_SOURCE_BORROWED)
        return SYNCED_MEM_OK;
    SM_TRY(find_last_work(memory, sm_allocation_of(memory)->pin_held, waits));
    if (!sm_is_divided(mem))
        return SYNCED_MEM_OK;
    for (const struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        if (sm_copy_of(each, side))
            SM_TRY(find_last_work(sm_copy_of(each, side), sm_allocation_of(memory)->pin_held, waits));
    return SYNCED_MEM_OK;
}
