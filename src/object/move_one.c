/*
 * A push or pull of one object, where the stream can do all of it at once: the call that programs make most. It does
 * what push_pull.c does for such an object, but has no list of objects, records, transfers or waits. So it reads and
 * writes little memory and runs little code: between two calls the runtime drives most of both out of the caches.
 */
#include "object/move_one.h"

#include "base/process.h"
#include "memory/guard.h"
#include "object/fetch.h"
#include "object/move_stream.h"
#include "object/moves.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/transaction.h"
#include "trace/trace.h"

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
static bool is_direct(const struct sm_record *record, enum sm_side side, const struct sm_copy *to,
                      const struct sm_copy *from)
{
    const struct sm_copy *const host = side == SM_GPU ? from : to;
    return sm_head(record) == sm_bit(sm_other(side)) && sm_size_of(record) > 0 && host->pinned &&
           !sm_copy_is_of_user(host) && sm_has_memory_to_write(record, side) && !sm_inflight_lost(from) &&
           !has_several_uses(to) && !has_wait(to, from, side);
}

static synced_mem_status find_stream(struct synced_mem *mem, enum sm_side side, synced_mem_stream handle,
                                     struct sm_stream **stream)
{
    return handle == SM_HANDLE_OF_LIBRARY ? sm_move_stream(&mem, 1, 0, side, handle, stream)
                                          : sm_callers_stream(sm_device(mem), handle, stream);
}

static void set_head(struct sm_record *record, enum sm_side side, struct sm_copy *to)
{
    if (side == SM_CPU)
        sm_close_write(record);
    to->given = sm_copy_next_given(to->given);
    sm_set_head(record, SYNCED_MEM_SYNCED);
}

/* The head has not changed, but uses may have been settled. */
static __attribute__((noinline, cold)) void leave_after_failure(struct sm_record *record)
{
    const struct sm_state now = sm_state_of(record);
    sm_restore_record(record, &now);
    sm_publish(record);
}

/* Take and release the lock as sm_lock_object() and sm_unlock_root() do. */
static inline void lock_whole(struct synced_mem *mem)
{
    sm_process_enter();
    sm_mutex_lock(&mem->lock);
}

static inline void unlock_whole(struct synced_mem *mem)
{
    sm_mutex_unlock(&mem->lock);
    sm_process_leave();
}

/* Moves the object if the stream can do all of it at once, and stores the status. Returns false if not: then it has
 * changed nothing. The call has passed the gate. */
static inline bool move_at_once(struct synced_mem *mem, enum sm_side side, synced_mem_stream handle,
                                synced_mem_status *status)
{
    struct sm_record *const record = &mem->record;
    struct sm_stream *stream = NULL;
    if (record->kind != SM_WHOLE || mem->generation != sm_process_generation())
        return false;
    lock_whole(mem);
    struct sm_copy *const to = sm_slot_of(record, side);
    struct sm_copy *const from = sm_slot_of(record, sm_other(side));
    if (sm_is_divided(mem) || sm_trace_on() || sm_guard_on() || !is_direct(record, side, to, from)) {
        unlock_whole(mem);
        return false;
    }
    *status = find_stream(mem, side, handle, &stream);
    if (*status == SYNCED_MEM_OK)
        *status = sm_transfer_direct(side == SM_GPU ? SM_H2D : SM_D2H, to, from, sm_size_of(record), stream);
    if (*status == SYNCED_MEM_OK) {
        set_head(record, side, to);
        sm_publish_moved(mem, from);
    } else {
        leave_after_failure(record);
    }
    assert(sm_object_is_valid(mem));
    unlock_whole(mem);
    sm_stream_drop(stream);
    return true;
}

synced_mem_status sm_move_object(struct synced_mem *mem, enum sm_side side, bool is_urgent, synced_mem_stream handle)
{
    const struct sm_extras *const extras = mem->extras;
    const bool has_gate = extras && (extras->sharing || extras->is_evictable);
    struct synced_mem *failed;
    synced_mem_status status;
    if (has_gate || is_urgent || !move_at_once(mem, side, handle, &status))
        return sm_move(&mem, 1, side, is_urgent, handle, &failed);
    /* No memory for contents was asked for, so there is none to reclaim. */
    return status == SYNCED_MEM_OK ? SYNCED_MEM_OK : sm_reap_after(status, false);
}
