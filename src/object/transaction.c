/* The begin and end of a call on an object, and the head. */
#include "object/transaction.h"

#include "memory/guard.h"
#include "object/piece.h"
#include "object/publish.h"
#include "object/span.h"
#include "base/process.h"
#include "base/status.h"
#include "trace/trace.h"

#include <assert.h>
#include <string.h>

/* ---- The head ---- */

/* Returns whether the side's copy exists and has room for the record. A part has its piece's place in the memory. */
static bool has_room(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const copy = sm_copy_of(record, side);
    if (!copy || !copy->is_part)
        return copy && sm_copy_capacity(copy) >= sm_size_of(record);
    const struct sm_copy *const whole = sm_copy_of(sm_own_record(sm_root_of(record)), side);
    return sm_copy_data(copy) == (char *)sm_copy_data(whole) + sm_begin_of(record);
}

static bool is_record_valid(const struct sm_record *record)
{
    const unsigned head = sm_head(record);
    const struct sm_copy *const gpu = sm_copy_of(record, SM_GPU);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const unsigned bit = sm_bit(side);
        const struct sm_copy *const copy = sm_copy_of(record, side);
        if ((head & bit) && !has_room(record, side))
            return false;
        if (sm_bits_of(record, side) != bit && sm_copy_of(record, sm_other(side)) != copy)
            return false;
    }
    if (gpu && (gpu->device < 0 || gpu->device != sm_device(sm_owner_of(record))))
        return false;
    return sm_publication_is_valid(record);
}

bool sm_object_is_valid(const struct synced_mem *mem)
{
    bool valid = mem->record.kind != SM_WHOLE || !sm_is_divided(mem) || sm_pieces_are_valid(mem);
    for (struct sm_record *each = sm_first_record(mem); each && valid; each = sm_next_record(mem, each))
        valid = is_record_valid(each);
    return valid;
}

void sm_note_wanted_object(const struct synced_mem *mem)
{
    sm_caller.subject = sm_subject_of(mem);
}

void sm_note_wanted_record(const struct sm_record *record)
{
    struct sm_subject *const subject = &sm_caller.subject;
    const struct synced_mem *const owner = sm_owner_of(record);
    if (record->kind != SM_PIECE || (subject->object != owner && subject->root != owner))
        *subject = sm_subject_of(owner);
    subject->is_part = record->kind == SM_PIECE || owner->record.kind == SM_VIEW;
    subject->offset = sm_begin_of(record);
}

unsigned sm_read_head(const struct synced_mem *mem)
{
    struct synced_mem *const locked = (struct synced_mem *)(uintptr_t)mem;
    unsigned head = sm_raw_head(&mem->record);
    if (head != SM_HEAD_OF_PIECES)
        return head & SYNCED_MEM_SYNCED;
    if (mem->generation != sm_process_generation() && sm_process_lost_gpu())
        return SYNCED_MEM_MIXED;
    sm_lock_object(locked);
    head = sm_head_of_records(mem);
    sm_unlock_root(sm_root(mem));
    return head;
}

void sm_object_init(struct synced_mem *mem)
{
    sm_mutex_init(&mem->lock);
    mem->generation = sm_process_generation();
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_put_copy(&mem->record, side, NULL);
    mem->record.kind = SM_WHOLE;
    mem->record.holders = 0;
    mem->at = (struct sm_position){.first = NULL};
    atomic_store_explicit(&mem->record.head, SYNCED_MEM_UNINITIALIZED, memory_order_relaxed);
    sm_publish_nothing(mem);
}

/* ---- The lock ---- */

/* Rare work is not inlined, so that a call without it saves few registers. */
static __attribute__((noinline)) synced_mem_status fail_forked(void)
{
    return sm_fail(SYNCED_MEM_ERR_FORKED, "the object belongs to the parent process: a forked child can only read its "
                                          "valid host copy, or release it");
}

static synced_mem_status check_generation(const struct synced_mem *mem)
{
    return mem->generation != sm_process_generation() && sm_process_lost_gpu() ? fail_forked() : SYNCED_MEM_OK;
}

void sm_lock_object(struct synced_mem *mem)
{
    sm_process_enter();
    sm_mutex_lock(&sm_root(mem)->lock);
}

void sm_unlock_root(struct synced_mem *owner)
{
    sm_mutex_unlock(&owner->lock);
    sm_process_leave();
}

/* Until then the hot path returns the pointers that were valid when the lock was taken. */
static void publish_records(struct synced_mem *mem)
{
    if (!sm_is_divided(mem)) {
        sm_publish(sm_own_record(mem));
    } else {
        sm_publish_from_piece(mem);
        for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
            sm_publish(each);
    }
    assert(sm_object_is_valid(mem));
}

void sm_drop_held_record(struct sm_record *record)
{
    struct synced_mem *const root = sm_owner_of(record);
    if (record->kind != SM_PIECE)
        return;
    sm_lock_object(root);
    sm_drop_record(record);
    if (root->record.holders == 0)
        sm_join_records(root);
    sm_undivide(root);
    sm_unlock_root(root);
}

/* A call that fails later takes back what it has made valid. So it joins nothing before its end. */
void sm_publish_object(struct synced_mem *mem)
{
    if (sm_is_divided(mem))
        sm_join_records(mem);
    publish_records(mem);
    if (mem->record.kind == SM_WHOLE && mem->at.first)
        sm_undivide(mem);
}

void sm_publish_joined(struct synced_mem *mem)
{
    sm_join_records(mem);
    if (sm_has_one_record(mem) && !mem->at.hot_link) {
        sm_publish_from_piece(mem);
        sm_publish(&mem->at.first->record);
    }
    if (mem->record.kind == SM_WHOLE)
        sm_undivide(mem);
}

void sm_unlock_object(struct synced_mem *mem)
{
    struct synced_mem *const root = sm_root(mem);
    publish_records(mem);
    sm_unlock_root(root);
}

synced_mem_status sm_lock_record(struct sm_record *record)
{
    SM_TRY(check_generation(sm_root_of(record)));
    sm_note_record(record);
    sm_lock_object(sm_root_of(record));
    return SYNCED_MEM_OK;
}

void sm_unlock_record(struct sm_record *record)
{
    struct synced_mem *const root = sm_root_of(record);
    if (record->kind == SM_PIECE)
        sm_publish(record);
    else
        publish_records(sm_owner_of(record));
    sm_unlock_root(root);
}

/* ---- Waiting ---- */

static void drop_lost_contents(struct synced_mem *mem, struct sm_fence **lost)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_take_out_lost(each, lost);
}

/* A step that has called an allocator has released the lock itself, and has nothing to wait for. */
bool sm_wait_again(struct sm_transaction *transaction, synced_mem_status *status)
{
    struct synced_mem *const mem = transaction->mem;
    struct sm_waits *const waits = &transaction->waits;
    transaction->waits_ended = false;
    if (*status != SM_AGAIN) {
        if (waits->count > 0)
            sm_waits_end(waits);
        return false;
    }
    *status = SYNCED_MEM_OK;
    if (waits->count > 0) {
        sm_unlock_object(mem);
        *status = sm_waits_wait(waits, &transaction->waits_ended);
        sm_lock_object(mem);
        sm_waits_end(waits);
    }
    drop_lost_contents(mem, NULL);
    return *status == SYNCED_MEM_OK;
}

/* ---- Calls ---- */

synced_mem_status sm_check_any_usable(const struct synced_mem *mem)
{
    SM_TRY(check_generation(mem));
    sm_note_object(mem);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_check_and_lock(struct synced_mem *mem)
{
    SM_TRY(sm_check_usable(mem));
    sm_lock_object(mem);
    return SYNCED_MEM_OK;
}

/* Leaves out the room for waits and states, which each call would take long to fill with zeros. */
static void init_transaction(struct sm_transaction *transaction, struct synced_mem *mem, bool restores_nothing)
{
    transaction->mem = mem;
    transaction->restores_nothing = restores_nothing;
    transaction->is_published = false;
    sm_listing_begin(&transaction->listing);
    transaction->detached = NULL;
    transaction->replacement = (struct sm_replacement){.copy = NULL};
    sm_waits_begin(&transaction->waits);
    transaction->waits_ended = false;
}

synced_mem_status sm_begin(struct sm_transaction *transaction, struct synced_mem *mem)
{
    sm_begin_access(transaction, mem);
    const synced_mem_status status =
        sm_has_one_record(mem) ? SYNCED_MEM_OK : sm_listing_fill(&transaction->listing, mem, SM_CPU, NULL, SM_READ);
    if (status != SYNCED_MEM_OK)
        sm_listing_end(&transaction->listing);
    return status;
}

void sm_begin_access(struct sm_transaction *transaction, struct synced_mem *mem)
{
    init_transaction(transaction, mem, false);
    if (sm_has_one_record(mem))
        sm_listing_note_one(&transaction->listing, sm_first_record(mem));
}

synced_mem_status sm_enter(struct sm_transaction *transaction, struct synced_mem *mem)
{
    SM_TRY(sm_check_and_lock(mem));
    const synced_mem_status status = sm_begin(transaction, mem);
    if (status != SYNCED_MEM_OK)
        sm_unlock_root(sm_root(mem));
    return status;
}

synced_mem_status sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem)
{
    SM_TRY(sm_check_and_lock(mem));
    init_transaction(transaction, mem, true);
    drop_lost_contents(mem, &transaction->listing.lost);
    return SYNCED_MEM_OK;
}

static void reopen_uses(const struct synced_mem *mem)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_reopen_uses_of(each);
}

/* Restores the heads. Device pointers that were returned earlier are still good, so their uses are open again. A
 * replacement has settled those of all parts of the memory. */
static void undo_changes(const struct sm_transaction *transaction)
{
    struct synced_mem *const mem = transaction->mem;
    drop_lost_contents(mem, NULL);
    if (transaction->replacement.from || !transaction->restores_nothing)
        reopen_uses(transaction->replacement.from ? sm_owner(mem) : mem);
    if (!transaction->restores_nothing)
        sm_listing_restore(&transaction->listing, mem);
}

void sm_reopen_object(struct synced_mem *mem)
{
    const struct sm_detail first = sm_detail_get();
    if (sm_check_and_lock(mem) == SYNCED_MEM_OK) {
        drop_lost_contents(mem, NULL);
        reopen_uses(mem);
        sm_unlock_object(mem);
    }
    sm_detail_set(&first);
}

/* A failure keeps its detail. */
static __attribute__((noinline)) void leave_after_failure(struct sm_transaction *transaction)
{
    const struct sm_detail first = sm_detail_get();
    undo_changes(transaction);
    (void)sm_leave(transaction, SYNCED_MEM_OK);
    sm_detail_set(&first);
}

/* A call that restores nothing has used no contents. It joins no pieces, as another call that waits may still fail. */
synced_mem_status sm_leave(struct sm_transaction *transaction, synced_mem_status status)
{
    struct synced_mem *const mem = transaction->mem;
    assert(status != SM_AGAIN && transaction->waits.count == 0);
    if (status != SYNCED_MEM_OK) {
        leave_after_failure(transaction);
        return status;
    }
    struct synced_mem *const root = sm_root(mem);
    if (transaction->is_published) {
        sm_publish_joined(mem);
        assert(sm_object_is_valid(mem));
    } else if (transaction->restores_nothing || !sm_is_divided(mem)) {
        publish_records(mem);
    } else {
        sm_publish_object(mem);
    }
    sm_unlock_root(root);
    sm_listing_end(&transaction->listing);
    if (transaction->replacement.copy)
        sm_copy_retire(transaction->replacement.copy);
    while (transaction->detached) {
        struct sm_copy *const copy = transaction->detached;
        transaction->detached = sm_allocation_of(copy)->next;
        sm_allocation_of(copy)->next = NULL;
        sm_copy_retire(copy);
    }
    return SYNCED_MEM_OK;
}

/* Reaps after a failure too: it may be for lack of the very memory that can be freed now. */
synced_mem_status sm_reap_after(synced_mem_status status, bool may_block)
{
    if (status == SYNCED_MEM_OK) {
        sm_copy_reap_passing_by(may_block);
        return SYNCED_MEM_OK;
    }
    const struct sm_detail first = sm_detail_get();
    sm_copy_reap_passing_by(may_block);
    sm_detail_set(&first);
    return status;
}

synced_mem_status sm_leave_and_reap(struct sm_transaction *transaction, synced_mem_status status, bool may_block)
{
    return sm_reap_after(sm_leave(transaction, status), may_block);
}

void sm_retire_later(struct sm_transaction *transaction, struct sm_copy *copy)
{
    sm_guard_forget(copy); /* the same memory may be allocated again at once */
    sm_allocation_of(copy)->next = transaction->detached;
    transaction->detached = copy;
}

void sm_detach_copy_of(struct sm_transaction *transaction, struct synced_mem *owner, enum sm_side side)
{
    struct sm_copy *const copy = sm_take_copy(sm_own_record(owner), side);
    if (copy)
        sm_retire_later(transaction, copy);
}

void sm_detach_copy(struct sm_transaction *transaction, enum sm_side side)
{
    sm_detach_copy_of(transaction, transaction->mem, side);
}
