/* A change of an object's size. */
#include "object/resize.h"

#include "base/caller.h"
#include "base/process.h"
#include "memory/guard.h"
#include "object/borrowed.h"
#include "object/evictable.h"
#include "object/exports.h"
#include "object/fetch_parts.h"
#include "object/host_only.h"
#include "object/piece.h"
#include "object/reclaim.h"
#include "object/renew.h"
#include "object/replacement.h"
#include "object/span.h"
#include "base/status.h"
#include "object/user_allocator.h"
#include "object/unified.h"

#include <string.h>

/* Read-only memory has no room for new bytes, which are zeros. */
static bool has_room(const struct synced_mem *mem, enum sm_side side, size_t size)
{
    const struct sm_copy *const copy = sm_copy_of(sm_own_record(mem), side);
    return copy && sm_copy_capacity(copy) >= size && (!copy->read_only || size <= sm_size(mem));
}

/* Returns the sides that have all contents. */
static unsigned get_sides(const struct synced_mem *mem)
{
    struct sm_heads heads = SM_NO_HEADS;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_add_head(&heads, sm_head(each));
    return heads.all;
}

/* Makes a root, whose parts' work is gathered, undivided for good: nothing can fail any more. */
static void become_whole(struct synced_mem *mem, unsigned head)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        sm_close_write(each);
        sm_leave_file(each);
        if (sm_is_divided(mem))
            sm_set_head(each, head);
    }
    if (sm_is_divided(mem))
        sm_drop_pieces(mem);
}

static void set_size(struct sm_transaction *transaction, size_t size, unsigned head)
{
    struct synced_mem *const mem = transaction->mem;
    become_whole(mem, head);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (!has_room(mem, side, size))
            sm_detach_copy(transaction, side);
    atomic_store_explicit(&mem->record.size, size, memory_order_relaxed);
    sm_set_head(sm_own_record(mem), head);
    sm_count_valid(sm_own_record(mem));
}

/* Moves the contents to larger memory, or to memory that both sides use, and appends zeros. Borrowed memory is read out
 * before it is handed back. */
static synced_mem_status grow_side(struct sm_transaction *transaction, enum sm_side side, size_t size)
{
    struct synced_mem *const mem = transaction->mem;
    const struct sm_replacing growth = {
        .transaction = transaction, .owner = mem, .side = side, .size = size, .becomes_whole = true};
    SM_TRY(sm_replacement_prepare(&growth));
    const synced_mem_status status = sm_find_wait_of_borrowed(mem, side, &transaction->waits);
    if (status == SM_AGAIN && side == SM_GPU && sm_is_divided(mem))
        SM_TRY(sm_replacement_enter_reads(&growth));
    if (status != SYNCED_MEM_OK)
        return status;
    become_whole(mem, get_sides(mem));
    return sm_replacement_commit(&growth);
}

static synced_mem_status zero_device_tail(struct synced_mem *mem, size_t size)
{
    struct sm_stream *stream;
    SM_TRY(sm_make_usable(sm_own_record(mem), SM_GPU));
    SM_TRY(sm_internal_stream_behind(sm_device(mem), SM_INTERNAL_MOVE_BEHIND, &stream));
    return sm_transfer_fill(sm_copy_of(sm_own_record(mem), SM_GPU), 0, sm_size(mem), size, stream);
}

/* Lifts the protection of the bytes behind the contents: their page has the guard of the last record. */
static void open_tail(const struct synced_mem *mem)
{
    const struct sm_record *last = sm_first_record(mem);
    for (const struct sm_record *each = last; each; each = sm_next_record(mem, each))
        last = each;
    sm_guard_open(sm_copy_of(last, SM_CPU));
}

/* The host's part comes last: it cannot fail once the host copy may be written. */
static synced_mem_status zero_tails(struct sm_transaction *transaction, size_t size, unsigned sides)
{
    struct synced_mem *const mem = transaction->mem;
    const synced_mem_status status = sides & sm_bit(SM_GPU) ? zero_device_tail(mem, size) : SYNCED_MEM_OK;
    const bool done = sm_shared_copy(sm_own_record(mem)) && (sides & sm_bit(SM_GPU));
    if (status == SYNCED_MEM_OK && (sides & sm_bit(SM_CPU)) && !done) {
        open_tail(mem);
        memset((char *)sm_copy_data(sm_copy_of(sm_own_record(mem), SM_CPU)) + sm_size(mem), 0, size - sm_size(mem));
    }
    return status;
}

/*
 * Returns whether the host moves the contents or fills the new bytes, and so waits for the work in flight. Shared
 * contents are the host's work where they are AT_CPU. Moving mapped memory always is, as the runtime would copy it by
 * the host too.
 */
static bool is_host_work(const struct synced_mem *mem, size_t size)
{
    const struct sm_copy *const shared = sm_shared_copy(sm_own_record(mem));
    const unsigned head = get_sides(mem);
    if (shared && !has_room(mem, SM_CPU, size) && shared->source == SYNCED_MEM_SOURCE_MAPPED)
        return head != SYNCED_MEM_UNINITIALIZED;
    if (shared)
        return head == SYNCED_MEM_AT_CPU;
    return (head & sm_bit(SM_CPU)) && (has_room(mem, SM_CPU, size) || !(head & sm_bit(SM_GPU)));
}

/* Grows the object. Sides with room keep the contents and get zeros behind them. If none has room, one side gets larger
 * memory. */
static synced_mem_status grow_object(struct sm_transaction *transaction, size_t size)
{
    struct synced_mem *const mem = transaction->mem;
    const unsigned head = get_sides(mem);
    const unsigned room =
        (has_room(mem, SM_CPU, size) ? sm_bit(SM_CPU) : 0) | (has_room(mem, SM_GPU, size) ? sm_bit(SM_GPU) : 0);
    unsigned next = head & room;
    if (head != SYNCED_MEM_UNINITIALIZED && next == 0) {
        next = head & sm_bit(SM_GPU) ? sm_bit(SM_GPU) : sm_bit(SM_CPU);
        SM_TRY(grow_side(transaction, is_host_work(mem, size) ? SM_CPU : SM_GPU, size));
    } else {
        SM_TRY(zero_tails(transaction, size, next));
    }
    set_size(transaction, size, next);
    return SYNCED_MEM_OK;
}

/* ---- Waits ---- */

/* Returns whether a record is valid on the host whatever the device does. */
static bool is_safe(const struct sm_record *record)
{
    return (sm_head(record) & sm_bit(SM_CPU)) && !sm_is_lost(record);
}

/* Finds the wait for a side's work in flight. conflicting: also for the readers. Uses of a part that a lost device has
 * ended need no event. */
static synced_mem_status find_side_wait(struct sm_transaction *transaction, enum sm_side side, bool conflicting)
{
    const struct synced_mem *const mem = transaction->mem;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        const synced_mem_status status = sm_inflight_settle(sm_copy_of(each, side), conflicting, NULL);
        if (status != SYNCED_MEM_OK && !(status == SYNCED_MEM_ERR_DEVICE_LOST && sm_is_divided(mem) && is_safe(each)))
            return status;
        SM_TRY(sm_waits_add(&transaction->waits, sm_inflight_blocker(sm_copy_of(each, side), conflicting)));
    }
    return SYNCED_MEM_OK;
}

/* Returns the side that gets the contents of parts with different heads: the host's unless all are on the device. */
static enum sm_side choose_side(const struct synced_mem *mem)
{
    unsigned any = SYNCED_MEM_UNINITIALIZED;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        if (sm_head(each) == SYNCED_MEM_AT_CPU)
            return SM_CPU;
        any |= sm_head(each);
    }
    return any & sm_bit(SM_GPU) ? SM_GPU : SM_CPU;
}

static bool has_contents_in_file_alone(const struct synced_mem *mem)
{
    bool found = false;
    for (struct sm_record *each = sm_first_record(mem); each && !found; each = sm_next_record(mem, each))
        found = sm_is_in_file_alone(each);
    return found;
}

/* Brings the contents of a root in parts, or in a file alone, to one side, and finds the wait until they are there.
 * Nothing else in flight on the parts needs a wait: it is gathered. A side that was valid stays valid, so a failure
 * undoes it. The lock is held from a read of a file to the search for its wait, so that its failure is found. */
static synced_mem_status find_parts_wait(struct sm_transaction *transaction)
{
    struct synced_mem *const mem = transaction->mem;
    if (!sm_is_divided(mem) && !sm_is_in_file(sm_own_record(mem)))
        return SYNCED_MEM_OK;
    if (has_contents_in_file_alone(mem) || sm_head_of_records(mem) == SYNCED_MEM_MIXED) {
        const enum sm_side side = choose_side(mem);
        bool fetched = true;
        SM_TRY(sm_renew(transaction, side, false, NULL));
        SM_TRY(sm_listing_fill(&transaction->listing, mem, side, NULL, SM_READ));
        while (fetched)
            SM_TRY(sm_fetch_for_access(mem, &transaction->listing, side, SM_READ, NULL, &fetched, &transaction->waits));
    }
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (get_sides(mem) & sm_bit(side))
            SM_TRY(find_side_wait(transaction, side, false));
    return SYNCED_MEM_OK;
}

/* Finds what the host waits for before the size can change. It waits before it hands back borrowed memory without room.
 * It waits for work that is still queueing, to queue behind it. It waits before it writes or reads the host copy. */
static synced_mem_status find_resize_wait(struct sm_transaction *transaction, size_t size, bool keep)
{
    struct synced_mem *const mem = transaction->mem;
    struct sm_waits *const waits = &transaction->waits;
    const bool growing = keep && size > sm_size(mem);
    if (keep)
        SM_TRY(find_parts_wait(transaction));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (!has_room(mem, side, size))
            SM_TRY(sm_find_wait_of_borrowed(mem, side, waits));
    const struct sm_copy *const gpu = sm_copy_of(sm_own_record(mem), SM_GPU);
    if (growing && !sm_is_divided(mem) && (sm_head(sm_own_record(mem)) & sm_bit(SM_GPU)))
        SM_TRY(sm_waits_add_for(waits, sm_inflight_unqueued(gpu, has_room(mem, SM_GPU, size)), SM_UNTIL_QUEUED));
    return growing && is_host_work(mem, size) ? find_side_wait(transaction, SM_CPU, true) : SYNCED_MEM_OK;
}

/* Waits until no call holds pieces of the root, and returns SM_AGAIN. A callback does not wait, as the call that it is
 * in may be one of those. Nor does a forked child, which lacks the threads of the parent's calls. */
static synced_mem_status wait_for_other_calls(struct synced_mem *mem)
{
    if (sm_caller_is_in_callback() || mem->generation != sm_process_generation())
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                       "a call that has not ended works on parts of the object: the size can change after it");
    const unsigned seen = sm_drops_begin();
    sm_unlock_object(mem);
    sm_drops_wait(seen);
    sm_lock_object(mem);
    return SM_AGAIN;
}

/* Gathers what is in flight on the parts of a root, for the copies of an undivided one. */
static synced_mem_status gather_work(const struct synced_mem *mem)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES && sm_is_divided(mem); side++)
        SM_TRY(sm_gather_parts(mem, side));
    return SYNCED_MEM_OK;
}

static synced_mem_status change_size(struct sm_transaction *transaction, size_t size, bool keep)
{
    struct synced_mem *const mem = transaction->mem;
    SM_TRY(gather_work(mem));
    if (keep && size > sm_size(mem))
        return grow_object(transaction, size);
    set_size(transaction, size, keep ? get_sides(mem) : SYNCED_MEM_UNINITIALIZED);
    return SYNCED_MEM_OK;
}

/* Returns whether the call can go on after failed work, which no longer touches the memory. */
static bool is_survivable(const struct synced_mem *mem, size_t size, bool keep)
{
    bool survivable = true;
    if (keep && has_contents_in_file_alone(mem)) /* a read has failed */
        return false;
    if (!sm_is_divided(mem))
        return !keep || size <= sm_size(mem) || !sm_is_lost(sm_own_record(mem));
    for (struct sm_record *each = sm_first_record(mem); each && keep && survivable; each = sm_next_record(mem, each))
        survivable = is_safe(each);
    return survivable;
}

static synced_mem_status try_to_resize(struct sm_transaction *transaction, size_t size, bool keep)
{
    struct synced_mem *const mem = transaction->mem;
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        SM_TRY(sm_check_not_exported(mem, side));
    SM_TRY(sm_check_not_held(mem));
    if (sm_has_views(mem))
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object has views: release them before its size changes");
    if (sm_is_divided(mem) && sm_has_held_records(mem))
        return wait_for_other_calls(mem);
    SM_TRY(find_resize_wait(transaction, size, keep));
    return change_size(transaction, size, keep);
}

static synced_mem_status resize_object(struct sm_transaction *transaction, size_t size, bool keep)
{
    synced_mem_status status;
    do
        status = try_to_resize(transaction, size, keep);
    while (sm_wait_again(transaction, &status) ||
           (transaction->waits_ended && is_survivable(transaction->mem, size, keep)));
    return status;
}

/* Begins the call. Pieces that have become alike since the last call are joined. */
static synced_mem_status enter_joined(struct sm_transaction *transaction, struct synced_mem *mem)
{
    SM_TRY(sm_check_and_lock(mem));
    if (sm_is_divided(mem) && mem->record.holders == 0) {
        sm_join_records(mem);
        sm_undivide(mem);
    }
    const synced_mem_status status = sm_begin(transaction, mem);
    if (status != SYNCED_MEM_OK)
        sm_unlock_root(mem);
    return status;
}

static synced_mem_status resize_once(struct synced_mem *mem, size_t size, bool keep)
{
    struct sm_transaction transaction;
    if (sm_host_only_resize(mem, size, keep))
        return sm_reap_after(SYNCED_MEM_OK, false);
    SM_TRY(enter_joined(&transaction, mem));
    const synced_mem_status status = resize_object(&transaction, size, keep);
    if (status != SYNCED_MEM_OK && sm_is_divided(mem))
        sm_share_reads(mem);
    return sm_leave_and_reap(&transaction, status, false);
}

synced_mem_status sm_resize(struct synced_mem *mem, size_t size, bool keep)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = resize_once(mem, size, keep);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}
