/* The public functions of objects that several processes use, in the header's order. */
#include "synced_mem.h"

#include "api/argument.h"
#include "api/environment.h"
#include "api/life.h"
#include "base/status.h"
#include "object/acquire.h"

/* Sets *sharing. Turns are those of a root. */
static synced_mem_status check_shareable(const synced_mem *mem, struct sm_sharing **sharing)
{
    if (!mem)
        return sm_no_object();
    if (mem->record.kind == SM_VIEW)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is a view: its turns are its root's");
    *sharing = sm_sharing_of(mem);
    if (*sharing)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is not shareable: it was made without that option");
}

static synced_mem_status share(synced_mem *mem, int socket, int timeout_ms)
{
    const sm_deadline deadline = sm_deadline_after(timeout_ms);
    struct sm_sharing *sharing = NULL;
    SM_TRY(check_shareable(mem, &sharing));
    return sm_share(sharing, socket, deadline);
}

synced_mem_status synced_mem_share(synced_mem *mem, int socket, int timeout_ms)
{
    return SM_DO(share(mem, socket, timeout_ms), mem);
}

static synced_mem_status receive(synced_mem **out, int socket, int timeout_ms)
{
    const sm_deadline deadline = sm_deadline_after(timeout_ms);
    struct sm_shared_memory *memory;
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    SM_TRY(sm_shared_receive(socket, deadline, &memory));
    return sm_create_received(out, memory);
}

synced_mem_status synced_mem_receive(synced_mem **out, int socket, int timeout_ms)
{
    sm_read_environment();
    sm_caller_begin(__func__, NULL);
    return sm_report(receive(out, socket, timeout_ms), __func__, NULL);
}

static synced_mem_status begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn, int timeout_ms)
{
    const sm_deadline deadline = sm_deadline_after(timeout_ms);
    struct sm_sharing *sharing = NULL;
    SM_TRY(check_shareable(mem, &sharing));
    if (side != SYNCED_MEM_SIDE_CPU && side != SYNCED_MEM_SIDE_GPU)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "side %d is not known", (int)side);
    if (turn != SYNCED_MEM_TURN_READ && turn != SYNCED_MEM_TURN_WRITE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "turn %d is not known", (int)turn);
    return sm_begin_turn(sharing, side == SYNCED_MEM_SIDE_CPU ? SM_CPU : SM_GPU, turn == SYNCED_MEM_TURN_WRITE,
                         deadline);
}

synced_mem_status synced_mem_begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn, int timeout_ms)
{
    return SM_DO(begin_turn(mem, side, turn, timeout_ms), mem);
}

static synced_mem_status end_turn(synced_mem *mem)
{
    struct sm_sharing *sharing = NULL;
    SM_TRY(check_shareable(mem, &sharing));
    return sm_end_turn(sharing);
}

synced_mem_status synced_mem_end_turn(synced_mem *mem)
{
    return SM_DO(end_turn(mem), mem);
}
