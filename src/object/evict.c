/* Eviction. */
#include "object/evict.h"

#include "base/process.h"
#include "base/refusal.h"
#include "base/stats.h"
#include "copy/retired.h"
#include "object/departure.h"
#include "object/evict_host.h"
#include "object/exports.h"
#include "object/fetch.h"
#include "object/objects.h"
#include "object/span.h"
#include "object/transaction.h"

#include <assert.h>

/* An eviction. */
struct departure {
    struct synced_mem *mem;
    enum sm_departure_lock how;
    struct sm_copy *copy; /* what has left the object */
    bool was_dirty;
    bool was_busy; /* another thread had the lock */
    bool not_late; /* it stays if it is at work */
    bool was_late; /* it does */
};

static bool is_dirty(const struct sm_record *record)
{
    return sm_whole_head(record) == sm_bit(SM_GPU);
}

/* Returns whether the object may lose its device copy now. */
static bool may_go(const struct synced_mem *mem)
{
    const struct sm_copy *const copy = sm_copy_of(sm_own_record(mem), SM_GPU);
    return !sm_is_held(sm_evictable_of(mem), SM_GPU) && !sm_is_exported(mem, SM_GPU) &&
           copy->source == SYNCED_MEM_SOURCE_DEVICE && !copy->untracked;
}

/* Returns whether the memory becomes free late: the host would wait for threads that have yet to queue work on it, or
 * the pull for contents that are not there yet. A copy that is dropped goes in the order of its stream. */
static bool is_at_work(const struct sm_record *record)
{
    const struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    if (sm_inflight_queueing(copy, true))
        return true;
    struct sm_fence *const unfinished = is_dirty(record) ? sm_inflight_unfinished(copy, false) : NULL;
    return unfinished && sm_fence_poll(unfinished);
}

/* Pulls the contents if the device alone has them. The stream of the eviction comes after the pull. But threads that
 * pull may fail until they have the last byte, so the host waits for them: the contents stay until then. */
static synced_mem_status pull_contents(struct departure *departure, struct sm_waits *waits)
{
    struct sm_record *const record = sm_own_record(departure->mem);
    if (is_dirty(record)) {
        departure->was_dirty = true;
        SM_TRY(sm_fetch(record, SM_CPU, SM_MOVE, NULL, waits));
    }
    if (sm_head(record) & sm_bit(SM_CPU))
        SM_TRY(sm_waits_add(waits, sm_inflight_unqueued(sm_copy_of(record, SM_CPU), false)));
    return sm_waits_add_for(waits, sm_inflight_queueing(sm_copy_of(record, SM_GPU), true), SM_UNTIL_QUEUED);
}

static synced_mem_status take_copy(struct departure *departure, struct sm_waits *waits)
{
    struct sm_record *const record = sm_own_record(departure->mem);
    if (sm_copy_of(record, SM_GPU))
        (void)sm_inflight_retrack(sm_copy_of(record, SM_GPU));
    if (!sm_copy_of(record, SM_GPU) || !may_go(departure->mem))
        return SYNCED_MEM_OK;
    departure->was_late = departure->not_late && is_at_work(record);
    if (departure->was_late)
        return SYNCED_MEM_OK;
    departure->not_late = false; /* it has begun to go */
    SM_TRY(pull_contents(departure, waits));
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    SM_TRY(sm_inflight_settle(copy, true, NULL));
    sm_close_write(record);
    sm_set_head(record, sm_head(record) & ~sm_bit(SM_GPU));
    sm_count_valid(record);
    departure->copy = sm_take_copy(record, SM_GPU);
    sm_member_note(sm_member_of(departure->mem, SM_GPU), 0, 0, false);
    return SYNCED_MEM_OK;
}

static synced_mem_status evict_object(struct departure *departure)
{
    struct sm_transaction transaction;
    struct synced_mem *const mem = departure->mem;
    if (!sm_departure_begin(mem, departure->how)) {
        departure->was_busy = departure->how == SM_LOCK_IF_FREE;
        return SYNCED_MEM_OK;
    }
    synced_mem_status status = sm_begin(&transaction, mem);
    assert(status == SYNCED_MEM_OK); /* the object has one record */
    do
        status = take_copy(departure, &transaction.waits);
    while (sm_wait_again(&transaction, &status));
    return sm_leave(&transaction, status);
}

/* Evicts host copies, or else waits, once, for those that have gone: what a device still reads is not free. */
static bool make_host_room(const struct synced_mem *mem, bool *has_waited)
{
    if (sm_evict_bytes(SM_BUDGET_HOST, sm_evictable_bytes(mem, SM_CPU)))
        return true;
    const bool waits = !*has_waited;
    if (waits)
        sm_retired_wait_for_own();
    *has_waited = true;
    return waits;
}

/* The pull may need host memory, which has a budget of its own. */
static synced_mem_status evict_with_room(struct departure *departure)
{
    synced_mem_status status;
    bool has_waited = false;
    do
        status = evict_object(departure);
    while (status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY && sm_host_budget_on() &&
           make_host_room(departure->mem, &has_waited));
    return status;
}

static synced_mem_status evict_device_victim(struct sm_member *victim, struct sm_stream *stream,
                                             struct departure *departure)
{
    struct synced_mem *const mem = sm_evictable_of_member(victim)->mem;
    const uint64_t since = sm_trace_begin();
    departure->mem = mem;
    const synced_mem_status status = evict_with_room(departure);
    if (!departure->copy)
        return status;
    const size_t bytes = sm_allocation_of(departure->copy)->bytes;
    sm_copy_retire_on(departure->copy, stream);
    sm_count_up(departure->was_dirty ? SM_COUNT_dirty_evictions : SM_COUNT_clean_evictions, 1);
    sm_count_up(SM_COUNT_evicted_bytes, bytes);
    sm_trace_eviction(since, &(struct sm_subject){.object = mem, .name = sm_object_name(mem)}, bytes,
                      departure->was_dirty ? SM_EVICTION_PULLED : SM_EVICTION_CLEAN);
    if (sm_host_budget_on())
        sm_evictable_refresh(mem); /* the host alone may have the contents now */
    return status;
}

static struct synced_mem *find_object(struct sm_member *member)
{
    return member->is_of_host ? sm_evictable_of_host(member)->mem : sm_evictable_of_member(member)->mem;
}

static bool is_member_dirty(struct sm_member *member)
{
    const struct synced_mem *const mem = find_object(member);
    return member->is_of_host ? sm_is_host_only_copy(mem) : is_dirty(sm_own_record(mem));
}

/* A victim whose copy has gone by another call has left too. */
static bool has_copy(struct sm_member *member)
{
    return sm_copy_of(sm_own_record(find_object(member)), member->is_of_host ? SM_CPU : SM_GPU) != NULL;
}

/* Host memory that a device still reads is not free. So it is waited for, before others have to go. */
static void wait_for_evicted_on_host(void)
{
    if (sm_budget_excess(SM_BUDGET_HOST) > 0)
        sm_retired_wait_for_own();
}

static void keep_for_later(struct sm_member **list, struct sm_member *member)
{
    sm_member_stick(member);
    member->next = *list;
    *list = member;
}

/* One that is held by now stays for its hold, which claims no memory for it any more. */
static void end_departure(struct sm_evictions *evictions, struct sm_member *victim, enum sm_departure_end end)
{
    if (end != SM_GONE && has_copy(victim) && atomic_load_explicit(&victim->holds, memory_order_relaxed) == 0) {
        keep_for_later(end == SM_BUSY ? &evictions->busy : &evictions->stuck, victim);
        return;
    }
    if (end != SM_GONE)
        sm_evictable_refresh(find_object(victim)); /* another call has taken the copy, and has yet to do that */
    sm_member_left(victim, is_member_dirty(victim));
}

static enum sm_departure_end get_end(const struct departure *departure)
{
    if (departure->copy)
        return SM_GONE;
    return departure->was_busy ? SM_BUSY : departure->was_late ? SM_LATE : SM_STAYS;
}

static enum sm_departure_end evict_victim(struct sm_evictions *evictions, struct sm_member *victim,
                                          enum sm_departure_lock how, bool not_late)
{
    struct departure departure = {.how = how, .not_late = not_late};
    enum sm_departure_end end;
    synced_mem_status status;
    if (victim->is_of_host) {
        status = sm_evict_host_victim(victim, how, &end);
    } else {
        status = evict_device_victim(victim, evictions->stream, &departure);
        end = get_end(&departure);
    }
    if (evictions->first.status == SYNCED_MEM_OK)
        sm_outcome_set(&evictions->first, status);
    return end;
}

static void evict_all(struct sm_evictions *evictions, struct sm_member *victims, enum sm_departure_lock how)
{
    const bool of_host = victims && victims->is_of_host;
    while (victims) {
        struct sm_member *victim = victims;
        victims = victim->next;
        enum sm_departure_end end = evict_victim(evictions, victim, how, evictions->passes_over);
        if (end == SM_LATE) {
            struct sm_member *const other = sm_budget_choose_instead(victim);
            if (other)
                keep_for_later(&evictions->late, victim);
            victim = other ? other : victim;
            end = evict_victim(evictions, victim, how, false);
        }
        evictions->gone += end == SM_GONE;
        end_departure(evictions, victim, end);
    }
    if (of_host)
        wait_for_evicted_on_host();
}

void sm_evict(struct sm_evictions *evictions, struct sm_member *victims)
{
    evict_all(evictions, victims, SM_LOCK_IF_FREE);
}

bool sm_evict_late(struct sm_evictions *evictions)
{
    struct sm_member *const late = evictions->late;
    evictions->late = NULL;
    evictions->passes_over = false;
    evict_all(evictions, late, SM_LOCK_IF_FREE);
    return late != NULL;
}

bool sm_evict_busy(struct sm_evictions *evictions)
{
    struct sm_member *const busy = evictions->busy;
    evictions->busy = NULL;
    evict_all(evictions, busy, SM_LOCK_WAIT);
    return busy != NULL;
}

static void keep_members(struct sm_member *list)
{
    while (list) {
        struct sm_member *const member = list;
        list = member->next;
        sm_member_left(member, is_member_dirty(member));
    }
}

void sm_evict_end(struct sm_evictions *evictions)
{
    keep_members(evictions->late);
    keep_members(evictions->busy);
    keep_members(evictions->stuck);
    evictions->late = evictions->busy = evictions->stuck = NULL;
}

/* *failure: the first. */
static bool evict_bytes(int device, uint64_t bytes, struct sm_outcome *failure)
{
    struct sm_evictions evictions = {.stream = NULL};
    const struct sm_detail first = sm_detail_get();
    const struct sm_refusal_noted refusal = sm_refusal_get();
    struct sm_member *victims = sm_budget_choose(device, bytes);
    while (evictions.gone == 0 && (victims || sm_evict_busy(&evictions))) {
        sm_evict(&evictions, victims);
        victims = evictions.gone == 0 ? sm_budget_choose(device, bytes) : NULL;
    }
    sm_evict_end(&evictions);
    sm_refusal_set(&refusal);
    sm_detail_set(&first);
    *failure = evictions.first;
    return evictions.gone > 0;
}

bool sm_evict_bytes(int device, uint64_t bytes)
{
    struct sm_outcome ignored;
    return evict_bytes(device, bytes, &ignored);
}

static uint64_t evict_while_possible(int device, struct sm_outcome *failure)
{
    if (sm_budget_excess(device) > 0 && device != SM_BUDGET_HOST)
        (void)sm_copy_free_cached(device);
    uint64_t excess = sm_budget_excess(device);
    while (excess > 0 && evict_bytes(device, excess, failure))
        excess = sm_budget_excess(device);
    if (excess == 0)
        sm_outcome_set(failure, SYNCED_MEM_OK);
    return excess;
}

/* Retired memory counts until it is freed. Its end, or that of another thread's eviction, may let a victim go that was
 * stuck. */
uint64_t sm_evict_excess(int device, bool waits, struct sm_outcome *failure)
{
    struct sm_outcome last;
    uint64_t excess = evict_while_possible(device, &last);
    if (excess > 0 && waits) {
        sm_retired_wait_for_own();
        while (sm_budget_wait(device))
            continue;
        excess = evict_while_possible(device, &last);
    }
    if (failure)
        *failure = last;
    return excess;
}

void sm_evictable_refresh(struct synced_mem *mem)
{
    struct sm_evictable *const evictable = sm_evictable_of(mem);
    const struct sm_detail first = sm_detail_get();
    if (!evictable || sm_check_and_lock(mem) != SYNCED_MEM_OK) {
        sm_detail_set(&first);
        return;
    }
    const struct sm_record *const record = sm_own_record(mem);
    const struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    const struct sm_copy *const host = sm_copy_of(record, SM_CPU);
    sm_member_note(&evictable->member, copy ? copy->device : 0, copy ? sm_allocation_of(copy)->bytes : 0,
                   is_dirty(record));
    if (sm_host_budget_on())
        sm_member_note(&evictable->host, SM_BUDGET_HOST, host ? sm_allocation_of(host)->bytes : 0,
                       sm_is_host_only_copy(mem));
    sm_unlock_object(mem);
}

void sm_evictables_refresh(struct synced_mem *const *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sm_evictable_refresh(mems[i]);
}

static bool is_evictable(const struct synced_mem *mem, void *user)
{
    (void)user;
    return sm_evictable_of(mem) != NULL;
}

static void refresh_visited(const struct synced_mem *mem, void *user)
{
    (void)user;
    sm_evictable_refresh((struct synced_mem *)(uintptr_t)mem); /* its unlock publishes */
}

void sm_evictables_refresh_all(void)
{
    struct sm_slab_walk walk = {0};
    while (sm_objects_next(&walk, is_evictable, refresh_visited, NULL))
        continue;
}
