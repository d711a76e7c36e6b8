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

static synced_mem_status begin_wished_turn(synced_mem *mem, synced_mem_side side, struct sm_wish wish, int timeout_ms)
{
    const sm_deadline deadline = sm_deadline_after(timeout_ms);
    struct sm_sharing *sharing = NULL;
    SM_TRY(check_shareable(mem, &sharing));
    if (side != SYNCED_MEM_SIDE_CPU && side != SYNCED_MEM_SIDE_GPU)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "side %d is not known", (int)side);
    return sm_begin_turn(sharing, side == SYNCED_MEM_SIDE_CPU ? SM_CPU : SM_GPU, wish, deadline);
}

static synced_mem_status begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn, int timeout_ms)
{
    const struct sm_wish any = {.kind = SM_WISH_ANY, .writing = turn == SYNCED_MEM_TURN_WRITE};
    if (turn != SYNCED_MEM_TURN_READ && turn != SYNCED_MEM_TURN_WRITE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "turn %d is not known", (int)turn);
    return begin_wished_turn(mem, side, any, timeout_ms);
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

static synced_mem_status abandon_turn(synced_mem *mem)
{
    struct sm_sharing *sharing = NULL;
    SM_TRY(check_shareable(mem, &sharing));
    return sm_abandon_turn(sharing);
}

synced_mem_status synced_mem_abandon_turn(synced_mem *mem)
{
    return SM_DO(abandon_turn(mem), mem);
}

/* ---- Versions and slots ---- */

static synced_mem_status get_version(const synced_mem *mem, uint64_t *version)
{
    struct sm_sharing *sharing = NULL;
    struct sm_contents contents;
    SM_TRY(check_shareable(mem, &sharing));
    if (!version)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "version is NULL");
    SM_TRY(sm_sharing_check_process(sharing));
    SM_TRY(sm_contents_read(sharing->memory->participant.page, &contents));
    *version = contents.version;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_contents_version(const synced_mem *mem, uint64_t *version)
{
    return SM_DO(get_version(mem, version), mem);
}

static synced_mem_status check_slot(int slot)
{
    if (slot >= 0 && slot < SM_SLOTS)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "slot %d is none of 0 to %d", slot, SM_SLOTS - 1);
}

static synced_mem_status take_slot(synced_mem *mem, int wanted, int *slot)
{
    struct sm_sharing *sharing = NULL;
    unsigned taken;
    SM_TRY(check_shareable(mem, &sharing));
    if (wanted != SYNCED_MEM_ANY_SLOT)
        SM_TRY(check_slot(wanted));
    SM_TRY(sm_sharing_check_process(sharing));
    SM_TRY(sm_slot_take(sharing->memory->participant.page, wanted, &taken));
    if (slot)
        *slot = (int)taken;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_take_slot(synced_mem *mem, int wanted, int *slot)
{
    return SM_DO(take_slot(mem, wanted, slot), mem);
}

static synced_mem_status get_slot_version(const synced_mem *mem, int slot, uint64_t *version)
{
    struct sm_sharing *sharing = NULL;
    struct sm_slot found;
    SM_TRY(check_shareable(mem, &sharing));
    SM_TRY(check_slot(slot));
    if (!version)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "version is NULL");
    SM_TRY(sm_sharing_check_process(sharing));
    SM_TRY(sm_slot_read_taken(sharing->memory->participant.page, (unsigned)slot, &found));
    *version = found.version;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_slot_version(const synced_mem *mem, int slot, uint64_t *version)
{
    return SM_DO(get_slot_version(mem, slot, version), mem);
}

static synced_mem_status end_slot(synced_mem *mem, int slot)
{
    struct sm_sharing *sharing = NULL;
    SM_TRY(check_shareable(mem, &sharing));
    SM_TRY(check_slot(slot));
    SM_TRY(sm_sharing_check_process(sharing));
    return sm_watch_end_slot(&sharing->memory->participant, (unsigned)slot);
}

synced_mem_status synced_mem_end_slot(synced_mem *mem, int slot)
{
    return SM_DO(end_slot(mem, slot), mem);
}

synced_mem_status synced_mem_begin_newer_turn(synced_mem *mem, synced_mem_side side, uint64_t version, int timeout_ms)
{
    const struct sm_wish newer = {.kind = SM_WISH_NEWER, .version = version};
    return SM_DO(begin_wished_turn(mem, side, newer, timeout_ms), mem);
}

static synced_mem_status begin_slot_turn(synced_mem *mem, synced_mem_side side, int slot, int timeout_ms)
{
    const struct sm_wish next = {.kind = SM_WISH_SLOT, .index = (unsigned)slot};
    SM_TRY(check_slot(slot));
    return begin_wished_turn(mem, side, next, timeout_ms);
}

synced_mem_status synced_mem_begin_slot_turn(synced_mem *mem, synced_mem_side side, int slot, int timeout_ms)
{
    return SM_DO(begin_slot_turn(mem, side, slot, timeout_ms), mem);
}

synced_mem_status synced_mem_begin_consumed_turn(synced_mem *mem, synced_mem_side side, int timeout_ms)
{
    const struct sm_wish consumed = {.kind = SM_WISH_CONSUMED, .writing = true};
    return SM_DO(begin_wished_turn(mem, side, consumed, timeout_ms), mem);
}
