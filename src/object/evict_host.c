/*
 * Eviction of host copies.
 *
 * Contents that only the host has are spilled with no lock held, so anybody may change them meanwhile. Whoever gets a
 * pointer to the host copy counts that in the copy (sm_count_given()): accesses do, and so do holds of a victim, as
 * only an object that is held has its pointers published. So if the copy has the same count afterwards, the scratch
 * file has its bytes.
 */
#include "object/evict_host.h"

#include "base/process.h"
#include "base/stats.h"
#include "copy/file_job.h"
#include "object/backing.h"
#include "object/exports.h"
#include "object/span.h"
#include "object/transaction.h"

struct departure {
    struct synced_mem *mem;
    enum sm_departure_lock how;
    bool was_busy;        /* another thread had the lock, or has changed the contents */
    struct sm_copy *copy; /* what has left the object */
    size_t bytes;
    /* Of contents that are spilled: */
    struct sm_backing *backing; /* NULL: they need not be spilled, or can't */
    bool is_prepared;           /* a spill was prepared, maybe without a backing */
    size_t size;                /* that it was prepared for */
    struct sm_file_end end;
    const struct sm_copy *from; /* NULL: they are not spilled */
    unsigned given;
};

bool sm_is_host_only_copy(const struct synced_mem *mem)
{
    return sm_raw_head(&mem->record) == sm_bit(SM_CPU) && sm_size(mem) > 0;
}

/* Returns whether the object may lose its host copy now. */
static bool may_go(const struct synced_mem *mem)
{
    const struct sm_copy *const copy = sm_copy_of(sm_own_record(mem), SM_CPU);
    return copy && atomic_load_explicit(&sm_evictable_of(mem)->host.holds, memory_order_relaxed) == 0 &&
           !sm_is_exported(mem, SM_CPU) && !copy->untracked &&
           (copy->source == SYNCED_MEM_SOURCE_PAGEABLE || copy->source == SYNCED_MEM_SOURCE_PINNED);
}

/* The contents of an object of 0 bytes are in any file. */
static void take_copy(struct departure *departure)
{
    struct sm_record *const record = sm_own_record(departure->mem);
    if (sm_whole_head(record) == sm_bit(SM_CPU))
        sm_set_backing(record, NULL);
    sm_set_head(record, sm_head(record) & ~sm_bit(SM_CPU));
    sm_count_valid(record);
    departure->copy = sm_take_copy(record, SM_CPU);
    sm_member_note(sm_member_of(departure->mem, SM_CPU), SM_BUDGET_HOST, 0, false);
    departure->bytes = sm_allocation_of(departure->copy)->bytes;
}

/* ---- Spills ---- */

/* Makes room in the scratch file, which may take long, so that no lock is held. Without a scratch file there is no
 * backing. */
static synced_mem_status prepare_spill(struct departure *departure)
{
    struct sm_scratch_range *range;
    departure->is_prepared = true;
    departure->size = sm_size(departure->mem);
    SM_TRY(sm_scratch_take(departure->size, &range));
    return range ? sm_backing_make_spilled(range, departure->mem, departure->size, &departure->backing) : SYNCED_MEM_OK;
}

static void drop_backing(struct departure *departure)
{
    sm_backing_drop(sm_backing_share(departure->backing));
    departure->backing = NULL;
}

/* The contents may still arrive. */
static synced_mem_status begin_write(struct departure *departure, struct sm_copy *copy)
{
    struct sm_file_writes writes = {.room = 1, .file = departure->backing->file, .end = &departure->end};
    SM_TRY(sm_inflight_settle(copy, false, NULL));
    const struct sm_file_source source = {
        .copy = copy, .size = departure->size, .after = sm_inflight_blocker(copy, false)};
    SM_TRY(sm_file_writes_make(&writes));
    sm_file_writes_add(&writes, &source, departure->backing->extent.begin);
    sm_file_writes_begin(&writes);
    return SYNCED_MEM_OK;
}

/* Another call may have changed the contents since they were prepared for, or a file that was about to have them could
 * not be written. Then the victim is tried again. Without a scratch file it stays. */
static synced_mem_status begin_spill(struct departure *departure)
{
    struct sm_copy *const copy = sm_copy_of(sm_own_record(departure->mem), SM_CPU);
    departure->was_busy = !departure->is_prepared || departure->size != sm_size(departure->mem);
    if (departure->was_busy || !departure->backing)
        return SYNCED_MEM_OK;
    SM_TRY(begin_write(departure, copy));
    departure->from = copy;
    departure->given = copy->given;
    return SYNCED_MEM_OK;
}

/* Returns whether the contents are those that were spilled. */
static bool is_unchanged(const struct departure *departure)
{
    const struct sm_record *const record = sm_own_record(departure->mem);
    const struct sm_copy *const copy = sm_copy_of(record, SM_CPU);
    return sm_is_host_only_copy(departure->mem) && copy == departure->from && copy->given == departure->given &&
           sm_size(departure->mem) == departure->size;
}

/* ---- A victim ---- */

/* Contents that another place has go, others begin to be spilled. A file that is about to have them is waited for,
 * which takes no longer than a spill. Threads that push them may still fail, so the host copy stays until they have
 * queued the last byte. */
static synced_mem_status drop_or_spill(struct departure *departure, struct sm_waits *waits)
{
    struct synced_mem *const mem = departure->mem;
    const struct sm_record *const record = sm_own_record(mem);
    if (sm_copy_of(record, SM_CPU))
        (void)sm_inflight_retrack(sm_copy_of(record, SM_CPU));
    if (!may_go(mem))
        return SYNCED_MEM_OK;
    if (sm_whole_head(record) == sm_bit(SM_CPU) && sm_size(mem) > 0) {
        SM_TRY(sm_waits_add_for(waits, sm_promise_fence(record), SM_MAY_FAIL));
        return begin_spill(departure);
    }
    if (sm_head(record) & sm_bit(SM_GPU))
        SM_TRY(sm_waits_add_for(waits, sm_inflight_unqueued(sm_copy_of(record, SM_GPU), false), SM_UNTIL_QUEUED));
    take_copy(departure);
    return SYNCED_MEM_OK;
}

static synced_mem_status begin_departure(struct departure *departure)
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
        status = drop_or_spill(departure, &transaction.waits);
    while (sm_wait_again(&transaction, &status));
    return sm_leave(&transaction, status);
}

/* The scratch file has the contents by now, or they have changed: then the victim is tried again. */
static synced_mem_status end_departure(struct departure *departure)
{
    struct sm_transaction transaction;
    struct synced_mem *const mem = departure->mem;
    if (!sm_departure_begin(mem, departure->how)) {
        departure->was_busy = departure->how == SM_LOCK_IF_FREE;
        return SYNCED_MEM_OK;
    }
    const synced_mem_status status = sm_begin(&transaction, mem);
    assert(status == SYNCED_MEM_OK);
    departure->was_busy = may_go(mem) && !is_unchanged(departure);
    if (may_go(mem) && !departure->was_busy) {
        sm_set_backing(sm_own_record(mem), departure->backing);
        departure->backing = NULL;
        take_copy(departure);
    }
    return sm_leave(&transaction, status);
}

static synced_mem_status evict_copy(struct departure *departure)
{
    if (sm_is_host_only_copy(departure->mem))
        SM_TRY(prepare_spill(departure));
    synced_mem_status status = begin_departure(departure);
    if (status == SYNCED_MEM_OK && departure->from)
        status = sm_file_job_wait(&departure->end);
    if (status == SYNCED_MEM_OK && departure->from)
        status = end_departure(departure);
    if (departure->backing)
        drop_backing(departure);
    return status;
}

synced_mem_status sm_evict_host_victim(struct sm_member *victim, enum sm_departure_lock how, enum sm_departure_end *end)
{
    struct departure departure = {.mem = sm_evictable_of_host(victim)->mem, .how = how};
    const uint64_t since = sm_trace_begin();
    const synced_mem_status status = evict_copy(&departure);
    *end = departure.copy ? SM_GONE : departure.was_busy ? SM_BUSY : SM_STAYS;
    if (!departure.copy)
        return status;
    sm_copy_retire(departure.copy);
    const bool spilled = departure.from != NULL;
    sm_count_up(spilled ? SM_COUNT_spills : SM_COUNT_host_evictions, 1);
    sm_count_up(SM_COUNT_host_evicted_bytes, departure.bytes);
    sm_trace_eviction(since, &(struct sm_subject){.object = departure.mem, .name = sm_object_name(departure.mem)},
                      departure.bytes, spilled ? SM_EVICTION_SPILLED : SM_EVICTION_ON_HOST);
    return status;
}
