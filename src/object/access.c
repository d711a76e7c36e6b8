/* Accesses to one object. */
#include "object/access.h"

#include "copy/fills.h"
#include "memory/guard.h"
#include "object/fetch_parts.h"
#include "object/host_only.h"
#include "object/publish.h"
#include "object/reclaim.h"
#include "object/renew.h"
#include "object/gate.h"
#include "object/span.h"
#include "stream/shared_ends.h"
#include "stream/stream_set.h"
#include "base/status.h"

#include <stdlib.h>

/* ---- Waits ---- */

static bool is_record_survivable(const struct sm_record *record, enum sm_side side, enum sm_mode mode,
                                 synced_mem_status why)
{
    const bool has_contents = side == SM_CPU && (sm_head(record) & sm_bit(SM_CPU)) && !sm_is_lost(record);
    const bool is_usable = side == SM_CPU || why != SYNCED_MEM_ERR_DEVICE_LOST;
    return has_contents || (mode == SM_OVERWRITE && is_usable);
}

/* Returns whether the access can go on after failed work, which no longer touches the memory. The contents must be
 * there or not matter. Of a lost device only the host's memory is usable. */
static bool is_survivable(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode, synced_mem_status why)
{
    bool survivable = true;
    for (struct sm_record *each = sm_first_record(mem); each && survivable; each = sm_next_record(mem, each))
        survivable = is_record_survivable(each, side, mode, why);
    return survivable;
}

/* Renews the side if the access would write read-only memory, and waits until it is done. stream NULL: the host
 * accesses, or any stream. *ready: it did, and an overwrite has nothing else to wait for. So nothing can fail that
 * would lose the old contents. */
static synced_mem_status renew_side(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode,
                                    struct sm_stream *stream, bool *ready)
{
    struct synced_mem *const mem = transaction->mem;
    synced_mem_status status;
    *ready = false;
    do {
        /* While the lock is released, another call may put the object on another device. A stream gets no pointer to
         * another device's memory. */
        if (stream && sm_device(mem) >= 0 && sm_device(mem) != stream->device)
            return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE,
                           "the stream is on device %d, but another call has put the object on device %d",
                           stream->device, sm_device(mem));
        if (!sm_access_needs_renewal(mem, side, mode))
            return SYNCED_MEM_OK;
        status = sm_renew(transaction, side, mode == SM_OVERWRITE, stream);
    } while (sm_wait_again(transaction, &status) || transaction->waits_ended);
    *ready = status == SYNCED_MEM_OK && mode == SM_OVERWRITE;
    return status;
}

/* Returns the stream whose uses an access of the side is among; NULL: the host accesses, or the device is not known
 * yet. */
static struct sm_stream *find_user(const struct synced_mem *mem, enum sm_side side, struct sm_stream *stream)
{
    if (stream || side == SM_CPU || sm_device(mem) < 0)
        return stream;
    return sm_stream_any(sm_device(mem));
}

/* Collects what an access without a stream waits for, once each record's side has memory and contents. Uses that a lost
 * device has ended need no event. Contents that were arriving may be lost with the device. An overwrite ignores
 * that. */
static synced_mem_status find_host_waits(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode)
{
    const struct sm_records *const records = &transaction->listing.records;
    struct sm_waits *const waits = &transaction->waits;
    const bool writes = mode != SM_READ;
    const struct sm_stream *const by = find_user(transaction->mem, side, NULL);
    for (size_t i = 0; i < records->count; i++) {
        struct sm_record *const each = records->list[i];
        struct sm_copy *const copy = sm_copy_of(each, side);
        const synced_mem_status status = sm_inflight_settle(copy, writes, by);
        if (status != SYNCED_MEM_OK &&
            !(status == SYNCED_MEM_ERR_DEVICE_LOST && is_record_survivable(each, side, mode, status)))
            return status;
        struct sm_fence *const blocker =
            mode == SM_OVERWRITE ? sm_inflight_unfinished(copy, true) : sm_inflight_blocker(copy, writes);
        SM_TRY(sm_waits_go_on(waits, sm_waits_add(waits, blocker)));
    }
    return sm_waits_status(waits);
}

/* Makes the stream wait for all work, or collects what the host waits for before it can. */
static synced_mem_status order_stream(struct sm_transaction *transaction, enum sm_mode mode, struct sm_stream *stream)
{
    const struct sm_records *const records = &transaction->listing.records;
    struct sm_waits *const waits = &transaction->waits;
    for (size_t i = records->count; i-- > 0;) {
        sm_prefetch_listed_back(records, i, sm_bit(SM_GPU));
        struct sm_copy *const copy = sm_copy_of(records->list[i], SM_GPU);
        if (sm_inflight_is_behind(stream, copy, mode != SM_READ))
            continue;
        struct sm_fence *const fence = sm_inflight_unqueued(copy, mode != SM_READ);
        SM_TRY(sm_waits_go_on(waits, sm_waits_add_for(waits, fence, SM_UNTIL_QUEUED)));
        if (waits->count == 0)
            SM_TRY(sm_inflight_order(copy, mode != SM_READ, stream));
    }
    return sm_waits_status(waits);
}

/* Gives the side memory and contents. Then finds what the host waits for, or makes the stream wait unless it is NULL.
 * Several records share the ends of uses: one event on a stream serves for all. *is_there: the memory and the contents
 * are there, or arriving. */
static synced_mem_status find_waits(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode,
                                    struct sm_stream *stream, bool *is_there)
{
    struct synced_mem *const mem = transaction->mem;
    struct sm_shared_ends ends;
    bool ready;
    bool fetched = true;
    *is_there = false;
    struct sm_listing *const listing = &transaction->listing;
    if (sm_access_needs_renewal(mem, side, mode)) /* which concerns all records */
        SM_TRY(sm_listing_fill(listing, mem, side, NULL, mode));
    SM_TRY(renew_side(transaction, side, mode, stream, &ready));
    SM_TRY(sm_listing_fill(listing, mem, side, find_user(mem, side, stream), mode));
    while (!ready && fetched)
        SM_TRY(sm_fetch_for_access(mem, listing, side, mode, stream, &fetched, &transaction->waits));
    *is_there = true;
    if (ready || listing->is_filled)
        return SYNCED_MEM_OK;
    const bool shares = !sm_has_one_record(mem);
    if (shares)
        sm_share_ends(&ends);
    const synced_mem_status status =
        stream ? order_stream(transaction, mode, stream) : find_host_waits(transaction, side, mode);
    if (shares)
        sm_share_no_ends();
    return status;
}

/* Makes the side's copy ready for the host, or unless it is NULL for the stream. On a stream, a failure of work that
 * the contents come after is the access's own. */
static synced_mem_status make_copy_ready(struct sm_transaction *transaction, enum sm_side side, enum sm_mode mode,
                                         struct sm_stream *stream)
{
    synced_mem_status status;
    bool is_there;
    do
        status = find_waits(transaction, side, mode, stream, &is_there);
    while (sm_wait_again(transaction, &status) ||
           (transaction->waits_ended && (is_there || !stream) && is_survivable(transaction->mem, side, mode, status)));
    return status;
}

/* ---- Accesses ---- */

/* Reserves a place among the readers of each record's device copy that may need one, for an access that reads.
 * *reserved: gets a list. */
static synced_mem_status reserve_reads(const struct sm_listing *listing, enum sm_mode mode, struct sm_use **reserved)
{
    const size_t readers = listing->is_filled ? listing->zeros->new_readers : listing->records.count;
    const size_t count = mode == SM_READ ? readers : 0;
    *reserved = count > 1 ? sm_inflight_reserve_many(count) : NULL;
    struct sm_use **link = reserved;
    for (size_t i = 0; i < count; i++) {
        if (!*link)
            *link = sm_inflight_reserve();
        if (!*link)
            return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        link = &(*link)->next;
    }
    return SYNCED_MEM_OK;
}

/* Counts the call for the record, and sets its next head. */
static void finish_record(struct sm_record *record, enum sm_side side, enum sm_mode mode)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    sm_count_given(record, side);
    if (mode == SM_OVERWRITE)
        copy->arriving = false;
    sm_set_head(record, sm_transitions[sm_whole_head(record)][side][mode].next);
    if (mode != SM_READ)
        sm_leave_file(record);
}

/* Returns the pointer of an access, which is the first record's. */
static void *get_pointer(const struct synced_mem *mem, enum sm_side side)
{
    return sm_copy_data(sm_copy_of(sm_first_record(mem), side));
}

/* Enters that the stream has the pointer of a record. */
static void give_record(const struct sm_record *record, struct sm_use **reserved, struct sm_stream *stream,
                        enum sm_mode mode, struct sm_replaced *replaced)
{
    struct sm_use *const use = *reserved;
    if (use) {
        *reserved = use->next;
        *use = (struct sm_use){.next = NULL};
    }
    sm_inflight_given(sm_copy_of(record, SM_GPU), use, stream, mode != SM_READ, replaced);
}

static inline __attribute__((always_inline)) void prefetch_given(const struct sm_records *records, size_t i)
{
    sm_prefetch_listed(records, i, SM_BOTH_SIDES);
    if (i + SM_AHEAD < records->count)
        sm_prefetch_hot(records->list[i + SM_AHEAD]);
}

/* Enters that the stream has the pointer of each record, and finishes the access. Of several records each is published
 * while the processor's cache has it. */
static void give_records(struct sm_transaction *transaction, struct sm_use **reserved, struct sm_stream *stream,
                         enum sm_mode mode, struct sm_replaced *replaced)
{
    const struct sm_records *const records = &transaction->listing.records;
    transaction->is_published = !sm_has_one_record(transaction->mem);
    for (size_t i = 0; i < records->count; i++) {
        struct sm_record *const each = records->list[i];
        prefetch_given(records, i);
        give_record(each, reserved, stream, mode, replaced);
        finish_record(each, SM_GPU, mode);
        if (transaction->is_published)
            sm_publish_piece(sm_piece_of(each));
    }
}

/* Does so for a listing that is filled. All pieces have the same head then, and the same is published of each. A piece
 * leaves the file that a write of lost contents has promised it. */
static void give_filled(struct sm_transaction *transaction, struct sm_use **reserved, struct sm_stream *stream,
                        enum sm_mode mode, struct sm_replaced *replaced)
{
    const struct sm_listing *const listing = &transaction->listing;
    const struct sm_records *const records = &listing->records;
    const struct sm_fills *const zeros = listing->zeros;
    unsigned *const latest = &sm_division_of(sm_root(transaction->mem))->given;
    const bool reads_alone = mode == SM_READ && zeros->new_readers == 0 && !zeros->have_others;
    const bool is_each_protected = sm_guard_on();
    struct sm_filled filled;
    transaction->is_published = true;
    for (size_t i = records->count; i-- > 0;) {
        struct sm_record *const each = records->list[i];
        struct sm_copy *const copy = sm_copy_of(each, SM_GPU);
        sm_prefetch_listed_back(records, i, SM_BOTH_SIDES);
        if (i >= SM_AHEAD)
            sm_prefetch_hot(records->list[i - SM_AHEAD]);
        sm_inflight_given_filled(copy, zeros->fence, reserved, stream, mode != SM_READ, reads_alone, replaced);
        sm_count_given_of_part(copy, latest);
        sm_set_head(each, sm_bit(SM_GPU));
        sm_leave_file(each);
        if (i == records->count - 1 || is_each_protected)
            sm_publish_filled(sm_piece_of(each), &filled);
        else
            sm_publish_filled_too(sm_piece_of(each), &filled);
    }
}

/* Gives the stream the listed records, with a hold on it for each. */
static void give_listed(struct sm_transaction *transaction, struct sm_use *reserved, struct sm_stream *stream,
                        enum sm_mode mode)
{
    struct sm_replaced replaced = {.uses = NULL};
    sm_stream_hold_often(stream, transaction->listing.records.count);
    if (transaction->listing.is_filled)
        give_filled(transaction, &reserved, stream, mode, &replaced);
    else
        give_records(transaction, &reserved, stream, mode, &replaced);
    sm_replaced_drop(&replaced);
    sm_inflight_unreserve_many(reserved);
}

/* Returns whether the memory is filled first, so that bytes the caller leaves unwritten show. */
static bool is_to_be_filled(enum sm_mode mode)
{
    return mode == SM_OVERWRITE && sm_guard_on();
}

/* Most work that the host's contents came after is over then, so its fences are polled. */
static synced_mem_status access_host(struct sm_transaction *transaction, enum sm_mode mode, void **out)
{
    struct synced_mem *const mem = transaction->mem;
    const struct sm_records *const records = &transaction->listing.records;
    SM_TRY(make_copy_ready(transaction, SM_CPU, mode, NULL));
    transaction->is_published = !sm_has_one_record(mem);
    for (size_t i = 0; i < records->count; i++) {
        struct sm_record *const each = records->list[i];
        sm_close_write(each);
        if (sm_copy_of(each, SM_GPU))
            sm_inflight_poll_write(sm_copy_of(each, SM_GPU));
        if (is_to_be_filled(mode))
            sm_fill_unwritten_host(each);
        finish_record(each, SM_CPU, mode);
        if (transaction->is_published)
            sm_publish(each);
    }
    *out = get_pointer(mem, SM_CPU);
    return SYNCED_MEM_OK;
}

/* A failure would lose the contents, which the fill has replaced. So the wait for the fill is tried twice. If another
 * side has the contents, they are not lost. The head of a lost device's only copy stays, so that each access reports
 * the loss. */
static synced_mem_status fill_device(struct sm_transaction *transaction, enum sm_mode mode, struct sm_stream *stream)
{
    struct synced_mem *const mem = transaction->mem;
    const struct sm_detail first = sm_detail_get();
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_fill_unwritten_device(each, stream);
    if (make_copy_ready(transaction, SM_GPU, mode, stream) == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    sm_detail_set(&first);
    const synced_mem_status status = make_copy_ready(transaction, SM_GPU, mode, stream);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
            sm_set_head(each, sm_head(each) & ~sm_bits_of(each, SM_GPU));
    return status;
}

/* stream NULL: the access names none. The fill is work of the library's own. A call that hands the caller's memory back
 * waits for it. */
static synced_mem_status access_device(struct sm_transaction *transaction, enum sm_mode mode, struct sm_stream *stream,
                                       void **out)
{
    struct synced_mem *const mem = transaction->mem;
    struct sm_use *reserved = NULL;
    synced_mem_status status = make_copy_ready(transaction, SM_GPU, mode, stream);
    if (status == SYNCED_MEM_OK && is_to_be_filled(mode))
        status = fill_device(transaction, mode, stream);
    if (status == SYNCED_MEM_OK)
        status = reserve_reads(&transaction->listing, mode, &reserved);
    if (status != SYNCED_MEM_OK) {
        sm_listing_enter_fills(&transaction->listing);
        sm_inflight_unreserve_many(reserved);
        return status;
    }
    give_listed(transaction, reserved, find_user(mem, SM_GPU, stream), mode);
    *out = get_pointer(mem, SM_GPU);
    return SYNCED_MEM_OK;
}

/* Returns the pointer to the device copy of an object in several parts if the stream has that of each in this mode. The
 * hot path does so for an object that is one record. Parts that are to be joined are left to the access. */
static bool give_parts(struct synced_mem *mem, enum sm_mode mode, const struct sm_stream *stream, void **out)
{
    if (sm_has_one_record(mem) || sm_division_of(sm_root(mem))->loose > 0 || !sm_listing_is_empty(mem, stream, mode))
        return false;
    *out = get_pointer(mem, SM_GPU);
    return true;
}

static synced_mem_status access_once(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out)
{
    struct sm_transaction transaction;
    synced_mem_status status;
    if (side == SM_CPU && sm_host_only_access(mem, mode, out, &status))
        return sm_reap_after(status, true);
    SM_TRY(sm_check_and_lock(mem));
    if (side == SM_GPU && sm_device(mem) >= 0 && give_parts(mem, mode, sm_stream_any(sm_device(mem)), out)) {
        sm_unlock_root(sm_root(mem));
        return SYNCED_MEM_OK;
    }
    sm_begin_access(&transaction, mem);
    status = side == SM_CPU ? access_host(&transaction, mode, out) : access_device(&transaction, mode, NULL, out);
    return sm_leave_and_reap(&transaction, status, true);
}

synced_mem_status sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    SM_TRY(sm_gate_begin(mem, side, mode));
    do
        status = access_once(mem, side, mode, out);
    while (sm_reclaim_helps(&reclaim, status));
    sm_gate_end(mem);
    return status;
}

static synced_mem_status make_valid_once(struct synced_mem *mem, enum sm_side side)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter(&transaction, mem));
    return sm_leave_and_reap(&transaction, make_copy_ready(&transaction, side, SM_READ, NULL), true);
}

synced_mem_status sm_make_valid(struct synced_mem *mem, enum sm_side side)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = make_valid_once(mem, side);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

/* ---- Accesses on a stream ---- */

/* Returns the pointer to a stream that captures. The graph's launch will use it, and the program accesses the object
 * again then. So this waits for nothing and tracks nothing. */
static synced_mem_status access_captured(const struct synced_mem *mem, enum sm_mode mode, void **out)
{
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        const unsigned head = sm_head(each);
        const struct sm_transition *const step = &sm_transitions[sm_whole_head(each)][SM_GPU][mode];
        const bool leaves_file = mode != SM_READ && sm_has_backing(each);
        if (step->work != SM_NOTHING || step->next != head || leaves_file ||
            sm_access_needs_renewal(mem, SM_GPU, mode) || sm_copy_of(each, SM_GPU)->untracked == SM_UNTRACKED_WRITE)
            return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                           "the stream is capturing, and this access needs a transfer, a fill or memory, or changes "
                           "the head: access the object before the capture");
    }
    *out = get_pointer(mem, SM_GPU);
    return SYNCED_MEM_OK;
}

bool sm_access_hot_together(const struct synced_mem *mem, synced_mem_stream handle, void **out)
{
    const struct sm_stream *const on = atomic_load_explicit(&mem->on[0], memory_order_acquire);
    if (atomic_load_explicit(&on->hot, memory_order_relaxed) != SM_HANDLE_OF_SET || !sm_stream_set_has(on, handle))
        return false;
    *out = atomic_load_explicit(atomic_load_explicit(&mem->gpu_data_at, memory_order_relaxed), memory_order_relaxed);
    return true;
}

/* Returns the pointer again to a stream that has it to read. The hot path does the same, but knows only the last of
 * several streams, until they are a set. */
static bool give_to_read_again(struct synced_mem *mem, synced_mem_stream handle, void **out)
{
    struct sm_record *const record = sm_first_record(mem);
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    if (!sm_has_one_record(mem) || !(sm_head(record) & sm_bit(SM_GPU)) || !sm_inflight_give_again(copy, handle))
        return false;
    sm_publish_readers_together(copy);
    finish_record(record, SM_GPU, SM_READ);
    *out = sm_copy_data(copy);
    return true;
}

static bool give_parts_again(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out)
{
    const struct sm_copy *const first = sm_slot_of(sm_first_record(mem), SM_GPU);
    struct sm_stream *const stream = mode == SM_READ ? sm_inflight_last_reader(first) : first->writer;
    return stream && atomic_load_explicit(&stream->hot, memory_order_relaxed) == handle &&
           give_parts(mem, mode, stream, out);
}

static synced_mem_status access_on_once(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out)
{
    struct sm_transaction transaction;
    struct sm_stream *stream = NULL;
    SM_TRY(sm_check_and_lock(mem));
    if (give_parts_again(mem, mode, handle, out)) {
        sm_unlock_root(sm_root(mem));
        return SYNCED_MEM_OK;
    }
    sm_begin_access(&transaction, mem);
    if (mode == SM_READ && give_to_read_again(mem, handle, out))
        return sm_leave(&transaction, SYNCED_MEM_OK);
    synced_mem_status status = sm_stream_find(sm_device(mem), handle, &stream);
    if (status == SYNCED_MEM_OK)
        status = stream ? access_device(&transaction, mode, stream, out) : access_captured(mem, mode, out);
    status = sm_leave_and_reap(&transaction, status, false);
    sm_stream_drop(stream);
    return status;
}

synced_mem_status sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    SM_TRY(sm_gate_begin(mem, SM_GPU, mode));
    do
        status = access_on_once(mem, mode, handle, out);
    while (sm_reclaim_helps(&reclaim, status));
    sm_gate_end(mem);
    return status;
}

static synced_mem_status end_stream_use(struct synced_mem *mem, synced_mem_stream handle)
{
    struct sm_stream *stream;
    synced_mem_status status = sm_stream_find(sm_device(mem), handle, &stream);
    if (status != SYNCED_MEM_OK)
        return status;
    if (!stream)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "the stream is capturing, so no event can be recorded on it: call after the capture");
    for (struct sm_record *each = sm_first_record(mem); each && status == SYNCED_MEM_OK;
         each = sm_next_record(mem, each))
        if (sm_copy_of(each, SM_GPU))
            status = sm_inflight_end(sm_copy_of(each, SM_GPU), stream);
    sm_stream_drop(stream);
    return status;
}

synced_mem_status sm_end_use_on(struct synced_mem *mem, synced_mem_stream handle)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter_restoring_nothing(&transaction, mem));
    return sm_leave(&transaction, end_stream_use(mem, handle));
}

/* ---- The library's own work ---- */

/* A copy thread may close a fence as lost at any time, so that is checked last. */
static struct sm_fence *find_transfer(const struct sm_copy *copy)
{
    struct sm_fence *const unfinished = sm_inflight_transfer(copy);
    struct sm_fence *const lost = sm_inflight_lost(copy);
    return lost ? lost : unfinished;
}

/* Polls the library's work on a copy. A query reports lost contents once, as a failed wait: they are then no longer the
 * object's. */
static synced_mem_status poll_transfers_on(const struct sm_copy *copy, struct sm_waits *lost, bool *pending)
{
    struct sm_fence *fence;
    while (copy && !*pending && (fence = find_transfer(copy)) != NULL) {
        *pending = sm_fence_poll(fence);
        if (!*pending && sm_fence_state(fence) == SM_FENCE_LOST)
            return sm_waits_add(lost, fence);
    }
    return SYNCED_MEM_OK;
}

/* Polls the work that brings the record's contents to the side. Without contents there nothing has arrived. An open
 * write after a transfer does not end it. Lost contents are reported as a failed wait. */
static synced_mem_status poll_arrival(const struct sm_record *record, enum sm_side side, struct sm_waits *lost,
                                      bool *arrived)
{
    *arrived = (sm_head(record) & sm_bit(side)) != 0;
    if (!*arrived)
        return SYNCED_MEM_OK;
    const struct sm_copy *const copy = sm_copy_of(record, side);
    struct sm_fence *const fence = copy->write ? copy->write : sm_inflight_arrival(copy);
    *arrived = !fence || !sm_fence_poll(fence);
    return *arrived ? sm_waits_add(lost, sm_inflight_lost(copy)) : SYNCED_MEM_OK;
}

static synced_mem_status poll_arrivals(struct sm_transaction *transaction, enum sm_side side, bool *arrived)
{
    struct synced_mem *const mem = transaction->mem;
    *arrived = true;
    for (struct sm_record *each = sm_first_record(mem); each && *arrived; each = sm_next_record(mem, each))
        SM_TRY(poll_arrival(each, side, &transaction->waits, arrived));
    return SYNCED_MEM_OK;
}

static synced_mem_status poll_transfers(struct sm_transaction *transaction, bool *pending)
{
    struct synced_mem *const mem = transaction->mem;
    *pending = false;
    for (struct sm_record *each = sm_first_record(mem); each && !*pending; each = sm_next_record(mem, each))
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            SM_TRY(poll_transfers_on(sm_copy_of(each, side), &transaction->waits, pending));
    return SYNCED_MEM_OK;
}

/* The last fence is waited for first. That is the host copy's, whose contents may be lost if the wait fails. */
static synced_mem_status find_transfers(struct sm_transaction *transaction)
{
    static const enum sm_side sides[] = {SM_GPU, SM_CPU};
    const struct synced_mem *const mem = transaction->mem;
    struct sm_waits *const waits = &transaction->waits;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        for (int i = 0; i < SM_SIDES; i++)
            if (sm_copy_of(each, sides[i]))
                SM_TRY(sm_waits_go_on(waits, sm_waits_add(waits, find_transfer(sm_copy_of(each, sides[i])))));
    return sm_waits_status(waits);
}

/* Returns why contents were lost before the call. */
static synced_mem_status get_loss(const struct sm_transaction *transaction)
{
    return transaction->listing.lost ? sm_fence_wait(transaction->listing.lost) : SYNCED_MEM_OK;
}

synced_mem_status sm_query_or_wait(struct synced_mem *mem, bool wait, bool *pending)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter_restoring_nothing(&transaction, mem));
    synced_mem_status status = get_loss(&transaction);
    if (status != SYNCED_MEM_OK)
        return sm_leave_and_reap(&transaction, status, wait);
    do
        status = wait ? find_transfers(&transaction) : poll_transfers(&transaction, pending);
    while (sm_wait_again(&transaction, &status));
    return sm_leave_and_reap(&transaction, status, wait);
}

synced_mem_status sm_has_arrived(struct synced_mem *mem, enum sm_side side, bool *arrived)
{
    struct sm_transaction transaction;
    SM_TRY(sm_enter_restoring_nothing(&transaction, mem));
    synced_mem_status status = get_loss(&transaction);
    if (status != SYNCED_MEM_OK)
        return sm_leave_and_reap(&transaction, status, false);
    do
        status = poll_arrivals(&transaction, side, arrived);
    while (sm_wait_again(&transaction, &status));
    return sm_leave_and_reap(&transaction, status, false);
}
