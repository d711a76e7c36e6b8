/* The begin and end of a call on an object; the head, and the pointers that the hot path may return. */
#include "object/transaction.h"

#include "base/caller.h"
#include "memory/guard.h"
#include "copy/inflight.h"
#include "object/guarding.h"
#include "base/process.h"
#include "base/status.h"
#include "trace/trace.h"

#include <assert.h>

/* The target of on while no stream may have the pointer. Its handle matches no stream. */
static struct sm_stream no_stream = {.hot = SM_NO_HANDLE, .kind = SM_STREAM_ANY};

/* ---- The head, and the pointers that the hot path returns ---- */

static bool is_publication_valid(const struct synced_mem *mem, bool writing)
{
    const unsigned head = sm_head(mem);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const void *const ready = atomic_load_explicit(&mem->ready[side][writing], memory_order_relaxed);
        if (ready && (!(head & sm_bit(side)) || ready != sm_copy_data(sm_copy_of(mem, side))))
            return false;
        if (ready && writing && head != sm_bit(side))
            return false;
    }
    const struct sm_stream *const on = atomic_load_explicit(&mem->on[writing], memory_order_relaxed);
    if (on == &no_stream)
        return true;
    return (writing ? head == sm_bit(SM_GPU) : (head & sm_bit(SM_GPU)) != 0) &&
           sm_inflight_has(sm_copy_of(mem, SM_GPU), on, writing);
}

bool sm_object_is_valid(const struct synced_mem *mem)
{
    const unsigned head = sm_head(mem);
    const struct sm_copy *const gpu = sm_copy_of(mem, SM_GPU);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const copy = sm_copy_of(mem, side);
        if ((head & sm_bit(side)) && (!copy || sm_copy_capacity(copy) < sm_size(mem)))
            return false;
        if (sm_bits_of(mem, side) != sm_bit(side) && sm_copy_of(mem, sm_other(side)) != copy)
            return false;
    }
    if (gpu && (gpu->device < 0 || gpu->device != sm_device(mem)))
        return false;
    return is_publication_valid(mem, false) && is_publication_valid(mem, true);
}

/*
 * Returns the pointer to publish for the side and mode, or NULL.
 *
 * A device pointer is published once an access in this mode has returned it. Only then is there a use to wait for
 * later. The host's pointer to a shared copy is published to write only while no stream has it to read: there is no
 * fence to wait for yet, and the head does not always show it:
 *
 *    head      streams that have the pointer              the host may read at once   write
 *    AT_CPU    none                                       yes                         yes
 *    AT_CPU    to read: the device's side was released    yes                         no: the streams are waited for
 *    SYNCED    none, or to read                           yes, once arrived           no: the head changes
 *    AT_GPU    any                                        no: the open write ends     no
 *
 * The open write ends where the head gets the host's bit, so no stream has it then.
 */
static void *choose_ready_pointer(const struct synced_mem *mem, enum sm_side side, bool writing)
{
    const struct sm_copy *const copy = sm_copy_of(mem, side);
    if ((writing && sm_head(mem) != sm_bit(side)) || sm_inflight_blocker(copy, writing))
        return NULL;
    if (side == SM_GPU && !sm_inflight_has(copy, sm_stream_any(copy->device), writing))
        return NULL;
    if (side == SM_CPU && writing && sm_inflight_last_reader(copy))
        return NULL;
    return sm_copy_data(copy);
}

/* Returns the stream to publish for the mode. After a failed call a stream that writes on comes behind the transfer
 * that the call has queued. */
static struct sm_stream *choose_ready_stream(const struct synced_mem *mem, bool writing)
{
    const struct sm_copy *const copy = sm_copy_of(mem, SM_GPU);
    if (writing && (sm_head(mem) != sm_bit(SM_GPU) || sm_inflight_blocker(copy, true)))
        return &no_stream;
    struct sm_stream *const stream = writing ? copy->writer : sm_inflight_last_reader(copy);
    return stream && sm_stream_can_be_hot(stream) && sm_inflight_has(copy, stream, writing) ? stream : &no_stream;
}

/* In debug mode no pointer to write is published: each overwrite fills its memory. */
static void publish_side(struct synced_mem *mem, enum sm_side side)
{
    const bool valid = (sm_head(mem) & sm_bit(side)) != 0;
    const bool to_write = valid && !sm_guard_on();
    atomic_store_explicit(&mem->ready[side][false], valid ? choose_ready_pointer(mem, side, false) : NULL,
                          memory_order_release);
    atomic_store_explicit(&mem->ready[side][true], to_write ? choose_ready_pointer(mem, side, true) : NULL,
                          memory_order_release);
}

static void publish_pointers(struct synced_mem *mem)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(mem, side))
            sm_inflight_prune(sm_copy_of(mem, side));
    if (sm_guard_on()) /* before any thread gets a pointer */
        sm_protect(mem);
    publish_side(mem, SM_CPU);
    publish_side(mem, SM_GPU);
    const bool valid = (sm_head(mem) & sm_bit(SM_GPU)) != 0;
    const bool to_write = valid && !sm_guard_on();
    atomic_store_explicit(&mem->on[false], valid ? choose_ready_stream(mem, false) : &no_stream, memory_order_release);
    atomic_store_explicit(&mem->on[true], to_write ? choose_ready_stream(mem, true) : &no_stream, memory_order_release);
}

/* Only this function writes the head. A copy without the contents has none arriving. */
void sm_set_head(struct synced_mem *mem, unsigned head)
{
    sm_trace_head(mem, sm_object_name(mem), sm_head(mem), head);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(mem, side) && !(head & sm_bits_of(mem, side)))
            sm_copy_of(mem, side)->arriving = false;
    atomic_store_explicit(&mem->head, (unsigned char)head, memory_order_relaxed);
}

void sm_object_init(struct synced_mem *mem)
{
    sm_mutex_init(&mem->lock);
    mem->generation = sm_process_generation();
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_put_copy(mem, side, NULL);
    sm_set_head(mem, SYNCED_MEM_UNINITIALIZED);
    publish_pointers(mem);
}

/* ---- The lock ---- */

void sm_lock_object(struct synced_mem *mem)
{
    sm_process_enter();
    sm_mutex_lock(&mem->lock);
}

/* Until publish_pointers() the hot path returns the pointers that were valid when the lock was taken. */
void sm_unlock_object(struct synced_mem *mem)
{
    publish_pointers(mem);
    assert(sm_object_is_valid(mem));
    sm_mutex_unlock(&mem->lock);
    sm_process_leave();
}

/* ---- Waiting ---- */

/* Returns whether lost contents stay marked as lost. They do in an only copy on the host, whose device was lost while
 * it filled the memory. No access to the host would otherwise notice that. */
static bool stays_lost(const struct synced_mem *mem, enum sm_side side)
{
    return side == SM_CPU && sm_head(mem) == SYNCED_MEM_AT_CPU && !sm_copy_is_shared(sm_copy_of(mem, side));
}

bool sm_is_lost(const struct synced_mem *mem)
{
    return stays_lost(mem, SM_CPU) && sm_inflight_lost(sm_copy_of(mem, SM_CPU));
}

/* Returns whether contents never arrived on a device that may still work: another device was lost that brought them, or
 * their staged transfer has failed. */
static bool has_failed_to_arrive(const struct sm_copy *copy, enum sm_side side, struct sm_fence *lost)
{
    if (side == SM_CPU && !sm_copy_is_shared(copy))
        return false;
    if (lost->device != copy->device)
        return true;
    if (side == SM_CPU || !lost->work)
        return false;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status why = sm_fence_wait_queued(lost);
    sm_detail_set(&first);
    return why != SYNCED_MEM_ERR_DEVICE_LOST;
}

/* Takes contents that were lost on arrival out of the head; the copy that they came from is still valid. If there is no
 * other valid copy the head stays: each access to the only copy reports that its device is lost. A shared copy loses
 * the host's bit, as the host's side comes first. A transfer from another object can fail although the device of the
 * memory works. Then no copy is valid. */
static void drop_lost_contents(struct synced_mem *mem, struct sm_fence **lost)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const copy = sm_copy_of(mem, side);
        struct sm_fence *const arrival = copy ? sm_inflight_lost(copy) : NULL;
        if (arrival) {
            if (lost && !*lost)
                *lost = sm_fence_hold(arrival);
            copy->arriving = stays_lost(mem, side);
            if (has_failed_to_arrive(copy, side, arrival))
                sm_set_head(mem, sm_head(mem) & ~sm_bits_of(mem, side));
            else if (sm_head(mem) & ~sm_bit(side))
                sm_set_head(mem, sm_head(mem) & ~sm_bit(side));
        }
    }
}

static synced_mem_status wait_for_fence_unlocked(synced_mem_status (*wait)(struct sm_fence *), struct synced_mem *mem,
                                                 struct sm_fence *fence, bool *over)
{
    sm_fence_hold(fence);
    sm_unlock_object(mem);
    const synced_mem_status status = wait(fence);
    sm_lock_object(mem);
    *over = !sm_fence_is_open(fence);
    drop_lost_contents(mem, NULL);
    sm_fence_drop(fence);
    return status;
}

synced_mem_status sm_wait_unlocked(struct synced_mem *mem, struct sm_fence *fence, bool *over)
{
    return wait_for_fence_unlocked(sm_fence_wait, mem, fence, over);
}

synced_mem_status sm_wait_queued_unlocked(struct synced_mem *mem, struct sm_fence *fence, bool *over)
{
    return wait_for_fence_unlocked(sm_fence_wait_queued, mem, fence, over);
}

/* ---- Calls ---- */

static unsigned count_given(const struct synced_mem *mem, enum sm_side side)
{
    return sm_copy_of(mem, side) ? sm_copy_of(mem, side)->given : 0;
}

synced_mem_status sm_enter(struct sm_transaction *transaction, struct synced_mem *mem)
{
    if (mem->generation != sm_process_generation() && sm_process_lost_gpu())
        return sm_fail(SYNCED_MEM_ERR_FORKED, "the object belongs to the parent process: a forked child can only read "
                                              "its valid host copy, or release it");
    sm_caller_set_object(mem, sm_object_name(mem));
    sm_lock_object(mem);
    *transaction = (struct sm_transaction){.mem = mem};
    drop_lost_contents(mem, &transaction->lost);
    transaction->head = sm_head(mem);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        transaction->given[side] = count_given(mem, side);
    return SYNCED_MEM_OK;
}

/* Restores the head after a failed call. The call may have made another side valid, but a side that had the contents
 * before still has them. A side whose pointer another thread's call has given out meanwhile stays valid. Device
 * pointers that were returned earlier are still good, so their uses are open again. */
static void restore_head(const struct sm_transaction *transaction)
{
    struct synced_mem *const mem = transaction->mem;
    drop_lost_contents(mem, NULL);
    unsigned head = sm_head(mem);
    if (sm_copy_of(mem, SM_GPU) && !transaction->ends_nothing)
        sm_inflight_reopen(sm_copy_of(mem, SM_GPU));
    const bool still = (head & transaction->head) == transaction->head;
    for (enum sm_side side = SM_CPU; still && side < SM_SIDES; side++)
        if (!(transaction->head & sm_bit(side)) && transaction->given[side] == count_given(mem, side))
            head &= ~sm_bit(side);
    sm_set_head(mem, head);
}

void sm_close_write(struct synced_mem *mem)
{
    if (sm_copy_of(mem, SM_GPU))
        sm_inflight_close(sm_copy_of(mem, SM_GPU));
}

static void leave_object(struct sm_transaction *transaction)
{
    sm_unlock_object(transaction->mem);
    sm_fence_drop(transaction->lost);
    for (int i = 0; i < SM_SIDES; i++)
        sm_copy_retire(transaction->detached[i]);
}

synced_mem_status sm_leave(struct sm_transaction *transaction, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK) {
        leave_object(transaction);
        return SYNCED_MEM_OK;
    }
    const struct sm_detail first = sm_detail_get();
    restore_head(transaction);
    leave_object(transaction);
    sm_detail_set(&first);
    return status;
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

void sm_detach_copy(struct sm_transaction *transaction, enum sm_side side)
{
    transaction->detached[side] = sm_take_copy(transaction->mem, side);
    sm_guard_forget(transaction->detached[side]); /* the same memory may be allocated again at once */
}
