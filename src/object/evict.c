/* Eviction. */
#include "object/evict.h"

#include "base/process.h"
#include "base/refusal.h"
#include "base/stats.h"
#include "copy/retired.h"
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
    struct sm_copy *copy; /* what has left the object */
    bool was_dirty;
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
    if (departure->not_late && is_at_work(record)) {
        departure->was_late = true;
        return SYNCED_MEM_OK;
    }
    departure->not_late = false;
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

/* Takes the lock if no thread has it. Returns whether it did. */
static bool try_lock(struct synced_mem *mem)
{
    sm_process_enter();
    if (sm_mutex_try(&mem->lock))
        return true;
    sm_process_leave();
    return false;
}

static synced_mem_status evict_object(struct departure *departure)
{
    struct sm_transaction transaction;
    struct synced_mem *const mem = departure->mem;
    if (sm_check_usable(mem) != SYNCED_MEM_OK || !try_lock(mem))
        return SYNCED_MEM_OK;
    synced_mem_status status = sm_begin(&transaction, mem);
    assert(status == SYNCED_MEM_OK); /* the object has one record */
    do
        status = take_copy(departure, &transaction.waits);
    while (sm_wait_again(&transaction, &status));
    return sm_leave(&transaction, status);
}

/* The pull may need host memory, which has a budget of its own. */
static synced_mem_status evict_with_room(struct departure *departure)
{
    synced_mem_status status;
    do
        status = evict_object(departure);
    while (status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY && sm_host_budget_on() &&
           sm_evict_bytes(SM_BUDGET_HOST, sm_evictable_bytes(departure->mem, SM_CPU)));
    return status;
}

/* What has become of a victim. */
enum fate { GONE, STAYS, LATE };

static synced_mem_status evict_device_victim(struct sm_member *victim, struct sm_stream *stream, bool not_late,
                                             enum fate *fate)
{
    const struct sm_evictable *const evictable = sm_evictable_of_member(victim);
    struct departure departure = {.mem = evictable->mem, .not_late = not_late};
    const uint64_t since = sm_trace_begin();
    const synced_mem_status status = evict_with_room(&departure);
    *fate = departure.copy ? GONE : departure.was_late ? LATE : STAYS;
    if (!departure.copy)
        return status;
    const size_t bytes = departure.copy->bytes;
    sm_copy_retire_on(departure.copy, stream);
    sm_count_up(departure.was_dirty ? SM_COUNT_dirty_evictions : SM_COUNT_clean_evictions, 1);
    sm_count_up(SM_COUNT_evicted_bytes, bytes);
    sm_trace_eviction(since, &(struct sm_subject){.object = departure.mem, .name = sm_object_name(departure.mem)},
                      bytes, departure.was_dirty ? SM_EVICTION_PULLED : SM_EVICTION_CLEAN);
    if (sm_host_budget_on())
        sm_evictable_refresh(departure.mem); /* the host alone may have the contents now */
    return status;
}

static synced_mem_status evict_victim(struct sm_member *victim, struct sm_stream *stream, bool not_late,
                                      enum fate *fate)
{
    bool gone;
    if (!victim->is_of_host)
        return evict_device_victim(victim, stream, not_late, fate);
    const synced_mem_status status = sm_evict_host_victim(victim, &gone);
    *fate = gone ? GONE : STAYS;
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

/* Puts a victim that goes on leaving on a list. */
static void stick_victim(struct sm_member *victim, struct sm_member **list)
{
    sm_member_stick(victim);
    victim->next = *list;
    *list = victim;
}

static void end_victim(struct sm_member *victim, enum fate fate, struct sm_member **stuck)
{
    if (fate != GONE && has_copy(victim)) {
        stick_victim(victim, stuck);
        return;
    }
    if (fate != GONE)
        sm_evictable_refresh(find_object(victim)); /* the other call has yet to do that */
    sm_member_left(victim, is_member_dirty(victim));
}

/* Evicts the victim, or another in its place. */
static synced_mem_status evict_one(struct sm_member *victim, struct sm_stream *stream, struct sm_member **stuck,
                                   struct sm_member **late)
{
    enum fate fate;
    synced_mem_status status = evict_victim(victim, stream, late != NULL, &fate);
    if (fate == LATE) {
        struct sm_member *const other = sm_budget_choose_instead(victim);
        if (other)
            stick_victim(victim, late);
        victim = other ? other : victim;
        status = evict_victim(victim, stream, false, &fate);
    }
    end_victim(victim, fate, stuck);
    return status;
}

synced_mem_status sm_evict(struct sm_member *victims, struct sm_stream *stream, struct sm_member **stuck,
                           struct sm_member **late)
{
    struct sm_outcome first;
    const bool of_host = victims && victims->is_of_host;
    sm_outcome_set(&first, SYNCED_MEM_OK);
    while (victims) {
        struct sm_member *const victim = victims;
        victims = victim->next;
        const synced_mem_status status = evict_one(victim, stream, stuck, late);
        if (first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
    }
    if (of_host)
        wait_for_evicted_on_host();
    return sm_outcome_end(&first);
}

void sm_evict_keep(struct sm_member *stuck)
{
    while (stuck) {
        struct sm_member *const member = stuck;
        stuck = member->next;
        sm_member_left(member, is_member_dirty(member));
    }
}

static size_t count_members(const struct sm_member *list)
{
    size_t count = 0;
    for (; list; list = list->next)
        count++;
    return count;
}

bool sm_evict_bytes(int device, uint64_t bytes)
{
    struct sm_member *stuck = NULL;
    const struct sm_detail first = sm_detail_get();
    const struct sm_refusal_noted refusal = sm_refusal_get();
    struct sm_member *const victims = sm_budget_choose(device, bytes);
    const size_t chosen = count_members(victims);
    (void)sm_evict(victims, NULL, &stuck, NULL);
    const bool any = count_members(stuck) < chosen;
    sm_evict_keep(stuck);
    sm_refusal_set(&refusal);
    sm_detail_set(&first);
    return any;
}

static uint64_t evict_while_possible(int device)
{
    if (sm_budget_excess(device) > 0 && device != SM_BUDGET_HOST)
        (void)sm_copy_free_cached(device);
    uint64_t excess = sm_budget_excess(device);
    while (excess > 0 && sm_evict_bytes(device, excess))
        excess = sm_budget_excess(device);
    return excess;
}

/* Retired memory counts until it is freed. Its end, or that of another thread's eviction, may let a victim go that was
 * stuck. */
uint64_t sm_evict_excess(int device, bool waits)
{
    uint64_t excess = evict_while_possible(device);
    if (excess == 0 || !waits)
        return excess;
    sm_retired_wait_for_own();
    while (sm_budget_wait(device))
        continue;
    return evict_while_possible(device);
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
    sm_member_note(&evictable->member, copy ? copy->device : 0, copy ? copy->bytes : 0, is_dirty(record));
    if (sm_host_budget_on())
        sm_member_note(&evictable->host, SM_BUDGET_HOST, host ? host->bytes : 0, sm_is_host_only_copy(mem));
    sm_unlock_object(mem);
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

void sm_evictables_refresh(void)
{
    struct sm_slab_walk walk = {0};
    while (sm_objects_next(&walk, is_evictable, refresh_visited, NULL))
        continue;
}
