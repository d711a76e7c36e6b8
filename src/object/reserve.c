/* The memory of a set of objects that is to be held. */
#include "object/reserve.h"

#include "base/hands.h"
#include "base/refusal.h"
#include "base/stats.h"
#include "copy/retired.h"
#include "copy/scratch.h"
#include "object/evict.h"
#include "object/objects.h"
#include "system/clock.h"

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

/* With the lock of the budgets. Objects without holds are candidates again. */
static void remove_counts(struct synced_mem *const *mems, size_t count, enum sm_side side)
{
    for (size_t i = 0; i < count; i++)
        if (sm_evictable_of(mems[i]))
            sm_member_unhold(sm_member_of(mems[i], side), sm_is_dirty(mems[i], side));
}

static enum sm_side side_of_budget(int device)
{
    return device == SM_BUDGET_HOST ? SM_CPU : SM_GPU;
}

void sm_remove_holds(struct synced_mem *const *mems, size_t count, int device, bool of_call)
{
    sm_budget_lock();
    remove_counts(mems, count, side_of_budget(device));
    if (of_call)
        sm_budget_end_call(device);
    sm_budget_unlock();
    sm_evictables_refresh(mems, count);
}

/* Other threads may retire copies without end, so that is waited for so often at most. */
enum { MOST_ROUNDS = 16 };

/* Other threads' calls end soon, but for those that wait for the program. They, and what they do with victims that are
 * stuck, are waited for so long at most. */
enum { PATIENCE_MS = 1000 };

/* The events that a call waits for until there is room. */
struct patience {
    uint64_t passed; /* sm_hands_passed() before the budget was seen not to have room */
    unsigned rounds; /* in which other threads had memory that was not free yet */
    sm_deadline calls_until;
    sm_deadline stuck_until;
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

/* Other threads may make room by victims that they have kept for later, or give these back. */
static bool wait_for_stuck(struct sm_evictions *evictions, int device, struct patience *patience)
{
    sm_evict_end(evictions);
    if (patience->stuck_until == 0)
        patience->stuck_until = sm_deadline_after(PATIENCE_MS);
    return sm_budget_wait_for_stuck(device, patience->stuck_until);
}

static synced_mem_status fail_to_make_room(int device)
{
    return sm_fail(device == SM_BUDGET_HOST ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                   "the copies that would have to go to make room are out as tensors, or held by now");
}

/* Evicts the reservation's victims, and others if these were not enough, as long as there are any. Then those go that
 * are at work, and those whose locks other threads had. Work that has kept memory from being freed is waited for then, as
 * retired memory counts as the library's, and at last the victims that other threads keep. */
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
                  !wait_for_room(reservation, &patience) && !wait_for_stuck(&evictions, reservation->device, &patience);
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

static bool reserve_all(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count, int device,
                        bool for_call)
{
    const enum sm_side side = side_of_budget(device);
    sm_budget_lock();
    sm_reservation_begin(reservation, device);
    for (size_t i = 0; i < count; i++)
        if (sm_evictable_of(mems[i]))
            sm_reservation_add(reservation, sm_member_of(mems[i], side), count_bytes(mems[i], device));
    const bool fits = sm_reservation_fit(reservation);
    const bool claims = reservation->needed > 0;
    for (size_t i = 0; i < count && fits; i++)
        if (sm_evictable_of(mems[i]))
            sm_reservation_claim(reservation, sm_member_of(mems[i], side), claims ? count_bytes(mems[i], device) : 0);
    for (size_t i = 0; i < count && !fits; i++)
        if (sm_evictable_of(mems[i]))
            sm_reservation_drop(sm_member_of(mems[i], side), sm_is_dirty(mems[i], side));
    if (fits && for_call)
        sm_budget_begin_call(device);
    sm_budget_unlock();
    if (!fits)
        sm_evictables_refresh(mems, count);
    return fits;
}

/* The thread holds nothing, so others that wait for calls do not wait for it. */
static bool wait_for_calls(const struct sm_reservation *reservation, struct patience *patience)
{
    if (patience->calls_until == 0)
        patience->calls_until = sm_deadline_after(PATIENCE_MS);
    return sm_reservation_wait_for_calls(reservation, patience->calls_until);
}

/* Claims what the objects need. What other threads evict just now, retired memory, and what others' calls hold, counts
 * until it is gone or the calls have ended, so all are waited for before the call fails. */
static synced_mem_status reserve_or_wait(struct sm_reservation *reservation, struct synced_mem *const *mems,
                                         size_t count, int device, bool for_call)
{
    struct patience patience = {.passed = sm_hands_passed()};
    while (!reserve_all(reservation, mems, count, device, for_call)) {
        if (reservation->set > reservation->budget ||
            (!wait_for_room(reservation, &patience) && !wait_for_calls(reservation, &patience)))
            return fail_too_large(reservation, mems, count);
        patience.passed = sm_hands_passed();
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_reserve(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count,
                             int device, struct sm_stream *stream, bool for_call)
{
    synced_mem_status status = reserve_or_wait(reservation, mems, count, device, for_call);
    if (status != SYNCED_MEM_OK)
        return status;
    if (reservation->is_short) {
        const uint64_t since = sm_now();
        status = make_room(reservation, mems, count, stream);
        sm_count_up(SM_COUNT_hold_nanoseconds, sm_now() - since);
    }
    if (status != SYNCED_MEM_OK) {
        const struct sm_detail first = sm_detail_get();
        sm_remove_holds(mems, count, device, for_call);
        sm_detail_set(&first);
    }
    return status;
}
