/* Pushes and pulls of the caller's. */
#include "object/moves.h"

#include "object/gate.h"
#include "object/move_one.h"
#include "object/push_pull.h"
#include "object/reclaim.h"

static synced_mem_status move_through_gates(struct synced_mem *const *mems, size_t count, enum sm_side side,
                                            bool is_urgent, synced_mem_stream handle, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    struct sm_gates gates = {.mems = mems, .count = count, .side = side};
    synced_mem_status status;
    SM_TRY(sm_gates_begin(&gates, SM_READ, failed));
    do
        status = sm_move_once(mems, count, side, is_urgent, handle, failed);
    while (sm_reclaim_helps(&reclaim, status));
    sm_gates_end(&gates);
    return status;
}

synced_mem_status sm_move(struct synced_mem *const *mems, size_t count, enum sm_side side, synced_mem_stream handle,
                          struct synced_mem **failed)
{
    return move_through_gates(mems, count, side, false, handle, failed);
}

synced_mem_status sm_move_object(struct synced_mem *mem, enum sm_side side, bool is_urgent, synced_mem_stream handle)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    struct synced_mem *failed;
    synced_mem_status status;
    if (sm_evictable_of(mem))
        return move_through_gates(&mem, 1, side, is_urgent, handle, &failed);
    SM_TRY(sm_gate_begin(mem, side, SM_READ));
    do
        if (is_urgent || !sm_move_one(mem, side, handle, &status))
            status = sm_move_once(&mem, 1, side, is_urgent, handle, &failed);
    while (sm_reclaim_helps(&reclaim, status));
    sm_gate_end(mem);
    return status;
}
