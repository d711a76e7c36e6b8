/* Pushes and pulls of the caller's. */
#include "object/moves.h"

#include "object/gate.h"
#include "object/push_pull.h"
#include "object/reclaim.h"

synced_mem_status sm_move(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                          synced_mem_stream handle, struct synced_mem **failed)
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
