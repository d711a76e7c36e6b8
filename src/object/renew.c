/* The replacement of read-only memory. */
#include "object/renew.h"

#include "base/status.h"
#include "copy/host_transfer.h"
#include "copy/transfer.h"
#include "object/borrowed.h"
#include "object/exports.h"
#include "object/fetch.h"
#include "object/piece.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/user_allocator.h"

#include <stdlib.h>
#include <string.h>

bool sm_access_needs_renewal(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    if (!sm_is_read_only(mem, side))
        return false;
    bool writes = mode != SM_READ;
    for (struct sm_record *each = sm_first_record(mem); each && !writes; each = sm_next_record(mem, each))
        writes = sm_transitions[sm_head(each)][side][mode].work != SM_NOTHING;
    return writes;
}

/* ---- Contents ---- */

/* A renewal in progress. */
struct renewing {
    struct sm_transaction *transaction;
    struct synced_mem *owner;
    enum sm_side side;
    bool overwrites;
    struct sm_stream *stream; /* the caller's; NULL: the host waits */
};

static bool is_overwritten(const struct renewing *renewing, const struct sm_record *record)
{
    const struct synced_mem *const mem = renewing->transaction->mem;
    const size_t begin = sm_begin_of(record);
    return renewing->overwrites && begin >= sm_object_begin(mem) && begin < sm_object_begin(mem) + sm_size(mem);
}

/* An overwritten object of 0 bytes has no contents to keep either. */
static bool is_kept(const struct renewing *renewing, const struct sm_record *record)
{
    return (sm_head(record) & sm_bit(renewing->side)) && sm_size_of(record) > 0 && !is_overwritten(renewing, record);
}

static size_t count_kept_records(const struct renewing *renewing)
{
    size_t count = 0;
    for (struct sm_record *each = sm_first_record(renewing->owner); each; each = sm_next_record(renewing->owner, each))
        count += is_kept(renewing, each);
    return count;
}

/* Finds the wait for contents that the host copies. Returns why contents were lost. */
static synced_mem_status find_arrival(const struct renewing *renewing)
{
    for (struct sm_record *each = sm_first_record(renewing->owner); each;
         each = sm_next_record(renewing->owner, each)) {
        if (!is_kept(renewing, each))
            continue;
        struct sm_copy *const copy = sm_copy_of(each, SM_CPU);
        struct sm_fence *const lost = sm_inflight_lost(copy);
        SM_TRY(lost ? sm_fence_wait_queued(lost) : sm_inflight_settle(copy, false, NULL));
        SM_TRY(sm_waits_add(&renewing->transaction->waits, sm_inflight_unfinished(copy, false)));
    }
    return SYNCED_MEM_OK;
}

/* Copies the contents of an undivided object. */
static void copy_on_host(const struct renewing *renewing, const struct sm_copy *from, const struct sm_copy *to)
{
    if (is_kept(renewing, sm_own_record(renewing->owner)))
        memcpy(sm_copy_data(to), sm_copy_data(from), sm_size(renewing->owner));
}

static void list_kept_ranges(const struct renewing *renewing, const struct sm_copy *from, const struct sm_copy *to,
                             struct sm_host_range *ranges)
{
    for (struct sm_record *each = sm_first_record(renewing->owner); each; each = sm_next_record(renewing->owner, each))
        if (is_kept(renewing, each))
            *ranges++ = (struct sm_host_range){.to = (char *)sm_copy_data(to) + sm_begin_of(each),
                                               .from = (const char *)sm_copy_data(from) + sm_begin_of(each),
                                               .size = sm_size_of(each)};
}

/* Makes a transfer of all contents that are kept. NULL: the system has no memory. */
static struct sm_fence *make_host_transfer(const struct renewing *renewing, const struct sm_copy *from,
                                           const struct sm_copy *to, size_t count)
{
    struct sm_host_range *const ranges = calloc(count, sizeof *ranges);
    if (!ranges) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu copies", count);
        return NULL;
    }
    list_kept_ranges(renewing, from, to, ranges);
    struct sm_fence *const fence = sm_host_transfer_make(ranges, count);
    free(ranges);
    return fence;
}

/* Enters the transfer as a read of each kept piece. Some may be entered after a failure. */
static synced_mem_status enter_reads(const struct renewing *renewing, struct sm_fence *fence)
{
    struct sm_use *earlier = NULL;
    synced_mem_status status = SYNCED_MEM_OK;
    for (struct sm_record *each = sm_first_record(renewing->owner); each && status == SYNCED_MEM_OK;
         each = sm_next_record(renewing->owner, each)) {
        if (!is_kept(renewing, each))
            continue;
        struct sm_use *const use = sm_inflight_reserve();
        if (use)
            sm_inflight_read(sm_copy_of(each, SM_CPU), use, sm_fence_hold(fence), &earlier);
        else
            status = SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    }
    sm_uses_free(earlier);
    return status;
}

/* Begins to copy the contents of a root in parts, for which no lock is held. Memory that is read-only gets no other
 * contents meanwhile, but some of them may become stale. */
static synced_mem_status begin_host_copy(const struct renewing *renewing, const struct sm_copy *from)
{
    struct sm_renewal *const renewal = &renewing->transaction->renewal;
    const size_t count = count_kept_records(renewing);
    struct sm_fence *fence = NULL;
    if (count > 0) {
        fence = make_host_transfer(renewing, from, renewal->copy, count);
        const synced_mem_status status = fence ? enter_reads(renewing, fence) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        if (status != SYNCED_MEM_OK) {
            if (fence)
                sm_fence_close(fence, SM_FENCE_DONE, false);
            sm_fence_drop(fence);
            return status;
        }
    }
    sm_inflight_written(renewal->copy, fence);
    renewal->is_filled = true;
    return sm_waits_add(&renewing->transaction->waits, fence);
}

/* The work on each piece is in its own part. That on an undivided object is the transfer's to wait for. */
static synced_mem_status order_after_pieces(const struct renewing *renewing, struct sm_stream *stream)
{
    if (!sm_is_divided(renewing->owner))
        return SYNCED_MEM_OK;
    for (struct sm_record *each = sm_first_record(renewing->owner); each; each = sm_next_record(renewing->owner, each))
        if (is_kept(renewing, each))
            SM_TRY(sm_inflight_order(sm_copy_of(each, SM_GPU), false, stream));
    return SYNCED_MEM_OK;
}

/* Copies all of the memory, since pieces without contents do no harm. */
static synced_mem_status queue_device_copy(const struct renewing *renewing, struct sm_copy *from, struct sm_copy *to,
                                           struct sm_stream *stream)
{
    struct sm_transfer transfer = {.direction = SM_D2D, .to = to, .from = from, .size = sm_size(renewing->owner)};
    if (count_kept_records(renewing) == 0) /* an allocator's memory has a fence already */
        return to->source == SYNCED_MEM_SOURCE_ALLOCATOR ? SYNCED_MEM_OK : sm_transfer_none(to, stream);
    SM_TRY(order_after_pieces(renewing, stream));
    SM_TRY(sm_transfer_queue(&transfer, stream));
    return sm_transfer_enter(&transfer, 1, stream);
}

/* ---- Memory ---- */

static void give_up_renewal(struct sm_transaction *transaction)
{
    if (transaction->renewal.copy)
        sm_retire_later(transaction, transaction->renewal.copy);
    transaction->renewal = (struct sm_renewal){.copy = NULL};
}

/* Memory that was obtained for other memory than the object has by now is of no use. */
static void begin_renewal(struct sm_transaction *transaction, const struct sm_copy *from)
{
    struct sm_renewal *const renewal = &transaction->renewal;
    if (renewal->from == from && renewal->writes == from->writes)
        return;
    give_up_renewal(transaction);
    renewal->from = from;
    renewal->writes = from->writes;
}

/* The stream in whose order new memory is usable, and contents are copied. */
static synced_mem_status find_working_stream(const struct renewing *renewing, struct sm_stream **stream)
{
    *stream = renewing->stream;
    if (*stream)
        return SYNCED_MEM_OK;
    return sm_internal_stream_behind(sm_device(renewing->owner), SM_INTERNAL_MOVE_BEHIND, stream);
}

static synced_mem_status obtain_from_allocator(const struct renewing *renewing, const struct sm_allocator *allocator)
{
    struct sm_stream *stream = NULL;
    if (renewing->side == SM_GPU)
        SM_TRY(find_working_stream(renewing, &stream));
    SM_TRY(sm_user_allocator_obtain_unlocked(renewing->owner, allocator, sm_size(renewing->owner), stream,
                                             &renewing->transaction->renewal.copy));
    return SM_AGAIN;
}

/* After a failure the next user of the memory has to come after its allocation. An allocator's memory has a fence for
 * that, perhaps of another stream. */
static synced_mem_status fill_device_renewal(const struct renewing *renewing, struct sm_copy *from)
{
    struct sm_renewal *const renewal = &renewing->transaction->renewal;
    struct sm_stream *stream;
    SM_TRY(find_working_stream(renewing, &stream));
    const bool fresh = !renewal->copy;
    if (fresh)
        SM_TRY(sm_obtain_device(renewing->owner, sm_size(renewing->owner), stream, &renewal->copy));
    const synced_mem_status status = queue_device_copy(renewing, from, renewal->copy, stream);
    renewal->is_filled = status == SYNCED_MEM_OK;
    if (fresh && status != SYNCED_MEM_OK && !renewal->copy->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_none(renewal->copy, stream);
        sm_detail_set(&first);
    }
    return status;
}

/* A stream comes after the copy, which is on it. Without one the host waits, so that a failed copy loses no
 * contents. */
static synced_mem_status finish_device_renewal(const struct renewing *renewing, struct sm_copy *from)
{
    const struct sm_renewal *const renewal = &renewing->transaction->renewal;
    if (!renewal->is_filled)
        SM_TRY(fill_device_renewal(renewing, from));
    if (renewing->stream)
        return SYNCED_MEM_OK;
    struct sm_fence *const lost = sm_inflight_lost(renewal->copy);
    SM_TRY(lost ? sm_fence_wait_queued(lost) : SYNCED_MEM_OK);
    return sm_waits_add(&renewing->transaction->waits, sm_inflight_unfinished(renewal->copy, true));
}

/* Obtains the memory, and finds the wait for the contents. */
static synced_mem_status prepare_renewal(const struct renewing *renewing, struct sm_copy *from)
{
    struct sm_copy **const copy = &renewing->transaction->renewal.copy;
    const struct sm_allocator *const allocator = sm_object_allocator(renewing->owner, renewing->side);
    if (!*copy && allocator)
        return obtain_from_allocator(renewing, allocator);
    if (renewing->side == SM_GPU)
        return finish_device_renewal(renewing, from);
    if (!*copy)
        SM_TRY(sm_obtain_host(renewing->owner, sm_size(renewing->owner), false, copy));
    if (renewing->transaction->renewal.is_filled)
        return SYNCED_MEM_OK;
    SM_TRY(find_arrival(renewing));
    return sm_is_divided(renewing->owner) ? begin_host_copy(renewing, from) : SYNCED_MEM_OK;
}

/* ---- Replacing ---- */

/* Calls notice by these counts that another one has given out a pointer. */
static void take_over_counts(const struct synced_mem *owner, enum sm_side side, struct sm_copy *to,
                             struct sm_copy *parts)
{
    to->given = sm_copy_of(sm_own_record(owner), side)->given;
    for (const struct sm_piece *each = owner->at.first; each && parts; each = each->after) {
        const struct sm_copy *const part = sm_copy_of(&each->record, side);
        parts->given = part ? part->given : to->given;
        parts = parts->next;
    }
}

static synced_mem_status put_renewal(const struct renewing *renewing)
{
    struct synced_mem *const owner = renewing->owner;
    struct sm_renewal *const renewal = &renewing->transaction->renewal;
    struct sm_copy *const from = sm_copy_of(sm_own_record(owner), renewing->side);
    struct sm_copy *parts = NULL;
    if (sm_is_divided(owner)) {
        SM_TRY(sm_gather_parts(owner, renewing->side));
        SM_TRY(sm_make_parts(owner, renewal->copy, &parts));
    }
    if (renewing->side == SM_CPU && !renewal->is_filled)
        copy_on_host(renewing, from, renewal->copy);
    take_over_counts(owner, renewing->side, renewal->copy, parts);
    if (parts)
        sm_drop_parts(owner, renewing->side);
    sm_detach_copy_of(renewing->transaction, owner, renewing->side);
    sm_put_copy(sm_own_record(owner), renewing->side, renewal->copy);
    if (parts)
        sm_put_parts(owner, renewing->side, parts);
    *renewal = (struct sm_renewal){.copy = NULL};
    for (struct sm_record *each = sm_first_record(owner); each; each = sm_next_record(owner, each))
        sm_publish(each);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_renew(struct sm_transaction *transaction, enum sm_side side, bool overwrites,
                           struct sm_stream *stream)
{
    const struct renewing renewing = {.transaction = transaction,
                                      .owner = sm_owner(transaction->mem),
                                      .side = side,
                                      .overwrites = overwrites,
                                      .stream = stream};
    if (!sm_is_read_only(transaction->mem, side))
        return SYNCED_MEM_OK;
    SM_TRY(sm_check_not_exported(renewing.owner, side));
    struct sm_copy *const from = sm_copy_of(sm_own_record(renewing.owner), side);
    begin_renewal(transaction, from);
    SM_TRY(prepare_renewal(&renewing, from));
    SM_TRY(sm_find_wait_of_borrowed(renewing.owner, side, &transaction->waits));
    return put_renewal(&renewing);
}

static synced_mem_status renew_and_wait(struct sm_transaction *transaction, enum sm_side side)
{
    synced_mem_status status;
    do
        status = sm_renew(transaction, side, false, NULL);
    while (sm_wait_again(transaction, &status) || transaction->over);
    return status;
}

static synced_mem_status make_writable(struct synced_mem *mem, enum sm_side side)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter_restoring_nothing(&transaction, mem));
    return sm_leave(&transaction, renew_and_wait(&transaction, side));
}

synced_mem_status sm_obtain_alone(struct synced_mem *owner, enum sm_side side, struct sm_stream *stream)
{
    struct sm_transaction transaction;
    SM_TRY(make_writable(owner, side));
    SM_TRY(sm_enter_restoring_nothing(&transaction, owner));
    const synced_mem_status status = sm_user_allocator_obtain(owner, side, stream);
    return sm_leave(&transaction, status == SM_AGAIN ? SYNCED_MEM_OK : status);
}
