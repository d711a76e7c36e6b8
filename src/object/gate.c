/* The gate. */
#include "object/gate.h"

#include "object/evict.h"
#include "object/hold.h"
#include "object/transaction.h"

synced_mem_status sm_gate_begin_any(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    struct sm_sharing *const sharing = sm_sharing_of(mem);
    if (sharing)
        return sm_gate_pass(sharing, side, mode);
    if (side == SM_SIDES || !sm_is_unheld(mem, side))
        return SYNCED_MEM_OK;
    SM_TRY(sm_check_usable(mem));
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "the object is evictable, and its %s pointers are good only while it is held: call "
                   "synced_mem_hold() first",
                   side == SM_GPU ? "device" : "host");
}

/* Returns the index of the first object that has extras, so that it may be shareable or evictable. */
static size_t find_special(struct synced_mem *const *mems, size_t count)
{
    size_t i = 0;
    while (i < count && !sm_root(mems[i])->extras)
        i++;
    return i;
}

static void leave_sharings(struct synced_mem *const *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sm_gate_end(mems[i]);
}

/* Returns whether any of the objects has to be held for the call. */
static bool are_any_held(struct synced_mem *const *mems, size_t count, enum sm_side side)
{
    size_t i = 0;
    while (i < count && !sm_evictable_of(mems[i]))
        i++;
    return side != SM_SIDES && i < count;
}

synced_mem_status sm_gates_begin(struct synced_mem *const *mems, size_t count, enum sm_side side, enum sm_mode mode,
                                 struct synced_mem **failed)
{
    const size_t special = find_special(mems, count);
    if (special == count)
        return SYNCED_MEM_OK;
    for (size_t i = special; i < count; i++) {
        struct sm_sharing *const sharing = sm_sharing_of(mems[i]);
        const synced_mem_status status = sharing ? sm_gate_pass(sharing, side, mode) : SYNCED_MEM_OK;
        if (status != SYNCED_MEM_OK) {
            leave_sharings(mems, i);
            *failed = mems[i];
            return status;
        }
    }
    if (!are_any_held(mems, count, side))
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_hold_briefly(mems, count, side, failed);
    if (status != SYNCED_MEM_OK)
        leave_sharings(mems, count);
    return status;
}

/* A call on any side may have read contents from a file to the host. */
static void refresh_all(struct synced_mem *const *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mems[i]->extras)
            sm_evictable_refresh(mems[i]);
}

void sm_gates_end(struct synced_mem *const *mems, size_t count, enum sm_side side)
{
    if (find_special(mems, count) == count)
        return;
    if (side == SM_SIDES && sm_host_budget_on())
        refresh_all(mems, count);
    if (are_any_held(mems, count, side))
        sm_unhold_briefly(mems, count, side);
    leave_sharings(mems, count);
}
