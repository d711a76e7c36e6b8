/* Holds. */
#include "object/hold.h"

#include "base/hands.h"
#include "base/process.h"
#include "base/refusal.h"
#include "base/stats.h"
#include "copy/retired.h"
#include "copy/scratch.h"
#include "object/evict.h"
#include "object/fetch.h"
#include "object/load_several.h"
#include "object/objects.h"
#include "object/publish.h"
#include "object/push_pull.h"
#include "object/reclaim.h"
#include "object/span.h"
#include "stream/shared_ends.h"
#include "system/clock.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Checks ---- */

static synced_mem_status check_named_once(struct synced_mem *const *mems, size_t count, struct synced_mem **failed)
{
    size_t i = 0;
    sm_budget_lock();
    const uint64_t serial = sm_budget_new_serial();
    while (i < count && sm_member_mark(sm_member_of(mems[i], SM_GPU), serial))
        i++;
    sm_budget_unlock();
    if (i == count)
        return SYNCED_MEM_OK;
    *failed = mems[i];
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "an object is named more than once");
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
    return count > 1 ? check_named_once(mems, count, failed) : SYNCED_MEM_OK;
}

/* ---- Memory ---- */

static synced_mem_status fail_too_large_for_host(const struct sm_reservation *reservation, const char *largest)
{
    const unsigned long long budget = reservation->budget;
    (void)sm_refusal_note(SYNCED_MEM_OK, -1, 0);
    if (reservation->set > reservation->budget)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
                       "the objects have %llu bytes, but the budget for host copies is %llu; the largest are %s",
                       (unsigned long long)reservation->set, budget, largest);
    return sm_fail(
        SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
        "the objects need %llu bytes more on the host, but of the budget of %llu for host copies too much is "
        "held, or can't go%s; the largest are %s",
        (unsigned long long)reservation->needed, budget,
        sm_scratch_is_set() ? "" : ", as there is no scratch file for what only the host has", largest);
}

static synced_mem_status fail_too_large(const struct sm_reservation *reservation, struct synced_mem *const *mems,
                                        size_t count)
{
    const struct sm_objects_text largest = sm_objects_largest_of(mems, count);
    const unsigned long long set = reservation->set;
    const unsigned long long budget = reservation->budget;
    if (reservation->device == SM_BUDGET_HOST)
        return fail_too_large_for_host(reservation, largest.text);
    (void)sm_refusal_note(SYNCED_MEM_OK, reservation->device, 0);
    if (reservation->set > reservation->budget)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                       "the objects have %llu bytes, but the budget of device %d is %llu; the largest are %s", set,
                       reservation->device, budget, largest.text);
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                   "the objects need %llu bytes more on device %d, but of its budget of %llu too much is held, or "
                   "is not evictable; the largest are %s",
                   (unsigned long long)reservation->needed, reservation->device, budget, largest.text);
}

/* Returns whether the side alone has the contents, and no file is about to, as far as is known without the lock. */
static bool is_dirty(const struct synced_mem *mem, enum sm_side side)
{
    return sm_raw_head(&mem->record) == sm_bit(side);
}

/* With the lock of the budgets. Objects without holds are candidates again. */
static void remove_counts(struct synced_mem *const *mems, size_t count, enum sm_side side)
{
    for (size_t i = 0; i < count; i++)
        if (sm_evictable_of(mems[i]))
            sm_member_unhold(sm_member_of(mems[i], side), is_dirty(mems[i], side));
}

static void refresh_all(struct synced_mem *const *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sm_evictable_refresh(mems[i]);
}

/* Removes the holds that a call has added. The call may have given an object its memory, though another thread holds it
 * too. */
static void remove_holds(struct synced_mem *const *mems, size_t count, enum sm_side side)
{
    sm_budget_lock();
    remove_counts(mems, count, side);
    sm_budget_unlock();
    refresh_all(mems, count);
}

static enum sm_side side_of_budget(int device)
{
    return device == SM_BUDGET_HOST ? SM_CPU : SM_GPU;
}

/* Other threads may retire copies without end, so that is waited for so often at most. */
enum { MOST_ROUNDS = 16 };

/* The events that a call waits for until there is room. */
struct patience {
    uint64_t passed; /* sm_hands_passed() before the budget was seen not to have room */
    unsigned rounds; /* in which other threads had memory that was not free yet */
};

/* Waits for what may make room, after a reservation did not fit. Returns false if there is nothing more. */
static bool wait_for_room(const struct sm_reservation *reservation, struct patience *patience)
{
    const bool others_left = sm_reservation_wait(reservation);
    const bool is_patient = patience->rounds < MOST_ROUNDS;
    if (is_patient && reservation->any_retired)
        sm_retired_wait_for_own();
    const bool passed = is_patient && sm_hands_wait(patience->passed); /* others may free what was not found */
    const bool any_freed = is_patient && (reservation->any_retired || passed);
    patience->rounds += any_freed;
    return others_left || any_freed;
}

/* Returns whether any of the objects has a claim on the device. With the lock of the budgets. */
static bool is_any_claimed(struct synced_mem *const *mems, size_t count, int device)
{
    size_t i = 0;
    while (i < count && !(sm_evictable_of(mems[i]) && sm_member_of(mems[i], side_of_budget(device))->claimed > 0))
        i++;
    return i < count;
}

/* Chooses more victims. Returns false if there are none, though some are needed. */
static bool choose_more(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count)
{
    sm_budget_lock();
    const bool more = sm_reservation_fit_more(reservation, is_any_claimed(mems, count, reservation->device));
    sm_budget_unlock();
    return more;
}

static synced_mem_status fail_to_make_room(int device)
{
    return sm_fail(device == SM_BUDGET_HOST ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                   "the copies that would have to go to make room are out as tensors, or held by now");
}

/* Evicts the reservation's victims, and others if these were not enough, as long as there are any. Then those go that
 * are at work, and those whose locks other threads had. Work that has kept memory from being freed is waited for at
 * last: retired memory counts as the library's until then. */
static synced_mem_status make_room(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count,
                                   struct sm_stream *stream)
{
    struct sm_evictions evictions = {.stream = stream, .passes_over = true};
    struct patience patience = {.rounds = 0};
    bool is_over = false;
    while (reservation->is_short && !is_over) {
        if (reservation->frees_spares)
            (void)sm_copy_free_cached(reservation->device);
        sm_evict(&evictions, reservation->victims);
        patience.passed = sm_hands_passed();
        is_over = !choose_more(reservation, mems, count) && !sm_evict_late(&evictions) && !sm_evict_busy(&evictions) &&
                  !wait_for_room(reservation, &patience);
    }
    sm_evict_end(&evictions);
    if (!is_over)
        return SYNCED_MEM_OK;
    return evictions.first.status != SYNCED_MEM_OK ? sm_outcome_end(&evictions.first)
                                                   : fail_to_make_room(reservation->device);
}

/* Returns the bytes to claim for an object at most. A copy may be on another device than the first: its memory is
 * claimed when it is obtained. */
static uint64_t count_bytes(const struct synced_mem *mem, int device)
{
    const enum sm_side side = side_of_budget(device);
    const bool is_elsewhere = side == SM_GPU && sm_device(mem) >= 0 && sm_device(mem) != device;
    return is_elsewhere ? 0 : sm_evictable_bytes(mem, side);
}

static bool reserve_all(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count, int device)
{
    const enum sm_side side = side_of_budget(device);
    sm_budget_lock();
    sm_reservation_begin(reservation, device);
    for (size_t i = 0; i < count; i++)
        if (sm_evictable_of(mems[i]))
            sm_reservation_add(reservation, sm_member_of(mems[i], side), count_bytes(mems[i], device));
    const bool fits = sm_reservation_fit(reservation);
    for (size_t i = 0; i < count && fits; i++)
        if (sm_evictable_of(mems[i]))
            sm_reservation_claim(reservation, sm_member_of(mems[i], side), count_bytes(mems[i], device));
    if (!fits)
        remove_counts(mems, count, side);
    sm_budget_unlock();
    if (!fits)
        refresh_all(mems, count);
    return fits;
}

/* Claims what the objects need. What other threads evict just now, and retired memory, counts until it is gone, so both
 * are waited for before the call fails. */
static synced_mem_status reserve_or_wait(struct sm_reservation *reservation, struct synced_mem *const *mems,
                                         size_t count, int device)
{
    struct patience patience = {.passed = sm_hands_passed()};
    while (!reserve_all(reservation, mems, count, device)) {
        if (reservation->set > reservation->budget || !wait_for_room(reservation, &patience))
            return fail_too_large(reservation, mems, count);
        patience.passed = sm_hands_passed();
    }
    return SYNCED_MEM_OK;
}

/* Holds the objects and claims their memory. On failure nothing is held. */
static synced_mem_status reserve(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count,
                                 int device, struct sm_stream *stream)
{
    synced_mem_status status = reserve_or_wait(reservation, mems, count, device);
    if (status != SYNCED_MEM_OK)
        return status;
    if (reservation->is_short) {
        const uint64_t since = sm_now();
        status = make_room(reservation, mems, count, stream);
        sm_count_up(SM_COUNT_hold_nanoseconds, sm_now() - since);
    }
    if (status != SYNCED_MEM_OK) {
        const struct sm_detail first = sm_detail_get();
        remove_holds(mems, count, side_of_budget(device));
        sm_detail_set(&first);
    }
    return status;
}

/* ---- Contents ---- */

/* Returns whether the object needs nothing. While it is held and not leaving, nobody takes its copy away. */
static bool is_there(const struct synced_mem *mem, enum sm_side side)
{
    return !atomic_load_explicit(&sm_member_of(mem, side)->is_leaving, memory_order_acquire) &&
           (sm_head(&mem->record) & sm_bit(side));
}

/* New memory without contents is entered as the stream's write, so that other streams come after its allocation. */
static synced_mem_status fetch_step(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode,
                                    struct sm_stream *stream)
{
    struct sm_record *const record = sm_own_record(transaction->mem);
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
    return call->mode != SM_OVERWRITE && sm_size(mem) <= MOST_OF_SMALL && is_dirty(mem, SM_CPU) &&
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
    refresh_all(list, load.count);
    free(list);
    return status;
}

static synced_mem_status fetch_all(const struct sm_hold_call *call, struct synced_mem **failed)
{
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
    SM_TRY(reserve(&reservation, call->mems, call->count, device, stream));
    const synced_mem_status status = fetch_with_reclaim(call, device, failed);
    if (status == SYNCED_MEM_OK) {
        count_hold(call, &reservation);
        return SYNCED_MEM_OK;
    }
    const struct sm_detail first = sm_detail_get();
    remove_holds(call->mems, call->count, call->side);
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

/* Returns whether a stream's use of the copy has yet to end. */
static bool has_open_use(const struct sm_copy *copy)
{
    return copy && (copy->writer || sm_inflight_last_reader(copy));
}

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
    if (!has_open_use(copy))
        return;
    sm_publish_nothing(mem);
    if (sm_unhold_was_last(unhold, sm_member_of(mem, SM_GPU)) && sm_inflight_settle(copy, true, NULL) == SYNCED_MEM_OK)
        sm_close_write(record);
}

static synced_mem_status remove_all_holds(struct synced_mem *const *mems, size_t count, enum sm_side side,
                                          struct synced_mem **failed, uint64_t *unhold)
{
    size_t i = 0;
    sm_budget_lock();
    *unhold = sm_unhold_begin();
    while (i < count && sm_is_held(sm_evictable_of(mems[i]), side))
        i++;
    for (size_t each = 0; i == count && each < count; each++)
        sm_unhold_remove(*unhold, sm_member_of(mems[each], side), is_dirty(mems[each], side));
    sm_budget_unlock();
    if (i == count)
        return SYNCED_MEM_OK;
    *failed = mems[i];
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is not held%s", side == SM_CPU ? " on the host" : "");
}

/* Publishes no pointers to the side any more. An eviction that comes first has done both. */
static void leave_objects(struct synced_mem *const *mems, size_t count, enum sm_side side, uint64_t unhold)
{
    struct sm_shared_ends ends;
    const struct sm_detail first = sm_detail_get();
    sm_share_ends(&ends);
    sm_process_enter();
    for (size_t i = 0; i < count; i++) {
        if (!sm_is_unheld(mems[i], side))
            continue;
        sm_mutex_lock(&mems[i]->lock);
        const bool publishes = sm_is_published(mems[i], side) || has_open_use(sm_copy_of(sm_own_record(mems[i]), side));
        if (side == SM_GPU)
            end_uses(mems[i], unhold);
        if (publishes)
            sm_publish(sm_own_record(mems[i]));
        sm_mutex_unlock(&mems[i]->lock);
    }
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

synced_mem_status sm_hold_briefly(struct synced_mem *const *mems, size_t count, enum sm_side side,
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
    return reserve(&reservation, mems, count, device, NULL);
}

void sm_unhold_briefly(struct synced_mem *const *mems, size_t count, enum sm_side side)
{
    remove_holds(mems, count, side);
}
