/* Accesses to one object. */
#include "object/access.h"

#include "memory/guard.h"
#include "object/fetch.h"
#include "object/reclaim.h"
#include "base/status.h"

#include <stdlib.h>

/* ---- Accesses that end on the host ---- */

static struct sm_stream *get_accessing_stream(const struct synced_mem *mem, enum sm_side side)
{
    return side == SM_GPU ? sm_stream_any(sm_device(mem)) : NULL;
}

/* Returns whether the access can go on after failed work, which no longer touches the memory. The contents must be
 * there or not matter. Of a lost device only the host's memory is usable. */
static bool is_survivable(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode, synced_mem_status why)
{
    const bool has_contents = side == SM_CPU && (sm_head(mem) & sm_bit(SM_CPU)) && !sm_is_lost(mem);
    const bool is_usable = side == SM_CPU || why != SYNCED_MEM_ERR_DEVICE_LOST;
    return has_contents || (mode == SM_OVERWRITE && is_usable);
}

/* Returns the work to wait for. An overwrite ignores lost contents. */
static struct sm_fence *find_blocker(const struct sm_copy *copy, enum sm_mode mode)
{
    return mode == SM_OVERWRITE ? sm_inflight_unfinished(copy, true) : sm_inflight_blocker(copy, mode != SM_READ);
}

/* Finds the next fence that an access without a stream waits for, once its side has memory and contents. Uses that a
 * lost device has ended need no event. Contents that were arriving may be lost with the device. */
static synced_mem_status find_access_wait(struct synced_mem *mem, enum sm_side side, enum sm_mode mode,
                                          struct sm_fence **wait)
{
    struct sm_copy *const copy = sm_copy_of(mem, side);
    synced_mem_status status = sm_inflight_settle(copy, mode != SM_READ, get_accessing_stream(mem, side));
    if (status == SYNCED_MEM_ERR_DEVICE_LOST && is_survivable(mem, side, mode, status))
        status = SYNCED_MEM_OK;
    *wait = status == SYNCED_MEM_OK ? find_blocker(copy, mode) : NULL;
    return status;
}

static synced_mem_status make_copy_ready(struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    for (;;) {
        const enum sm_work work = (enum sm_work)sm_transitions[sm_head(mem)][side][mode].work;
        struct sm_fence *wait;
        synced_mem_status status = sm_fetch(mem, side, work, NULL, &wait);
        if (status == SYNCED_MEM_OK && !wait && work != SM_NOTHING)
            continue;
        if (status == SYNCED_MEM_OK && !wait) {
            status = find_access_wait(mem, side, mode, &wait);
            if (!wait)
                return status;
        }
        if (status != SYNCED_MEM_OK)
            return status;
        bool over;
        status = sm_wait_unlocked(mem, wait, &over);
        if (status != SYNCED_MEM_OK && !(over && is_survivable(mem, side, mode, status)))
            return status;
    }
}

/* Reserves a place among the readers of the device copy, for an access that reads. */
static synced_mem_status reserve_read(enum sm_mode mode, struct sm_use **out)
{
    *out = mode == SM_READ ? sm_inflight_reserve() : NULL;
    return mode != SM_READ || *out ? SYNCED_MEM_OK : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
}

static void *finish_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    struct sm_copy *const copy = sm_copy_of(mem, side);
    copy->given++;
    copy->arriving = copy->arriving && mode != SM_OVERWRITE;
    sm_set_head(mem, sm_transitions[sm_head(mem)][side][mode].next);
    return sm_copy_data(copy);
}

/* Returns whether the memory is filled first, so that bytes the caller leaves unwritten show. */
static bool is_to_be_filled(enum sm_mode mode)
{
    return mode == SM_OVERWRITE && sm_guard_on();
}

/* Most work that the host's contents came after is over then, so its fences are polled. */
static synced_mem_status access_host(struct synced_mem *mem, enum sm_mode mode, void **out)
{
    SM_TRY(make_copy_ready(mem, SM_CPU, mode));
    sm_close_write(mem);
    if (sm_copy_of(mem, SM_GPU))
        sm_inflight_poll_write(sm_copy_of(mem, SM_GPU));
    if (is_to_be_filled(mode))
        sm_fill_unwritten_host(mem);
    *out = finish_access(mem, SM_CPU, mode);
    return SYNCED_MEM_OK;
}

/* The second make_copy_ready() waits for the fill. */
static synced_mem_status make_device_ready(struct synced_mem *mem, enum sm_mode mode)
{
    const synced_mem_status status = make_copy_ready(mem, SM_GPU, mode);
    if (status != SYNCED_MEM_OK || !is_to_be_filled(mode))
        return status;
    sm_fill_unwritten_device(mem, NULL);
    return make_copy_ready(mem, SM_GPU, mode);
}

static synced_mem_status access_device(struct synced_mem *mem, enum sm_mode mode, void **out)
{
    struct sm_use *use;
    synced_mem_status status = reserve_read(mode, &use);
    if (status == SYNCED_MEM_OK)
        status = make_device_ready(mem, mode);
    if (status != SYNCED_MEM_OK) {
        free(use);
        return status;
    }
    sm_inflight_given(sm_copy_of(mem, SM_GPU), use, get_accessing_stream(mem, SM_GPU), mode != SM_READ);
    *out = finish_access(mem, SM_GPU, mode);
    return SYNCED_MEM_OK;
}

static synced_mem_status access_once(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    return sm_leave_and_reap(&transaction, side == SM_CPU ? access_host(mem, mode, out) : access_device(mem, mode, out),
                             true);
}

synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = access_once(mem, side, mode, out);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

/* ---- Accesses on a stream ---- */

/* Returns the pointer to a stream that captures. The graph's launch will use it, and the program accesses the object
 * again then. So this waits for nothing and tracks nothing. */
static synced_mem_status access_captured(const struct synced_mem *mem, enum sm_mode mode, void **out)
{
    const unsigned head = sm_head(mem);
    const struct sm_transition *const step = &sm_transitions[head][SM_GPU][mode];
    const struct sm_copy *const copy = sm_copy_of(mem, SM_GPU);
    if (step->work != SM_NOTHING || step->next != head || copy->untracked == SM_UNTRACKED_WRITE)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "the stream is capturing, and this access needs a transfer, a fill or memory, or changes the "
                       "head: access the object before the capture");
    *out = sm_copy_data(copy);
    return SYNCED_MEM_OK;
}

static synced_mem_status make_copy_ready_on(struct synced_mem *mem, enum sm_mode mode, struct sm_stream *stream)
{
    for (;;) {
        const enum sm_work work = (enum sm_work)sm_transitions[sm_head(mem)][SM_GPU][mode].work;
        struct sm_fence *wait;
        bool over;
        synced_mem_status status = sm_fetch(mem, SM_GPU, work, stream, &wait);
        const bool again = status == SYNCED_MEM_OK && wait;
        if (again)
            status = sm_wait_unlocked(mem, wait, &over);
        if (status != SYNCED_MEM_OK)
            return status;
        if (work != SM_NOTHING || again)
            continue;
        wait = sm_inflight_unqueued(sm_copy_of(mem, SM_GPU), mode != SM_READ);
        if (!wait)
            return sm_inflight_order(sm_copy_of(mem, SM_GPU), mode != SM_READ, stream);
        status = sm_wait_queued_unlocked(mem, wait, &over);
        if (status != SYNCED_MEM_OK && !(over && is_survivable(mem, SM_GPU, mode, status)))
            return status;
    }
}

/* The fill is work of the library's own. A call that hands the caller's memory back waits for it. */
static synced_mem_status make_device_ready_on(struct synced_mem *mem, enum sm_mode mode, struct sm_stream *stream)
{
    const synced_mem_status status = make_copy_ready_on(mem, mode, stream);
    if (status != SYNCED_MEM_OK || !is_to_be_filled(mode))
        return status;
    sm_fill_unwritten_device(mem, stream);
    return make_copy_ready_on(mem, mode, stream);
}

static synced_mem_status access_on(struct synced_mem *mem, enum sm_mode mode, struct sm_stream *stream, void **out)
{
    struct sm_use *use;
    synced_mem_status status = reserve_read(mode, &use);
    if (status == SYNCED_MEM_OK)
        status = make_device_ready_on(mem, mode, stream);
    if (status != SYNCED_MEM_OK) {
        free(use);
        return status;
    }
    sm_inflight_given(sm_copy_of(mem, SM_GPU), use, stream, mode != SM_READ);
    *out = finish_access(mem, SM_GPU, mode);
    return SYNCED_MEM_OK;
}

/* Returns the pointer again to a stream that has it to read. The hot path does the same, but knows only the last of
 * several streams. */
static bool give_pointer_again(struct synced_mem *mem, synced_mem_stream handle, void **out)
{
    struct sm_copy *const copy = sm_copy_of(mem, SM_GPU);
    if (!(sm_head(mem) & sm_bit(SM_GPU)) || !sm_inflight_give_again(copy, handle))
        return false;
    *out = finish_access(mem, SM_GPU, SM_READ);
    return true;
}

static synced_mem_status access_on_once(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out)
{
    struct sm_transaction transaction;
    struct sm_stream *stream = NULL;
    SM_TRY(sm_enter(&transaction, mem));
    if (mode == SM_READ && give_pointer_again(mem, handle, out))
        return sm_leave(&transaction, SYNCED_MEM_OK);
    synced_mem_status status = sm_stream_find(sm_device(mem), handle, &stream);
    if (status == SYNCED_MEM_OK)
        status = stream ? access_on(mem, mode, stream, out) : access_captured(mem, mode, out);
    status = sm_leave_and_reap(&transaction, status, false);
    sm_stream_drop(stream);
    return status;
}

synced_mem_status sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = access_on_once(mem, mode, handle, out);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

static synced_mem_status end_stream_use(struct synced_mem *mem, synced_mem_stream handle)
{
    struct sm_stream *stream;
    synced_mem_status status = sm_stream_find(sm_device(mem), handle, &stream);
    if (status != SYNCED_MEM_OK)
        return status;
    if (!stream)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "the stream is capturing, so no event can be recorded on it: call after the capture");
    if (sm_copy_of(mem, SM_GPU))
        status = sm_inflight_end(sm_copy_of(mem, SM_GPU), stream);
    sm_stream_drop(stream);
    return status;
}

synced_mem_status sm_end_use_on(struct synced_mem *mem, synced_mem_stream handle)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    transaction.ends_nothing = true;
    return sm_leave(&transaction, end_stream_use(mem, handle));
}

/* ---- The library's own work ---- */

/* A copy thread may close a fence as lost at any time, so that is checked last. */
static struct sm_fence *find_transfer(const struct sm_copy *copy)
{
    struct sm_fence *const unfinished = sm_inflight_transfer(copy);
    struct sm_fence *const lost = sm_inflight_lost(copy);
    return lost ? lost : unfinished;
}

static struct sm_fence *find_any_transfer(const struct synced_mem *mem)
{
    struct sm_fence *fence = NULL;
    for (enum sm_side side = SM_CPU; side < SM_SIDES && !fence; side++)
        if (sm_copy_of(mem, side))
            fence = find_transfer(sm_copy_of(mem, side));
    return fence;
}

/* Polls the library's work. A query reports lost contents once: they are then no longer the object's. */
static synced_mem_status poll_transfers(struct synced_mem *mem, bool *pending)
{
    struct sm_fence *fence;
    bool over;
    *pending = false;
    while ((fence = find_any_transfer(mem)) != NULL && !*pending) {
        *pending = sm_fence_pending(fence);
        if (!*pending && sm_fence_state(fence) == SM_FENCE_LOST)
            return sm_wait_unlocked(mem, fence, &over);
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status wait_for_transfers(struct synced_mem *mem)
{
    struct sm_fence *fence;
    bool over;
    synced_mem_status status = SYNCED_MEM_OK;
    while (status == SYNCED_MEM_OK && (fence = find_any_transfer(mem)) != NULL)
        status = sm_wait_unlocked(mem, fence, &over);
    return status;
}

synced_mem_status sm_query_or_wait(struct synced_mem *mem, bool wait, bool *pending)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    transaction.ends_nothing = true;
    const synced_mem_status lost = transaction.lost ? sm_fence_wait(transaction.lost) : SYNCED_MEM_OK;
    if (lost != SYNCED_MEM_OK)
        return sm_leave_and_reap(&transaction, lost, wait);
    return sm_leave_and_reap(&transaction, wait ? wait_for_transfers(mem) : poll_transfers(mem, pending), wait);
}
