/* Holds. */
#include "object/hold.h"

#include "base/process.h"
#include "base/stats.h"
#include "object/evict.h"
#include "object/fetch_parts.h"
#include "object/load_several.h"
#include "object/publish.h"
#include "object/push_pull.h"
#include "object/reclaim.h"
#include "object/reserve.h"
#include "object/span.h"
#include "stream/shared_ends.h"

#include <stdlib.h>

/* ---- Checks ---- */

static synced_mem_status fail_named_twice(struct synced_mem *mem, struct synced_mem **failed)
{
    *failed = mem;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "an object is named more than once");
}

static synced_mem_status check_named_once(struct synced_mem *const *mems, size_t count, struct synced_mem **failed)
{
    size_t i = 0;
    sm_budget_lock();
    const uint64_t serial = sm_budget_new_serial();
    while (i < count && sm_member_mark(sm_member_of(mems[i], SM_GPU), serial))
        i++;
    sm_budget_unlock();
    return i == count ? SYNCED_MEM_OK : fail_named_twice(mems[i], failed);
}

static synced_mem_status check_objects(struct synced_mem *const *mems, size_t count, struct synced_mem **failed)
{
    for (size_t i = 0; i < count; i++) {
        *failed = mems[i];
        SM_TRY(sm_check_usable(mems[i]));
        if (!sm_evictable_of(mems[i]))
            return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                           "the object is not evictable: set that option when it is made");
    }
    *failed = NULL;
    return SYNCED_MEM_OK;
}

/* ---- Contents ---- */

/* Returns whether the object needs nothing. While it is held and not leaving, nobody takes its copy away. The parts of
 * one that is divided are looked at with its lock held. */
static bool is_there(const struct synced_mem *mem, enum sm_side side)
{
    const unsigned head = sm_raw_head(&mem->record);
    return !atomic_load_explicit(&sm_member_of(mem, side)->is_leaving, memory_order_acquire) &&
           head != SM_HEAD_OF_PIECES && (head & sm_bit(side));
}

static synced_mem_status fetch_parts(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode,
                                     struct sm_stream *stream)
{
    struct sm_listing *const listing = &transaction->listing;
    bool fetched = true;
    SM_TRY(sm_listing_fill(listing, transaction->mem, side, NULL, mode));
    while (fetched)
        SM_TRY(sm_fetch_for_access(transaction->mem, listing, side, mode, stream, &fetched, &transaction->waits));
    sm_keep_zeros(listing, mode);
    return SYNCED_MEM_OK;
}

/* New memory without contents is entered as the stream's write, so that other streams come after its allocation. */
static synced_mem_status fetch_step(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode,
                                    struct sm_stream *stream)
{
    struct sm_record *const record = sm_own_record(transaction->mem);
    if (sm_is_divided(transaction->mem))
        return fetch_parts(transaction, side, mode, stream);
    const enum sm_work work = sm_transitions[sm_whole_head(record)][side][mode].work;
    const bool fresh = side == SM_GPU && !sm_copy_of(record, SM_GPU);
    SM_TRY(sm_fetch(record, side, work, stream, &transaction->waits));
    if (fresh && work == SM_NOTHING && stream)
        SM_TRY(sm_transfer_enter_write(sm_copy_of(record, SM_GPU), stream));
    return SYNCED_MEM_OK;
}

/* Finds the stream for the work; NULL: an internal one. Work can't be queued on a stream that captures. */
static synced_mem_status find_stream(int device, synced_mem_stream handle, struct sm_stream **stream)
{
    *stream = NULL;
    if (handle == SM_HANDLE_OF_LIBRARY)
        return SYNCED_MEM_OK;
    SM_TRY(sm_stream_find(device, handle, stream));
    if (!*stream)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING, "the stream is capturing, and objects have to be brought to the "
                                                 "device: hold them before the capture");
    return SYNCED_MEM_OK;
}

static synced_mem_status fetch_object(struct synced_mem *mem, const struct sm_hold_call *call)
{
    struct sm_transaction transaction;
    struct sm_stream *stream = NULL;
    SM_TRY(sm_enter(&transaction, mem));
    synced_mem_status status = SYNCED_MEM_OK;
    if (call->side == SM_GPU)
        status = find_stream(sm_device(mem), call->handle, &stream);
    if (status == SYNCED_MEM_OK)
        do
            status = fetch_step(&transaction, call->side, call->mode, stream);
        while (sm_wait_again(&transaction, &status));
    if (status == SYNCED_MEM_OK && call->side == SM_CPU)
        sm_count_given(sm_own_record(mem), SM_CPU); /* the hot path may give it out: see evict_host.c */
    status = sm_leave_and_reap(&transaction, status, false);
    sm_stream_drop(stream);
    sm_evictable_refresh(mem);
    return status;
}

/* Larger ones are worth a transfer of their own, and pageable ones may be staged, which a push waits for. */
enum { MOST_OF_SMALL = 65536 };

static bool is_small_push(const struct sm_hold_call *call, const struct synced_mem *mem)
{
    return call->mode != SM_OVERWRITE && sm_size(mem) <= MOST_OF_SMALL && sm_is_dirty(mem, SM_CPU) &&
           !is_there(mem, SM_GPU);
}

/* Pushes small objects in one call, with one event for all. What it leaves out, as another thread has changed it, is
 * fetched alone. */
static synced_mem_status push_small(const struct sm_hold_call *call, struct synced_mem **failed)
{
    struct synced_mem **const small = malloc(call->count * sizeof *small);
    size_t count = 0;
    for (size_t i = 0; small && i < call->count; i++)
        if (is_small_push(call, call->mems[i]))
            small[count++] = call->mems[i];
    synced_mem_status status = SYNCED_MEM_OK;
    if (count > 1)
        status = sm_move_once(small, count, SM_GPU, false, call->handle, failed);
    for (size_t i = 0; i < count; i++)
        sm_evictable_refresh(small[i]);
    free(small);
    return status == SYNCED_MEM_ERR_INVALID_STATE ? SYNCED_MEM_OK : status;
}

/* Returns the device of the objects, of which some may have none yet. */
static int find_common_device(struct synced_mem *const *mems, size_t count)
{
    int device = SYNCED_MEM_DEVICE_CURRENT;
    for (size_t i = 0; i < count && device < 0; i++)
        device = sm_device(mems[i]);
    return device;
}

/* Reads what files alone have by one job, so that neighbours in a file are read together. Another thread may load the
 * same objects meanwhile. */
static synced_mem_status load_from_files(const struct sm_hold_call *call, struct synced_mem **failed)
{
    struct sm_load_call load = {.side = call->side};
    size_t first = 0;
    while (first < call->count && !sm_is_in_file_alone(&call->mems[first]->record))
        first++;
    if (first == call->count || call->mode == SM_OVERWRITE)
        return SYNCED_MEM_OK;
    struct synced_mem **const list = calloc(call->count - first, sizeof *list);
    if (!list)
        return SYNCED_MEM_OK; /* each is read alone */
    for (size_t i = first; i < call->count; i++)
        if (sm_is_in_file_alone(&call->mems[i]->record))
            list[load.count++] = call->mems[i];
    load.mems = list;
    synced_mem_status status = SYNCED_MEM_OK;
    if (load.count > 1 && call->side == SM_GPU)
        status = find_stream(find_common_device(call->mems, call->count), call->handle, &load.stream);
    if (status == SYNCED_MEM_OK && load.count > 1)
        status = sm_load_several(&load, failed);
    sm_stream_drop(load.stream);
    sm_evictables_refresh(list, load.count);
    free(list);
    return status;
}

static bool are_all_there(const struct sm_hold_call *call)
{
    size_t i = 0;
    while (i < call->count && is_there(call->mems[i], call->side))
        i++;
    return i == call->count;
}

static synced_mem_status fetch_all(const struct sm_hold_call *call, struct synced_mem **failed)
{
    if (are_all_there(call))
        return SYNCED_MEM_OK;
    if (call->count > 1 && call->side == SM_GPU)
        SM_TRY(push_small(call, failed));
    if (call->count > 1)
        SM_TRY(load_from_files(call, failed));
    for (size_t i = 0; i < call->count; i++) {
        struct synced_mem *const mem = call->mems[i];
        const synced_mem_status status = is_there(mem, call->side) ? SYNCED_MEM_OK : fetch_object(mem, call);
        if (status != SYNCED_MEM_OK) {
            *failed = mem;
            return status;
        }
    }
    return SYNCED_MEM_OK;
}

/* ---- Holds ---- */

/* Finds the device of the objects, which is that of the stream if they have none yet, or the host. */
static synced_mem_status find_device(const struct sm_hold_call *call, struct sm_stream **stream, int *device,
                                     struct synced_mem **failed)
{
    *stream = NULL;
    *device = SM_BUDGET_HOST;
    if (call->side == SM_CPU)
        return SYNCED_MEM_OK;
    const int of_object = find_common_device(call->mems, call->count);
    if (call->handle != SM_HANDLE_OF_LIBRARY)
        SM_TRY(sm_stream_find(of_object, call->handle, stream));
    SM_TRY(sm_device_resolve(of_object < 0 && *stream ? (*stream)->device : of_object, device));
    for (size_t i = 0; i < call->count; i++) {
        const int its = sm_device(call->mems[i]);
        *failed = call->mems[i];
        if (its >= 0 && its != *device)
            return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                           "the object is on device %d, but others of the call are on device %d", its, *device);
    }
    *failed = NULL;
    return SYNCED_MEM_OK;
}

static void trace_holds(const struct sm_hold_call *call)
{
    for (size_t i = 0; i < call->count && sm_trace_on(); i++) {
        const struct sm_subject subject = sm_subject_of(call->mems[i]);
        sm_trace_hold(&subject, sm_evictable_bytes(call->mems[i], SM_GPU), call->mode == SM_READ);
    }
}

static void count_hold(const struct sm_hold_call *call, const struct sm_reservation *reservation)
{
    if (call->side == SM_CPU)
        return;
    sm_count_up(SM_COUNT_hold_hits, reservation->hits);
    if (reservation->misses > 0)
        sm_count_up(SM_COUNT_hold_misses, reservation->misses);
    trace_holds(call);
}

/* A first refusal by the runtime, while there is no budget, ends the try. */
static synced_mem_status fetch_with_reclaim(const struct sm_hold_call *call, int device, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = fetch_all(call, failed);
    while ((status != SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY || call->side == SM_CPU ||
            sm_budget_of(device) != SM_NO_BUDGET || !sm_budget_has_candidates(device)) &&
           sm_reclaim_helps(&reclaim, status));
    return status;
}

static synced_mem_status hold_on(const struct sm_hold_call *call, int device, struct sm_stream *stream,
                                 struct synced_mem **failed)
{
    struct sm_reservation reservation;
    SM_TRY(sm_reserve(&reservation, call->mems, call->count, device, stream, false));
    const synced_mem_status status = fetch_with_reclaim(call, device, failed);
    if (status == SYNCED_MEM_OK) {
        count_hold(call, &reservation);
        return SYNCED_MEM_OK;
    }
    const struct sm_detail first = sm_detail_get();
    sm_remove_holds(call->mems, call->count, device, false);
    sm_detail_set(&first);
    return status;
}

/* The memory that the library has when the runtime refuses it more is its budget from then on. There may be more memory
 * later, so a hold that an implicit budget refuses tries without it. */
static bool change_implicit_budget(int device, bool *asked)
{
    const bool implicit = sm_budget_is_implicit(device);
    if (*asked || (!implicit && sm_budget_of(device) != SM_NO_BUDGET))
        return false;
    *asked = !implicit;
    sm_budget_set(device, implicit ? SM_NO_BUDGET : sm_budget_used(device), true);
    return true;
}

synced_mem_status sm_hold(const struct sm_hold_call *call, struct synced_mem **failed)
{
    struct sm_stream *stream;
    int device;
    bool asked = false;
    SM_TRY(check_objects(call->mems, call->count, failed));
    if (call->count > 1)
        SM_TRY(check_named_once(call->mems, call->count, failed));
    if (call->count == 0)
        return SYNCED_MEM_OK;
    synced_mem_status status = find_device(call, &stream, &device, failed);
    if (status == SYNCED_MEM_OK)
        do {
            *failed = NULL;
            status = hold_on(call, device, stream, failed);
        } while (status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY && call->side == SM_GPU &&
                 change_implicit_budget(device, &asked));
    sm_stream_drop(stream);
    return sm_reap_after(status, false);
}

/* ---- The end ---- */

/*
 * Ends the uses of the streams, unless others have held the object since: their uses may be newer than the ends that
 * the unhold shares, and end with their own unhold. The pointers are withdrawn first, so that the first access of a
 * hold that comes later waits for the lock. A stream that captures, or was lost, keeps its use; an eviction meets it
 * again.
 */
static void end_uses(struct synced_mem *mem, uint64_t unhold)
{
    const struct sm_record *const record = sm_own_record(mem);
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    if (!copy || !sm_inflight_last_user(copy))
        return;
    sm_publish_nothing(mem);
    if (sm_unhold_was_last(unhold, sm_member_of(mem, SM_GPU)) && sm_inflight_settle(copy, true, NULL) == SYNCED_MEM_OK)
        sm_close_write(record);
}

static synced_mem_status remove_all_holds(struct synced_mem *const *mems, size_t count, enum sm_side side,
                                          struct synced_mem **failed, uint64_t *unhold)
{
    size_t i = 0;
    bool is_new = true;
    sm_budget_lock();
    *unhold = sm_unhold_begin();
    while (i < count && (is_new = sm_member_mark(sm_member_of(mems[i], side), *unhold)) &&
           sm_is_held(sm_evictable_of(mems[i]), side))
        i++;
    for (size_t each = 0; i == count && each < count; each++)
        sm_unhold_remove(*unhold, sm_member_of(mems[each], side), sm_is_dirty(mems[each], side));
    sm_budget_unlock();
    if (i == count)
        return SYNCED_MEM_OK;
    if (!is_new)
        return fail_named_twice(mems[i], failed);
    *failed = mems[i];
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is not held%s", side == SM_CPU ? " on the host" : "");
}

/* Ends the uses of an object that nobody holds any more, and publishes no pointers to the side. An eviction that comes
 * first has done both. */
static void leave_object(struct synced_mem *mem, enum sm_side side, uint64_t unhold)
{
    sm_mutex_lock(&mem->lock);
    if (side == SM_GPU)
        end_uses(mem, unhold);
    sm_publish_left(mem, side);
    sm_mutex_unlock(&mem->lock);
}

/* An object that was not used since its last unhold has nothing to leave. */
static void leave_objects(struct synced_mem *const *mems, size_t count, enum sm_side side, uint64_t unhold)
{
    struct sm_shared_ends ends;
    const struct sm_detail first = sm_detail_get();
    sm_share_ends(&ends);
    sm_process_enter();
    sm_publish_meet();
    for (size_t i = 0; i < count; i++)
        if (sm_is_used(sm_evictable_of(mems[i]), side) && sm_is_unheld(mems[i], side))
            leave_object(mems[i], side, unhold);
    sm_process_leave();
    sm_share_no_ends();
    sm_detail_set(&first);
}

/* A budget that is exceeded, as it was lowered, takes effect now. */
static void keep_to_budget(const struct synced_mem *mem, enum sm_side side)
{
    const int device = sm_device(mem);
    if (side == SM_CPU && sm_host_budget_on())
        (void)sm_evict_excess(SM_BUDGET_HOST, false, NULL);
    else if (side == SM_GPU && sm_budget_on() && device >= 0 && !sm_budget_is_implicit(device))
        (void)sm_evict_excess(device, false, NULL);
}

synced_mem_status sm_unhold(struct synced_mem *const *mems, size_t count, enum sm_side side, struct synced_mem **failed)
{
    uint64_t unhold;
    SM_TRY(check_objects(mems, count, failed));
    SM_TRY(remove_all_holds(mems, count, side, failed, &unhold));
    leave_objects(mems, count, side, unhold);
    for (size_t i = 0; i < count && sm_host_budget_on(); i++)
        sm_evictable_refresh(mems[i]); /* kernels may have made the host copy stale */
    if (count > 0)
        keep_to_budget(mems[0], side);
    return SYNCED_MEM_OK;
}

/* ---- For one call ---- */

synced_mem_status sm_hold_briefly(struct synced_mem *const *mems, size_t count, enum sm_side side, int *held_on,
                                  struct synced_mem **failed)
{
    struct sm_reservation reservation;
    int device = SYNCED_MEM_DEVICE_CURRENT;
    for (size_t i = 0; i < count; i++) {
        *failed = mems[i];
        SM_TRY(sm_check_usable(mems[i]));
        if (device < 0 && sm_evictable_of(mems[i]))
            device = sm_device(mems[i]);
    }
    if (side == SM_CPU)
        device = SM_BUDGET_HOST;
    else
        SM_TRY(sm_device_resolve(device, &device));
    *held_on = device;
    return sm_reserve(&reservation, mems, count, device, NULL, true);
}

void sm_unhold_briefly(struct synced_mem *const *mems, size_t count, int held_on)
{
    sm_remove_holds(mems, count, held_on, true);
}
