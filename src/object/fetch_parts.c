/* Fetching for objects that may have several records. */
#include "object/fetch_parts.h"

#include "base/status.h"
#include "copy/fills.h"
#include "copy/host_transfer.h"
#include "copy/transfers.h"
#include "memory/guard.h"
#include "object/span.h"
#include "object/unified.h"
#include "object/user_allocator.h"
#include "stream/shared_ends.h"

#include <assert.h>
#include <stdlib.h>

/* The memory is of all parts, which other streams may use. So the caller's stream does not allocate it. */
synced_mem_status sm_fetch_memory(const struct synced_mem *mem, enum sm_side side, struct sm_stream *stream,
                                  bool may_unlock)
{
    struct synced_mem *const owner = sm_owner(mem);
    if (!sm_is_divided(owner))
        return SYNCED_MEM_OK;
    struct sm_record *const own = sm_own_record(owner);
    SM_TRY(sm_make_usable(own, side)); /* a part inherits work that nobody can wait for */
    if (sm_copy_of(own, side))
        return SYNCED_MEM_OK;
    if (stream && side == SM_GPU)
        SM_TRY(sm_internal_stream(stream->device, SM_INTERNAL_ALLOC, &stream));
    else
        SM_TRY(sm_fetch_stream(own, side, SM_NOTHING, false, &stream));
    if (may_unlock && sm_user_allocator_wanted(owner, side))
        return sm_user_allocator_obtain(owner, side, stream);
    return sm_make_memory(own, side, stream);
}

/* ---- Zeros on the host ---- */

static bool is_zeroed(const struct sm_record *record, enum sm_mode mode)
{
    return sm_work_of(record, SM_CPU, mode) == SM_ZERO;
}

/* Gives the record's host copy memory, and finds the wait before it may be written. */
static synced_mem_status find_wait_of_zeros(struct sm_record *record, struct sm_waits *waits)
{
    SM_TRY(sm_fetch(record, SM_CPU, SM_NOTHING, NULL, waits));
    SM_TRY(sm_inflight_settle(sm_copy_of(record, SM_CPU), true, NULL));
    return sm_waits_add(waits, sm_inflight_blocker(sm_copy_of(record, SM_CPU), true));
}

/* Enters the fill as the write of the record's host copy. The zeros are its contents already, and arrive. */
static void enter_zeros(struct sm_record *record, struct sm_fence *fence)
{
    struct sm_copy *const copy = sm_copy_of(record, SM_CPU);
    assert(!copy->read_only);
    sm_guard_open(copy);
    sm_inflight_written(copy, sm_fence_hold(fence));
    copy->arriving = true;
    sm_set_head(record, sm_head(record) | sm_bit(SM_CPU));
}

static struct sm_fence *begin_zeros(const struct sm_records *records, enum sm_mode mode, size_t count)
{
    struct sm_host_range *const ranges = calloc(count, sizeof *ranges);
    if (!ranges) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu fills", count);
        return NULL;
    }
    struct sm_host_range *range = ranges;
    for (size_t i = 0; i < records->count; i++)
        if (is_zeroed(records->list[i], mode))
            *range++ = (struct sm_host_range){.to = sm_copy_data(sm_copy_of(records->list[i], SM_CPU)),
                                              .size = sm_size_of(records->list[i])};
    struct sm_fence *const fence = sm_host_transfer_make(ranges, count);
    for (size_t i = 0; i < records->count && fence; i++)
        if (is_zeroed(records->list[i], mode))
            enter_zeros(records->list[i], fence);
    free(ranges);
    return fence;
}

/* Fills the pieces that have no contents. Calls may use other pieces meanwhile, so the host fills them with no lock
 * held: it does so when the caller waits. */
static synced_mem_status zero_parts(const struct sm_records *records, enum sm_mode mode, struct sm_waits *waits)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++)
        if (is_zeroed(records->list[i], mode)) {
            SM_TRY(sm_waits_go_on(waits, find_wait_of_zeros(records->list[i], waits)));
            count++;
        }
    if (waits->count > 0 || count == 0)
        return sm_waits_status(waits);
    struct sm_fence *const fence = begin_zeros(records, mode, count);
    if (!fence)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    (void)sm_waits_add(waits, fence);
    sm_fence_drop(fence);
    return SM_AGAIN;
}

/* ---- Zeros on the device ---- */

static bool is_zeroed_on_device(const struct sm_record *record, enum sm_mode mode)
{
    return sm_work_of(record, SM_GPU, mode) == SM_ZERO && !sm_shared_copy(record);
}

/* Gives the record's device copy memory, and makes the stream come after the work on it, or adds the wait that comes
 * first. Memory that both sides use is left to sm_fetch(): it was not known before the record had memory. */
static synced_mem_status prepare_device_zeros(struct sm_record *record, struct sm_stream *stream,
                                              struct sm_waits *waits)
{
    if (!sm_has_memory_to_write(record, SM_GPU))
        SM_TRY(sm_fetch(record, SM_GPU, SM_NOTHING, stream, waits));
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    SM_TRY(sm_waits_add_for(waits, sm_inflight_queueing(copy, true), SM_UNTIL_QUEUED));
    return waits->count > 0 || sm_shared_copy(record) ? SYNCED_MEM_OK : sm_transfer_order(copy, stream);
}

/* Picks the internal stream for all: one behind a caller's work if any of the fills may come after that. */
static synced_mem_status find_zeros_stream(const struct synced_mem *mem, const struct sm_records *records,
                                           enum sm_mode mode, struct sm_stream **stream)
{
    int device;
    struct sm_stream *ahead;
    SM_TRY(sm_device_resolve(sm_device(sm_owner(mem)), &device));
    SM_TRY(sm_internal_stream(device, SM_INTERNAL_ALLOC, &ahead));
    *stream = ahead;
    for (size_t i = 0; i < records->count && *stream == ahead; i++)
        if (is_zeroed_on_device(records->list[i], mode))
            SM_TRY(sm_fetch_stream(records->list[i], SM_GPU, SM_ZERO, false, stream));
    return SYNCED_MEM_OK;
}

/* Lists the fills of the pieces that have no contents, unless all are listed; if there are waits, of some, as none is
 * sent then. */
static synced_mem_status list_device_zeros(struct sm_listing *listing, enum sm_mode mode, struct sm_stream *stream,
                                           struct sm_waits *waits)
{
    const struct sm_records *const records = &listing->records;
    const size_t count = listing->needs.count[SM_ZERO][false];
    if (listing->zeros && listing->zeros->count == count)
        return SYNCED_MEM_OK;
    sm_listing_drop_zeros(listing);
    listing->zeros = sm_fills_make(stream, count);
    if (!listing->zeros)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu fills", count);
    listing->zeros->have_others = true;
    for (size_t i = records->count; i-- > 0;) {
        struct sm_record *const each = records->list[i];
        sm_prefetch_listed_back(records, i, sm_bit(SM_GPU));
        if (!is_zeroed_on_device(each, mode))
            continue;
        if (!sm_is_ready_for_zeros(each, stream))
            SM_TRY(sm_waits_go_on(waits, prepare_device_zeros(each, stream, waits)));
        if (waits->count == 0 && !sm_shared_copy(each))
            sm_fills_add(listing->zeros, sm_copy_of(each, SM_GPU), sm_size_of(each));
    }
    return sm_waits_status(waits);
}

/* Enters the fills that were sent, also if they have failed. */
static void enter_device_zeros(const struct sm_listing *listing, enum sm_mode mode, synced_mem_status status)
{
    const struct sm_records *const records = &listing->records;
    const struct sm_fills *const zeros = listing->zeros;
    struct sm_replaced replaced = {.uses = NULL};
    for (size_t i = 0; i < records->count && (zeros->is_sent || zeros->is_untracked); i++) {
        struct sm_record *const each = records->list[i];
        struct sm_copy *const copy = sm_copy_of(each, SM_GPU);
        sm_prefetch_listed(records, i, SM_BOTH_SIDES);
        if (!is_zeroed_on_device(each, mode))
            continue;
        if (zeros->is_untracked) {
            sm_inflight_untrack(copy, SM_UNTRACKED_WRITE, zeros->stream);
            continue;
        }
        sm_inflight_written_of_several(copy, zeros->fence, &replaced);
        copy->arriving = zeros->fence && status == SYNCED_MEM_OK;
        if (status == SYNCED_MEM_OK)
            sm_set_head(each, sm_head(each) | sm_bit(SM_GPU));
    }
    sm_replaced_drop(&replaced);
}

void sm_keep_zeros(struct sm_listing *listing, enum sm_mode mode)
{
    if (!listing->is_filled)
        return;
    listing->is_filled = false;
    enter_device_zeros(listing, mode, SYNCED_MEM_OK);
    sm_listing_drop_zeros(listing);
}

/* Fills the pieces that have no contents, with one event for all. If the stream is the caller's and the listing has no
 * others, the access enters the fills when it gives the stream the pointers. *filled: gets their number. */
static synced_mem_status zero_device_parts(const struct synced_mem *mem, struct sm_listing *listing, enum sm_mode mode,
                                           struct sm_stream *stream, struct sm_waits *waits, size_t *filled)
{
    const bool is_callers = stream != NULL;
    struct sm_shared_ends ends;
    if (!stream)
        SM_TRY(find_zeros_stream(mem, &listing->records, mode, &stream));
    sm_share_ends(&ends);
    synced_mem_status status = list_device_zeros(listing, mode, stream, waits);
    if (status == SYNCED_MEM_OK)
        status = sm_fills_send(listing->zeros, 0);
    sm_share_no_ends();
    if (!listing->zeros)
        return status;
    *filled = listing->zeros->count;
    listing->is_filled = status == SYNCED_MEM_OK && is_callers && *filled == listing->records.count;
    if (!listing->is_filled) {
        enter_device_zeros(listing, mode, status);
        sm_listing_drop_zeros(listing);
    }
    return status;
}

/* ---- Several transfers ---- */

static bool is_moved(const struct sm_record *record, enum sm_side side, enum sm_mode mode)
{
    return sm_work_of(record, side, mode) == SM_MOVE && !sm_shared_copy(record);
}

static void set_side_valid(struct sm_record *record, enum sm_side side)
{
    sm_set_head(record, sm_head(record) | sm_bit(side));
}

/* Queues each transfer that is ready, and collects the waits of the others. queued: gets the record of each queued
 * one. */
static synced_mem_status queue_records(const struct sm_records *records, enum sm_side side, enum sm_mode mode,
                                       struct sm_stream *stream, struct sm_transfers *transfers,
                                       struct sm_record **queued, struct sm_waits *waits)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < records->count && status == SYNCED_MEM_OK; i++) {
        struct sm_record *const each = records->list[i];
        if (!is_moved(each, side, mode))
            continue;
        struct sm_transfer *const transfer = sm_transfers_next(transfers);
        status = sm_make_usable(each, side);
        if (status == SYNCED_MEM_OK)
            status = sm_queue_move(each, side, stream, &transfers->batch, transfer, waits);
        if (status == SYNCED_MEM_OK && transfer->staged) {
            set_side_valid(each, side);
        } else if (status == SYNCED_MEM_OK) {
            queued[transfers->queued++] = each;
        }
        status = sm_waits_go_on(waits, status);
    }
    return status;
}

bool sm_moves_follow_work(const struct synced_mem *mem, enum sm_side side)
{
    bool follows = false;
    for (struct sm_record *each = sm_first_record(mem); each && !follows; each = sm_next_record(mem, each))
        follows = sm_move_follows_work(each, side);
    return follows;
}

/* Moves the records of an access, with one event for all. What is queued is entered in any case. */
static synced_mem_status move_records(const struct synced_mem *mem, const struct sm_records *records, enum sm_side side,
                                      enum sm_mode mode, size_t count, struct sm_stream *stream, struct sm_waits *waits)
{
    struct row {
        struct sm_transfers_row row;
        struct sm_record *record;
    };
    struct sm_transfers transfers = {.batch.direction = side == SM_GPU ? SM_H2D : SM_D2H};
    struct sm_shared_ends ends;
    if (!stream)
        SM_TRY(sm_fetch_stream(sm_first_record(mem), side, SM_MOVE, sm_moves_follow_work(mem, side), &stream));
    struct row *const block = calloc(count, sizeof *block);
    if (!block)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu transfers", count);
    struct sm_record **const moved = sm_transfers_lay_out(&transfers, block, count);
    sm_batch_begin(&transfers.batch, stream);
    sm_share_ends(&ends);
    synced_mem_status status = queue_records(records, side, mode, stream, &transfers, moved, waits);
    sm_share_no_ends();
    const size_t queued = transfers.queued;
    if (status == SYNCED_MEM_OK || status == SM_AGAIN) {
        status = sm_transfers_enter(&transfers, stream);
        for (size_t i = 0; i < queued && status == SYNCED_MEM_OK; i++)
            set_side_valid(moved[i], side);
    } else {
        status = sm_transfers_enter_unsent(&transfers, stream, status);
    }
    free(block);
    return status == SYNCED_MEM_OK ? sm_waits_status(waits) : status;
}

/* ---- Loads ---- */

/* Reads the records that are in files alone by one job. What was added is read even after a failure. */
static synced_mem_status load_records(const struct sm_records *records, enum sm_side side, enum sm_mode mode,
                                      size_t count, const struct sm_stream *stream, struct sm_waits *waits)
{
    struct sm_file_reads reads = {.room = count};
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < records->count && status == SYNCED_MEM_OK; i++) {
        if (sm_work_of(records->list[i], side, mode) != SM_LOAD)
            continue;
        status = sm_queue_load(records->list[i], side, stream, &reads, waits);
        if (status == SYNCED_MEM_OK)
            set_side_valid(records->list[i], side);
        status = sm_waits_go_on(waits, status);
    }
    sm_file_reads_begin(&reads);
    return status == SYNCED_MEM_OK ? sm_waits_status(waits) : status;
}

/* ---- An access ---- */

/* Does the work of each record alone. */
static synced_mem_status fetch_each(const struct sm_records *records, enum sm_side side, enum sm_mode mode,
                                    struct sm_stream *stream, struct sm_waits *waits)
{
    for (size_t i = 0; i < records->count; i++) {
        struct sm_record *const each = records->list[i];
        SM_TRY(sm_waits_go_on(waits, sm_fetch(each, side, sm_work_of(each, side, mode), stream, waits)));
    }
    return sm_waits_status(waits);
}

static size_t count_needs(const struct sm_needs *needs, enum sm_work work)
{
    return needs->count[work][false] + needs->count[work][true];
}

static size_t count_all_needs(const struct sm_needs *needs)
{
    size_t count = 0;
    for (enum sm_work work = SM_NOTHING; work < SM_WORKS; work++)
        count += count_needs(needs, work);
    return count;
}

/* Does the work that several records have in common at once. If there is none, does that of each alone. *fetched: there
 * was work other than fills on the device, so the caller looks again. */
static synced_mem_status fetch_parts(const struct synced_mem *mem, struct sm_listing *listing, enum sm_side side,
                                     enum sm_mode mode, struct sm_stream *stream, bool *fetched, struct sm_waits *waits)
{
    const struct sm_records *const records = &listing->records;
    const size_t moves = listing->needs.count[SM_MOVE][false];
    const size_t loads = count_needs(&listing->needs, SM_LOAD);
    const size_t all = count_all_needs(&listing->needs);
    const bool has_several = !sm_has_one_record(mem);
    const bool moves_several = moves > 1;
    const bool loads_several = loads > 0 && has_several;
    const bool fills_on_device = side == SM_GPU && listing->needs.count[SM_ZERO][false] > 1;
    const bool fills_several = fills_on_device || (side == SM_CPU && count_needs(&listing->needs, SM_ZERO) > 0);
    size_t filled = 0;
    *fetched = all > 0;
    SM_TRY(sm_fetch_memory(mem, side, stream, true));
    if (all == 0)
        return SYNCED_MEM_OK;
    if (moves_several)
        SM_TRY(move_records(mem, records, side, mode, moves, stream, waits));
    if (loads_several)
        SM_TRY(load_records(records, side, mode, loads, stream, waits));
    if (fills_on_device)
        SM_TRY(zero_device_parts(mem, listing, mode, stream, waits, &filled));
    else if (fills_several)
        SM_TRY(zero_parts(records, mode, waits));
    else if (!moves_several && !loads_several)
        SM_TRY(fetch_each(records, side, mode, stream, waits));
    *fetched = !fills_on_device || all > filled;
    if (*fetched)
        sm_listing_find_needs(listing, side, mode);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fetch_for_access(struct synced_mem *mem, struct sm_listing *listing, enum sm_side side,
                                      enum sm_mode mode, struct sm_stream *stream, bool *fetched,
                                      struct sm_waits *waits)
{
    if (sm_is_divided(mem))
        return fetch_parts(mem, listing, side, mode, stream, fetched, waits);
    struct sm_record *const own = sm_own_record(mem);
    const enum sm_work work = sm_work_of(own, side, mode);
    *fetched = work != SM_NOTHING;
    return sm_fetch_for_one_access(own, side, work, stream, waits);
}
