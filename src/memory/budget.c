/* Budgets. */
#include "memory/budget.h"

#include "base/process.h"
#include "base/stats.h"
#include "base/text.h"
#include "memory/accounting.h"

#include <assert.h>

atomic_bool sm_budget_flag;
atomic_bool sm_host_budget_flag;

/* Guarded by the lock. A limit of 0 is none, so that zeros are a device without a budget. */
static struct budget {
    uint64_t limit; /* plus one; 0: none */
    bool implicit;
    uint64_t claimed;
    struct sm_policy policy;
    unsigned leaving; /* victims that are not stuck */
    unsigned stuck;
    unsigned calls; /* that hold members */
    uint64_t candidates;
    uint64_t candidate_bytes;
} budgets[SM_BUDGETS];

static struct sm_lock guard = SM_LOCK_INITIALIZER;
static struct sm_events departures; /* victims that have left, or stay */
static bool has_scratch;
static uint64_t host_serial; /* of the last change of the scratch file that is known */
static uint64_t last_serial;
static unsigned generation; /* of the process whose victims and calls are counted */

/* A thread that ends a call counts it and then reads whether any thread waits. A waiting thread announces itself and
 * then reads the count. Both are sequentially consistent, so one of the two sees the other. */
static atomic_uint calls_ended;
static atomic_uint waiting_for_calls;
static _Thread_local unsigned own_calls;

/* Threads of the parent process that evicted, or were in calls, are so no more in a forked child. */
static void forget_work_of_parent(void)
{
    for (int device = 0; device < SM_BUDGETS; device++)
        budgets[device].leaving = budgets[device].stuck = budgets[device].calls = 0;
    generation = sm_process_generation();
}

void sm_budget_lock(void)
{
    sm_lock(&guard);
    if (generation != sm_process_generation())
        forget_work_of_parent();
}

void sm_budget_unlock(void)
{
    sm_unlock(&guard);
}

/* ---- Numbers: with the lock ---- */

static uint64_t get_limit(const struct budget *budget)
{
    return budget->limit > 0 ? budget->limit - 1 : SM_NO_BUDGET;
}

static uint64_t count_used(int device)
{
    if (device == SM_BUDGET_HOST)
        return sm_host_in_use() + budgets[device].claimed;
    return sm_gpu_bytes(device) + budgets[device].claimed;
}

static uint64_t count_excess(int device, uint64_t more)
{
    const uint64_t limit = get_limit(&budgets[device]);
    const uint64_t used = count_used(device) + more;
    return used > limit ? used - limit : 0;
}

/* ---- Budgets ---- */

static void note_whether_any(void)
{
    bool any = false;
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        any = any || budgets[device].limit > 0;
    atomic_store_explicit(&sm_budget_flag, any, memory_order_relaxed);
    atomic_store_explicit(&sm_host_budget_flag, budgets[SM_BUDGET_HOST].limit > 0, memory_order_relaxed);
}

void sm_budget_set(int device, uint64_t bytes, bool implicit)
{
    struct budget *const budget = &budgets[device];
    sm_budget_lock();
    if (!implicit || budget->limit == 0 || budget->implicit) {
        budget->limit = bytes == SM_NO_BUDGET ? 0 : bytes + 1;
        budget->implicit = implicit;
        note_whether_any();
    }
    sm_unlock(&guard);
}

uint64_t sm_budget_set_on_host(uint64_t bytes, bool scratch, uint64_t serial)
{
    struct budget *const budget = &budgets[SM_BUDGET_HOST];
    sm_budget_lock();
    const uint64_t before = get_limit(budget);
    if (serial > host_serial) {
        host_serial = serial;
        has_scratch = scratch;
        budget->limit = bytes == SM_NO_BUDGET ? 0 : bytes + 1;
        budget->policy.clean_first = true;
        note_whether_any();
    }
    sm_unlock(&guard);
    return before;
}

uint64_t sm_budget_of(int device)
{
    sm_budget_lock();
    const uint64_t limit = get_limit(&budgets[device]);
    sm_unlock(&guard);
    return limit;
}

bool sm_budget_is_implicit(int device)
{
    sm_budget_lock();
    const bool implicit = budgets[device].limit > 0 && budgets[device].implicit;
    sm_unlock(&guard);
    return implicit;
}

uint64_t sm_budget_excess(int device)
{
    sm_budget_lock();
    const uint64_t excess = count_excess(device, 0);
    sm_unlock(&guard);
    return excess;
}

uint64_t sm_budget_used(int device)
{
    sm_budget_lock();
    const uint64_t used = count_used(device);
    sm_unlock(&guard);
    return used;
}

void sm_budget_reset(void)
{
    sm_budget_lock();
    for (int device = 0; device < SM_BUDGETS; device++)
        budgets[device] = (struct budget){.limit = 0};
    has_scratch = false;
    note_whether_any();
    sm_unlock(&guard);
}

/* ---- Claims: with the lock ---- */

static void end_claim(struct sm_member *member)
{
    if (member->claimed > 0)
        budgets[member->claimed_on].claimed -= member->claimed;
    member->claimed = 0;
}

/* Nobody holds the member, or obtains its memory. */
static void end_claim_if_unused(struct sm_member *member)
{
    if (!member->is_obtaining && atomic_load_explicit(&member->holds, memory_order_relaxed) == 0)
        end_claim(member);
}

static void set_claim(struct sm_member *member, int device, uint64_t bytes)
{
    end_claim(member);
    member->claimed = bytes;
    member->claimed_on = device;
    budgets[device].claimed += bytes;
}

/* Returns what a claim of the member lacks of the bytes. */
static uint64_t count_unclaimed(const struct sm_member *member, int device, uint64_t bytes)
{
    const uint64_t claimed = member && member->claimed_on == device ? member->claimed : 0;
    return bytes > claimed ? bytes - claimed : 0;
}

static void add_claim(struct sm_member *member, int device, uint64_t bytes)
{
    if (!member) {
        budgets[device].claimed += bytes;
        return;
    }
    if (count_unclaimed(member, device, bytes) > 0)
        set_claim(member, device, bytes);
    member->is_obtaining = true;
}

/* The member is resident at once. A candidate has other memory, whose bytes are counted with it. */
static void fulfil_claim(struct sm_member *member, int device, uint64_t bytes)
{
    if (!member) {
        budgets[device].claimed -= bytes;
        return;
    }
    end_claim(member);
    member->is_obtaining = false;
    if (member->bytes > 0)
        return;
    member->bytes = bytes;
    member->device = device;
}

/* ---- Memory that is obtained ---- */

static synced_mem_status fail_host_claim(uint64_t bytes, uint64_t limit, uint64_t used, bool scratch)
{
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
                   "%llu bytes more would exceed the budget of %llu bytes for host copies, of which %llu are used%s",
                   (unsigned long long)bytes, (unsigned long long)limit, (unsigned long long)used,
                   scratch ? "" : "; there is no scratch file, so contents that only the host has stay");
}

synced_mem_status sm_budget_claim(int device, uint64_t bytes, struct sm_member *member)
{
    struct budget *const budget = &budgets[device];
    sm_budget_lock();
    const uint64_t more = count_unclaimed(member, device, bytes);
    const bool fits = more == 0 || budget->implicit || count_excess(device, more) == 0;
    if (fits)
        add_claim(member, device, bytes);
    const uint64_t limit = get_limit(budget);
    const uint64_t used = count_used(device);
    const bool scratch = has_scratch;
    sm_unlock(&guard);
    if (fits)
        return SYNCED_MEM_OK;
    if (device == SM_BUDGET_HOST)
        return fail_host_claim(bytes, limit, used, scratch);
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                   "%llu bytes more would exceed the budget of %llu bytes on device %d, of which %llu are used",
                   (unsigned long long)bytes, (unsigned long long)limit, device, (unsigned long long)used);
}

void sm_budget_obtained(int device, uint64_t bytes, struct sm_member *member)
{
    sm_budget_lock();
    sm_gpu_obtained(device, (size_t)bytes);
    fulfil_claim(member, device, bytes);
    sm_unlock(&guard);
}

void sm_budget_obtained_on_host(uint64_t bytes, bool pinned, struct sm_member *member)
{
    sm_budget_lock();
    sm_host_obtained((size_t)bytes, pinned);
    fulfil_claim(member, SM_BUDGET_HOST, bytes);
    sm_unlock(&guard);
}

void sm_budget_unclaim(int device, uint64_t bytes, struct sm_member *member)
{
    sm_budget_lock();
    if (member) {
        member->is_obtaining = false;
        end_claim_if_unused(member);
    } else {
        budgets[device].claimed -= bytes;
    }
    sm_unlock(&guard);
}

void sm_budget_reused(int device, uint64_t bytes, struct sm_member *member)
{
    sm_budget_lock();
    sm_gpu_reused(device, (size_t)bytes);
    if (member)
        fulfil_claim(member, device, bytes);
    sm_unlock(&guard);
}

/* ---- Members ---- */

static bool is_unmovable(const struct sm_member *member, bool dirty)
{
    return member->is_of_host && dirty && !has_scratch;
}

static void offer_member(struct sm_member *member, bool dirty)
{
    struct budget *const budget = &budgets[member->device];
    if (member->bytes == 0 || member->policy.is_candidate || is_unmovable(member, dirty))
        return;
    sm_policy_offer(&budget->policy, &member->policy, dirty);
    budget->candidates++;
    budget->candidate_bytes += member->bytes;
}

static void uncount_candidate(const struct sm_member *member)
{
    struct budget *const budget = &budgets[member->device];
    budget->candidates--;
    budget->candidate_bytes -= member->bytes;
}

static void withdraw_member(struct sm_member *member)
{
    if (!member->policy.is_candidate)
        return;
    uncount_candidate(member);
    sm_policy_withdraw(&budgets[member->device].policy, &member->policy);
}

/* Returns the member that the policy has taken, as a victim; NULL: none. */
static struct sm_member *make_victim(struct sm_policy_member *taken)
{
    struct sm_member *const victim = (struct sm_member *)(void *)taken;
    if (!victim)
        return NULL;
    uncount_candidate(victim);
    victim->is_stuck = false; /* it may have been in the parent process */
    victim->generation = generation;
    atomic_store_explicit(&victim->is_leaving, true, memory_order_release);
    budgets[victim->device].leaving++;
    return victim;
}

/* Takes the candidate that goes first. Its bytes are subtracted from *excess. */
static struct sm_member *take_victim(int device, uint64_t *excess)
{
    const bool is_off = device == SM_BUDGET_HOST && budgets[device].limit == 0; /* host pointers need no hold then */
    struct sm_member *const victim = is_off ? NULL : make_victim(sm_policy_take(&budgets[device].policy));
    if (victim)
        *excess -= victim->bytes < *excess ? victim->bytes : *excess;
    return victim;
}

static struct sm_member *choose_victims(int device, uint64_t excess)
{
    struct sm_member *first = NULL;
    struct sm_member **link = &first;
    while (excess > 0) {
        struct sm_member *const victim = take_victim(device, &excess);
        if (!victim)
            break;
        victim->next = NULL;
        *link = victim;
        link = &victim->next;
    }
    return first;
}

struct sm_member *sm_budget_choose(int device, uint64_t bytes)
{
    sm_budget_lock();
    struct sm_member *const victims = choose_victims(device, bytes);
    sm_unlock(&guard);
    return victims;
}

struct sm_member *sm_budget_choose_instead(const struct sm_member *victim)
{
    sm_budget_lock();
    struct sm_policy *const policy = &budgets[victim->device].policy;
    struct sm_member *const other = make_victim(sm_policy_take_instead(policy, &victim->policy));
    sm_unlock(&guard);
    return other;
}

bool sm_budget_has_candidates(int device)
{
    sm_budget_lock();
    const bool any = budgets[device].candidates > 0;
    sm_unlock(&guard);
    return any;
}

static bool is_leaving(const struct sm_member *member)
{
    return atomic_load_explicit(&member->is_leaving, memory_order_acquire) && member->generation == generation;
}

static bool is_free_to_go(const struct sm_member *member)
{
    return atomic_load_explicit(&member->holds, memory_order_relaxed) == 0 && !is_leaving(member);
}

void sm_member_note(struct sm_member *member, int device, uint64_t bytes, bool dirty)
{
    sm_budget_lock();
    withdraw_member(member);
    member->bytes = bytes;
    if (bytes > 0)
        member->device = device;
    if (bytes > 0 && !is_leaving(member))
        end_claim(member);
    if (is_free_to_go(member))
        offer_member(member, dirty);
    sm_unlock(&guard);
}

/* Other threads read the count without the lock. */
static void add_holds(struct sm_member *member, unsigned change)
{
    const unsigned holds = atomic_load_explicit(&member->holds, memory_order_relaxed);
    atomic_store_explicit(&member->holds, holds + change, memory_order_relaxed);
}

void sm_member_unhold(struct sm_member *member, bool dirty)
{
    assert(atomic_load_explicit(&member->holds, memory_order_relaxed) > 0);
    add_holds(member, -1U);
    end_claim_if_unused(member);
    if (is_free_to_go(member))
        offer_member(member, dirty);
}

void sm_budget_begin_call(int device)
{
    budgets[device].calls++;
    own_calls++;
}

void sm_budget_end_call(int device)
{
    budgets[device].calls -= budgets[device].calls > 0;
    own_calls--;
    atomic_fetch_add(&calls_ended, 1);
    if (atomic_load(&waiting_for_calls) > 0)
        sm_events_add(&departures);
}

uint64_t sm_unhold_begin(void)
{
    return ++last_serial;
}

void sm_unhold_remove(uint64_t unhold, struct sm_member *member, bool dirty)
{
    sm_member_unhold(member, dirty);
    member->unheld = unhold;
}

bool sm_unhold_was_last(uint64_t unhold, const struct sm_member *member)
{
    sm_budget_lock();
    const bool was_last = member->unheld == unhold && atomic_load_explicit(&member->holds, memory_order_relaxed) == 0;
    sm_unlock(&guard);
    return was_last;
}

/* Uncounts a victim that has left, or was stuck. */
static void uncount_victim(struct sm_member *member)
{
    struct budget *const budget = &budgets[member->device];
    if (is_leaving(member))
        *(member->is_stuck ? &budget->stuck : &budget->leaving) -= 1;
    member->is_stuck = false;
}

void sm_member_stick(struct sm_member *member)
{
    sm_budget_lock();
    uncount_victim(member);
    member->is_stuck = is_leaving(member);
    budgets[member->device].stuck += member->is_stuck;
    sm_unlock(&guard);
    sm_events_add(&departures);
}

bool sm_budget_wait(int device)
{
    const unsigned seen = sm_events_seen(&departures);
    sm_budget_lock();
    const bool any = budgets[device].leaving > 0;
    sm_unlock(&guard);
    if (any)
        sm_events_wait(&departures, seen);
    return any;
}

bool sm_budget_wait_for_stuck(int device, sm_deadline until)
{
    const unsigned seen = sm_events_seen(&departures);
    const uint64_t left = sm_deadline_left(until);
    sm_budget_lock();
    const bool waits = budgets[device].stuck > 0 && left > 0;
    sm_unlock(&guard);
    if (waits)
        sm_events_wait_for(&departures, seen, left);
    return waits;
}

void sm_member_left(struct sm_member *member, bool dirty)
{
    sm_budget_lock();
    uncount_victim(member);
    if (member->bytes > 0)
        end_claim(member);
    atomic_store_explicit(&member->is_leaving, false, memory_order_release);
    if (is_free_to_go(member))
        offer_member(member, dirty);
    sm_unlock(&guard);
    sm_events_add(&departures);
}

void sm_member_end(struct sm_member *member)
{
    for (;;) {
        const unsigned seen = sm_events_seen(&departures);
        sm_budget_lock();
        const bool leaving = is_leaving(member);
        if (!leaving) {
            withdraw_member(member);
            sm_policy_forget(&member->policy);
        }
        sm_unlock(&guard);
        if (!leaving)
            return;
        sm_events_wait(&departures, seen);
    }
}

/* ---- Reservations ---- */

void sm_reservation_begin(struct sm_reservation *reservation, int device)
{
    *reservation = (struct sm_reservation){.device = device, .serial = sm_budget_new_serial()};
}

uint64_t sm_budget_new_serial(void)
{
    return ++last_serial;
}

bool sm_member_mark(struct sm_member *member, uint64_t serial)
{
    const bool is_new = member->counted != serial;
    member->counted = serial;
    return is_new;
}

static bool is_there(const struct sm_member *member)
{
    return member->bytes > 0 && !is_leaving(member);
}

/* Returns what the reservation claims for the member. */
static uint64_t count_claim(const struct sm_member *member, uint64_t bytes)
{
    return is_there(member) || member->claimed > 0 ? 0 : bytes;
}

void sm_reservation_add(struct sm_reservation *reservation, struct sm_member *member, uint64_t bytes)
{
    const bool was_there = is_there(member);
    withdraw_member(member);
    if (member->counted == reservation->serial)
        return;
    member->counted = reservation->serial;
    reservation->set += bytes;
    reservation->needed += was_there ? 0 : bytes;
    reservation->added += count_claim(member, bytes);
    *(was_there ? &reservation->hits : &reservation->misses) += 1;
}

void sm_reservation_drop(struct sm_member *member, bool dirty)
{
    if (is_free_to_go(member))
        offer_member(member, dirty);
}

/* Between this and a wait victims may leave, so what the wait is for is noted now. */
static bool note_misfit(struct sm_reservation *reservation, bool others_leave)
{
    reservation->others_leave = others_leave;
    reservation->any_retired = sm_count_of(SM_COUNT_retired) > 0;
    reservation->others_hold = budgets[reservation->device].calls > 0 && own_calls == 0;
    reservation->ended = atomic_load(&calls_ended);
    reservation->seen = sm_events_seen(&departures);
    return false;
}

bool sm_reservation_wait(const struct sm_reservation *reservation)
{
    if (reservation->others_leave)
        sm_events_wait(&departures, reservation->seen);
    return reservation->others_leave;
}

bool sm_reservation_wait_for_calls(const struct sm_reservation *reservation, sm_deadline until)
{
    const uint64_t left = sm_deadline_left(until);
    if (!reservation->others_hold || left == 0)
        return false;
    atomic_fetch_add(&waiting_for_calls, 1);
    const unsigned seen = sm_events_seen(&departures);
    if (atomic_load(&calls_ended) == reservation->ended)
        sm_events_wait_for(&departures, seen, left);
    atomic_fetch_sub(&waiting_for_calls, 1);
    return true;
}

static void choose_for(struct sm_reservation *reservation, uint64_t excess)
{
    const uint64_t spares = reservation->device == SM_BUDGET_HOST ? 0 : sm_gpu_cached(reservation->device);
    reservation->is_short = excess > 0;
    reservation->frees_spares = excess > 0 && spares > 0;
    reservation->victims = choose_victims(reservation->device, excess > spares ? excess - spares : 0);
}

bool sm_reservation_fit(struct sm_reservation *reservation)
{
    const struct budget *const budget = &budgets[reservation->device];
    reservation->budget = get_limit(budget);
    if (budget->limit == 0 || reservation->needed == 0)
        return true;
    const uint64_t spares = reservation->device == SM_BUDGET_HOST ? 0 : sm_gpu_cached(reservation->device);
    const uint64_t excess = count_excess(reservation->device, reservation->added);
    if (excess > spares + budget->candidate_bytes)
        return note_misfit(reservation, budget->leaving > 0 || budget->stuck > 0);
    choose_for(reservation, excess);
    return true;
}

void sm_reservation_claim(const struct sm_reservation *reservation, struct sm_member *member, uint64_t bytes)
{
    const int device = member->bytes > 0 ? member->device : reservation->device;
    add_holds(member, 1);
    if (member->counted != reservation->serial)
        return;
    member->counted = 0;
    sm_policy_use(&budgets[device].policy, &member->policy);
    if (reservation->budget != SM_NO_BUDGET && count_claim(member, bytes) > 0)
        set_claim(member, reservation->device, bytes);
}

bool sm_reservation_fit_more(struct sm_reservation *reservation, bool is_needed)
{
    choose_for(reservation, is_needed ? count_excess(reservation->device, 0) : 0);
    return !reservation->is_short || reservation->victims || reservation->frees_spares ||
           note_misfit(reservation, budgets[reservation->device].leaving > 0);
}
