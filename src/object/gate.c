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

synced_mem_status sm_gates_begin(struct sm_gates *gates, enum sm_mode mode, struct synced_mem **failed)
{
    struct synced_mem *const *const mems = gates->mems;
    const size_t special = find_special(mems, gates->count);
    gates->is_open = special == gates->count;
    if (gates->is_open)
        return SYNCED_MEM_OK;
    for (size_t i = special; i < gates->count; i++) {
        struct sm_sharing *const sharing = sm_sharing_of(mems[i]);
        const synced_mem_status status = sharing ? sm_gate_pass(sharing, gates->side, mode) : SYNCED_MEM_OK;
        if (status != SYNCED_MEM_OK) {
            leave_sharings(mems, i);
            *failed = mems[i];
            return status;
        }
    }
    if (!are_any_held(mems, gates->count, gates->side))
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_hold_briefly(mems, gates->count, gates->side, &gates->held_on, failed);
    if (status != SYNCED_MEM_OK)
        leave_sharings(mems, gates->count);
    return status;
}

/* A call on any side may have read contents from a file to the host. */
static void refresh_all(struct synced_mem *const *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mems[i]->extras)
            sm_evictable_refresh(mems[i]);
}

void sm_gates_end(const struct sm_gates *gates)
{
    if (gates->is_open)
        return;
    if (gates->side == SM_SIDES && sm_host_budget_on())
        refresh_all(gates->mems, gates->count);
    if (are_any_held(gates->mems, gates->count, gates->side))
        sm_unhold_briefly(gates->mems, gates->count, gates->held_on);
    leave_sharings(gates->mems, gates->count);
}
