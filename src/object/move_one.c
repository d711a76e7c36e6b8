/*
 * A push or pull of one object, where the stream can do all of it at once: the call that programs make most. It does
 * what push_pull.c does for such an object, but has no list of objects, records, transfers or waits. So it reads and
 * writes little memory and runs little code: between two calls the runtime drives most of both out of the caches.
 */
#include "object/move_one.h"

#include "base/caller.h"
#include "base/process.h"
#include "object/fetch.h"
#include "object/move_stream.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/transaction.h"

/* Returns whether the host has to wait before the transfer can be queued, as sm_plan_move() finds it. */
static bool has_wait(const struct sm_copy *to, const struct sm_copy *from, enum sm_side side)
{
    return (side == SM_GPU ? sm_inflight_queueing(from, false) : sm_inflight_arrival_from_elsewhere(from)) ||
           sm_inflight_queueing(to, true);
}

/* Returns whether several uses of the copy may be open, which one event can end. The call on many shares such
 * events. */
static bool has_several_uses(const struct sm_copy *copy)
{
    return copy->reads && (copy->reads->next || copy->writer);
}

/* Returns whether the record's contents move to the side at once, between page-locked memory of the library's own and
 * the device. */
static bool is_direct(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const host = sm_slot_of(record, SM_CPU);
    const struct sm_copy *const to = sm_slot_of(record, side);
    const struct sm_copy *const from = sm_slot_of(record, sm_other(side));
    return sm_head(record) == sm_bit(sm_other(side)) && host->pinned && !sm_copy_is_of_user(host) &&
           sm_has_memory_to_write(record, side) && !sm_inflight_lost(from) && !has_several_uses(to) &&
           !has_wait(to, from, side);
}

static synced_mem_status queue_and_enter(struct synced_mem *mem, enum sm_side side, synced_mem_stream handle,
                                         struct sm_stream **stream)
{
    struct sm_transfer transfer;
    SM_TRY(sm_move_stream(&mem, 1, 0, side, handle, stream));
    SM_TRY(sm_queue_direct_move(sm_own_record(mem), side, *stream, NULL, &transfer, false));
    return sm_transfer_enter(&transfer, 1, NULL, *stream);
}

static void set_head(struct sm_record *record, enum sm_side side)
{
    if (side == SM_CPU)
        sm_close_write(record);
    sm_count_given(record, side);
    sm_set_head(record, SYNCED_MEM_SYNCED);
}

/* The head has not changed, but uses may have been settled. */
static __attribute__((noinline)) void leave_after_failure(struct sm_record *record)
{
    const struct sm_state now = sm_state_of(record);
    sm_restore_record(record, &now);
}

bool sm_move_one(struct synced_mem *mem, enum sm_side side, synced_mem_stream handle, synced_mem_status *status)
{
    struct sm_record *const record = &mem->record;
    struct sm_stream *stream = NULL;
    if (record->kind != SM_WHOLE || mem->generation != sm_process_generation() || sm_caller_is_wanted())
        return false;
    sm_lock_object(mem);
    if (sm_is_divided(mem) || !is_direct(record, side)) {
        sm_unlock_root(mem);
        return false;
    }
    *status = queue_and_enter(mem, side, handle, &stream);
    if (*status == SYNCED_MEM_OK)
        set_head(record, side);
    else
        leave_after_failure(record);
    sm_publish(record);
    assert(sm_object_is_valid(mem));
    sm_unlock_root(mem);
    sm_stream_drop(stream);
    if (*status != SYNCED_MEM_OK)
        (void)sm_reap_after(*status, false);
    return true;
}
