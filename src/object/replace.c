/* Calls that give up or replace an object's memory. */
#include "object/replace.h"

#include "object/borrowed.h"
#include "object/evictable.h"
#include "object/exports.h"
#include "object/fetch_parts.h"
#include "object/piece.h"
#include "object/reclaim.h"
#include "object/renew.h"
#include "object/span.h"
#include "base/status.h"
#include "object/unified.h"

#include <stdint.h>

/* ---- Handing back ---- */

/* Waits until the sides that are given up have nothing of the library's in flight, if they are borrowed. */
static synced_mem_status make_replaceable(struct sm_transaction *transaction, const bool going[SM_SIDES])
{
    synced_mem_status status;
    do {
        status = SYNCED_MEM_OK;
        for (enum sm_side side = SM_CPU; side < SM_SIDES && status == SYNCED_MEM_OK; side++)
            if (going[side])
                status = sm_find_wait_of_borrowed(transaction->mem, side, &transaction->waits);
    } while (sm_wait_again(transaction, &status) || transaction->waits_ended);
    return status;
}

/* ---- Releasing one side ---- */

/* Finds the wait for a record's contents on the other side, if this side alone has them. */
static synced_mem_status find_arrival_of_record(struct sm_record *record, enum sm_side side, struct sm_waits *waits)
{
    if (sm_whole_head(record) == sm_bit(side))
        SM_TRY(sm_fetch(record, sm_other(side), SM_MOVE, NULL, waits));
    if (sm_head(record) != SYNCED_MEM_SYNCED)
        return SYNCED_MEM_OK;
    return sm_waits_add(waits, sm_inflight_blocker(sm_copy_of(record, sm_other(side)), false));
}

static synced_mem_status find_next_arrival(struct sm_transaction *transaction, enum sm_side side)
{
    const struct synced_mem *const mem = transaction->mem;
    struct sm_waits *const waits = &transaction->waits;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        if (sm_whole_head(each) == sm_bit(side)) {
            SM_TRY(sm_renew(transaction, sm_other(side), false, NULL));
            SM_TRY(sm_fetch_memory(mem, sm_other(side), NULL, true));
        }
        SM_TRY(find_arrival_of_record(each, side, waits));
    }
    return SYNCED_MEM_OK;
}

/* A write that is about to put contents into a file, which the sides alone have, is waited for: then they stay there.
 * It may have ended since the call began. */
static synced_mem_status find_promise_of_sides(const struct synced_mem *mem, unsigned sides, struct sm_waits *waits)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        if (sm_head(each) && !(sm_whole_head(each) & ~sides))
            SM_TRY(sm_waits_add_for(waits, sm_promise_fence(each), SM_MAY_FAIL));
        sm_settle(each);
    }
    return SYNCED_MEM_OK;
}

/* *arriving: the wait is for contents that arrive on the other side. */
static synced_mem_status find_wait_of_release(struct sm_transaction *transaction, enum sm_side side, bool *arriving)
{
    struct synced_mem *const mem = transaction->mem;
    if (!sm_copy_of(sm_own_record(mem), side))
        return SYNCED_MEM_OK;
    if (!sm_shared_copy(sm_own_record(mem)))
        SM_TRY(sm_check_not_exported(mem, side));
    SM_TRY(find_promise_of_sides(mem, sm_bit(side), &transaction->waits));
    *arriving = true;
    SM_TRY(find_next_arrival(transaction, side));
    *arriving = false;
    return sm_find_wait_of_borrowed(mem, side, &transaction->waits);
}

/* Makes the contents arrive on the other side if this one has them. Then nothing is in flight on borrowed memory.
 * Failed work no longer touches borrowed memory, but contents that were to arrive are missing. */
static synced_mem_status make_dispensable(struct sm_transaction *transaction, enum sm_side side)
{
    synced_mem_status status;
    bool arriving = false;
    do
        status = find_wait_of_release(transaction, side, &arriving);
    while (sm_wait_again(transaction, &status) || (transaction->waits_ended && !arriving));
    return status;
}

/* Takes the memory out of an object whose head does not count on it. Memory that both sides use stays. */
static void give_up_side(struct sm_transaction *transaction, enum sm_side side)
{
    struct synced_mem *const mem = transaction->mem;
    if (sm_shared_copy(sm_own_record(mem)))
        return;
    if (sm_is_divided(mem))
        sm_drop_parts(mem, side);
    sm_detach_copy(transaction, side);
}

static synced_mem_status release_side_once(struct synced_mem *mem, enum sm_side side)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    synced_mem_status status = make_dispensable(&transaction, side);
    if (status == SYNCED_MEM_OK && sm_is_divided(mem) && !sm_shared_copy(sm_own_record(mem)))
        status = sm_gather_parts(mem, side);
    if (status == SYNCED_MEM_OK)
        status = sm_check_not_held(mem); /* another thread may hold it by now */
    if (status == SYNCED_MEM_OK) {
        for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
            sm_close_write(each);
            sm_set_head(each, sm_head(each) & ~sm_bit(side));
            sm_count_valid(each); /* the other side alone has the contents now */
        }
        give_up_side(&transaction, side);
    }
    return sm_leave_and_reap(&transaction, status, true);
}

synced_mem_status sm_release_side(struct synced_mem *mem, enum sm_side side)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = release_side_once(mem, side);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

/* ---- Releasing both sides ---- */

static __attribute__((noinline)) synced_mem_status gather_all_parts(const struct synced_mem *mem)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        SM_TRY(sm_gather_parts(mem, side));
    return SYNCED_MEM_OK;
}

static synced_mem_status wait_for_promises(struct sm_transaction *transaction)
{
    synced_mem_status status;
    do
        status = find_promise_of_sides(transaction->mem, SYNCED_MEM_SYNCED, &transaction->waits);
    while (sm_wait_again(transaction, &status));
    return status;
}

static synced_mem_status release_copies(struct sm_transaction *transaction)
{
    static const bool both[SM_SIDES] = {true, true};
    struct synced_mem *const mem = transaction->mem;
    SM_TRY(wait_for_promises(transaction));
    SM_TRY(make_replaceable(transaction, both));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        SM_TRY(sm_check_not_exported(mem, side));
    SM_TRY(sm_check_not_held(mem));
    SM_TRY(sm_is_divided(mem) ? gather_all_parts(mem) : SYNCED_MEM_OK);
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        sm_close_write(each);
        sm_set_head(each, SYNCED_MEM_UNINITIALIZED);
    }
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        if (sm_is_divided(mem))
            sm_drop_parts(mem, side);
        sm_detach_copy(transaction, side);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_release_memory(struct synced_mem *mem)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    return sm_leave_and_reap(&transaction, release_copies(&transaction), true);
}

/* ---- Replacing ---- */

/* Returns whether the incoming memory begins in memory of the object's. That is not the caller's to hand in, and would
 * be given up. */
static bool owns_memory(const struct synced_mem *mem, enum sm_side side, const struct sm_copy *incoming)
{
    const struct sm_copy *const copy = sm_copy_of(sm_own_record(mem), side);
    if (!copy || copy->source == SYNCED_MEM_SOURCE_BORROWED)
        return false;
    const uintptr_t into = (uintptr_t)sm_copy_data(incoming) - (uintptr_t)sm_allocation_of(copy)->base;
    return into < sm_allocation_of(copy)->bytes;
}

/* Counts this call on incoming memory, as on the memory that it replaces. */
static void count_on_incoming(const struct synced_mem *mem, struct sm_copy *incoming)
{
    unsigned *const latest = sm_is_divided(mem) ? &sm_division_of(mem)->given : &incoming->given;
    *latest = incoming->given = sm_copy_next_given(*latest > incoming->given ? *latest : incoming->given);
}

/* Does all for the pieces of a divided root that can fail. */
static synced_mem_status prepare_parts(const struct synced_mem *mem, const bool going[SM_SIDES],
                                       struct sm_copy *const incoming[SM_SIDES], struct sm_copy **parts[SM_SIDES])
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (enum sm_side side = SM_CPU; side < SM_SIDES && status == SYNCED_MEM_OK; side++) {
        if (going[side])
            status = sm_gather_parts(mem, side);
        if (status == SYNCED_MEM_OK && going[side])
            status = sm_make_parts(mem, incoming[side], &parts[side]);
    }
    if (status != SYNCED_MEM_OK)
        sm_give_parts(parts[SM_CPU]);
    return status;
}

/* Checks memory that another call may have made unfit meanwhile. */
static synced_mem_status check_incoming(const struct synced_mem *mem, struct sm_copy *const incoming[SM_SIDES])
{
    const struct sm_copy *const gpu = incoming[SM_GPU];
    if (gpu && sm_device(mem) >= 0 && sm_device(mem) != gpu->device)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "the memory is on device %d, but the object is on device %d",
                       gpu->device, sm_device(mem));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (incoming[side] && sm_copy_capacity(incoming[side]) < sm_size(mem))
            return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "another call has made the object larger than the memory");
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (incoming[side] && (owns_memory(mem, SM_CPU, incoming[side]) || owns_memory(mem, SM_GPU, incoming[side])))
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the object already owns the memory at %p",
                           sm_copy_data(incoming[side]));
    return SYNCED_MEM_OK;
}

static synced_mem_status replace_copies(struct sm_transaction *transaction, struct sm_copy *const incoming[SM_SIDES])
{
    struct synced_mem *const mem = transaction->mem;
    const bool going[SM_SIDES] = {incoming[SM_CPU] != NULL, incoming[SM_GPU] != NULL};
    struct sm_copy **parts[SM_SIDES] = {NULL};
    unsigned head = SYNCED_MEM_UNINITIALIZED;
    SM_TRY(sm_unified_check_user_memory(mem));
    SM_TRY(make_replaceable(transaction, going));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (going[side])
            SM_TRY(sm_check_not_exported(mem, side));
    SM_TRY(check_incoming(mem, incoming));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (incoming[side])
            count_on_incoming(mem, incoming[side]);
    if (sm_is_divided(mem))
        SM_TRY(prepare_parts(mem, going, incoming, parts));
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_close_write(each);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        if (!going[side])
            continue;
        if (sm_is_divided(mem))
            sm_drop_parts(mem, side);
        sm_detach_copy(transaction, side);
        sm_put_copy(sm_own_record(mem), side, incoming[side]);
        if (parts[side])
            sm_put_parts(mem, side, parts[side]);
        head |= sm_bit(side);
    }
    if (incoming[SM_GPU])
        sm_put_device(mem, incoming[SM_GPU]->device);
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        sm_set_head(each, head);
        sm_leave_file(each);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_replace(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu)
{
    struct sm_copy *const incoming[SM_SIDES] = {[SM_CPU] = cpu, [SM_GPU] = gpu};
    struct sm_transaction transaction;
    const synced_mem_status status = sm_enter(&transaction, mem);
    return status == SYNCED_MEM_OK ? sm_leave_and_reap(&transaction, replace_copies(&transaction, incoming), true)
                                   : status;
}

/* Records a fence for all work queued on the stream until now. */
static synced_mem_status record_stream_fence(int device, synced_mem_stream handle, struct sm_fence **out)
{
    struct sm_stream *stream;
    SM_TRY(sm_stream_find(device, handle, &stream));
    if (!stream)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "the stream is capturing, so no event can be recorded on it: call after the capture");
    synced_mem_status status = sm_stream_record(stream, out);
    sm_stream_drop(stream);
    return status;
}

synced_mem_status sm_replace_on(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu,
                                synced_mem_stream handle)
{
    struct sm_fence *fence;
    const int device = sm_device(mem);
    SM_TRY(record_stream_fence(device < 0 && gpu ? gpu->device : device, handle, &fence));
    if (cpu)
        sm_inflight_filled(cpu, sm_fence_hold(fence));
    if (gpu)
        sm_inflight_filled(gpu, sm_fence_hold(fence));
    sm_fence_drop(fence);
    return sm_replace(mem, cpu, gpu);
}
