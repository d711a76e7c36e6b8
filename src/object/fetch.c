/* Memory for a side, and its contents. */
#include "object/fetch.h"

#include "memory/guard.h"
#include "memory/pinned/host_pool.h"
#include "copy/pin.h"
#include "base/refusal.h"
#include "copy/staged.h"
#include "base/stats.h"
#include "base/status.h"
#include "copy/part.h"
#include "object/evictable.h"
#include "object/piece.h"
#include "object/shareable.h"
#include "object/span.h"
#include "object/user_allocator.h"
#include "object/unified.h"

#include <assert.h>
#include <string.h>

/* ---- Memory ---- */

/* Pageable memory serves as well where the device cannot page-lock memory. Where there is too little to page-lock, it
 * serves if the caller has allowed that. */
synced_mem_status sm_obtain_host(const struct synced_mem *mem, size_t size, bool zeroed, struct sm_copy **out)
{
    const size_t alignment = sm_object_alignment(mem);
    synced_mem_status status = SYNCED_MEM_OK;
    *out = NULL;
    if (mem->extras) /* otherwise the placement is separate */
        status = sm_unified_obtain(mem, sm_device(mem), size, zeroed, out);
    if (status != SYNCED_MEM_OK || *out)
        return status;
    const int device = sm_device_for_host(mem);
    struct sm_member *const member = sm_evictable_of(mem) ? sm_member_of(mem, SM_CPU) : NULL;
    status = sm_copy_obtain_host(size, alignment, device, zeroed, member, out);
    const bool too_much = status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (status == SYNCED_MEM_OK || (too_much && !sm_host_pool_may_fall_back(device)))
        return status;
    status = sm_copy_obtain_host(size, alignment, -1, zeroed, member, out);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_count_up(SM_COUNT_pageable_fallbacks, 1);
    return sm_refusal_note(status, -1, size); /* the refusal no longer matters */
}

static void put_new_copy(struct sm_record *record, enum sm_side side, struct sm_copy *copy)
{
    sm_put_copy(record, side, copy);
    if (sm_copy_of(record, SM_GPU) == copy)
        sm_put_device(sm_owner_of(record), copy->device);
}

/* The memory of a piece is its root's. */
static synced_mem_status make_host_memory(struct sm_record *record, bool zeroed, bool *fresh)
{
    *fresh = false;
    if (record->kind == SM_PIECE)
        return sm_attach_part(sm_piece_of(record), SM_CPU);
    struct sm_copy *copy = sm_copy_of(record, SM_CPU);
    *fresh = !copy;
    const synced_mem_status status =
        copy ? SYNCED_MEM_OK : sm_obtain_host(sm_owner_of(record), sm_size_of(record), zeroed, &copy);
    if (status == SYNCED_MEM_OK && *fresh)
        put_new_copy(record, SM_CPU, copy);
    return status;
}

synced_mem_status sm_obtain_device(const struct synced_mem *mem, size_t size, const struct sm_stream *stream,
                                   struct sm_copy **out)
{
    if (sm_sharing_of(mem))
        return sm_shareable_obtain_device(mem, stream->device, out);
    const synced_mem_status status = sm_unified_obtain(mem, stream->device, size, false, out);
    if (status != SYNCED_MEM_OK || *out)
        return status;
    struct sm_member *const member = sm_evictable_of(mem) ? sm_member_of(mem, SM_GPU) : NULL;
    return sm_copy_obtain_device(size, sm_object_alignment(mem), stream, member, out);
}

/* New memory is usable in the stream's order only, unless it is shared. *fresh says so. */
static synced_mem_status make_device_memory(struct sm_record *record, const struct sm_stream *stream, bool *fresh)
{
    struct sm_copy *copy = sm_copy_of(record, SM_GPU);
    *fresh = false;
    if (copy)
        return SYNCED_MEM_OK;
    if (record->kind == SM_PIECE)
        return sm_attach_part(sm_piece_of(record), SM_GPU);
    const synced_mem_status status = sm_obtain_device(sm_owner_of(record), sm_size_of(record), stream, &copy);
    if (status == SYNCED_MEM_OK) {
        put_new_copy(record, SM_GPU, copy);
        *fresh = !sm_copy_is_shared(copy);
    }
    return status;
}

synced_mem_status sm_find_pin(const struct sm_record *record, struct sm_copy *host, int device)
{
    struct sm_sharing *const sharing = sm_sharing_of(sm_owner_of(record));
    if (sharing)
        sm_shareable_pin(sharing, device);
    if (record->kind != SM_PIECE)
        return sm_pin_query(host, device);
    struct sm_copy *const memory = sm_copy_of(sm_own_record(sm_owner_of(record)), SM_CPU);
    const synced_mem_status status = sm_pin_query(memory, device);
    sm_part_take_pin(host, memory);
    return status;
}

/* Returns whether an object's memory holds contents, or has parts that calls have used. */
static bool is_in_use(const struct synced_mem *owner, enum sm_side side)
{
    bool used = false;
    for (const struct sm_record *each = sm_first_record(owner); each && !used; each = sm_next_record(owner, each))
        used = (sm_head(each) & sm_bits_of(each, side)) || (sm_is_divided(owner) && sm_copy_of(each, side));
    return used;
}

/* The library's own memory is quarantined, if it is not a part of other memory. Contents and the caller's memory stay,
 * and the access fails. */
synced_mem_status sm_make_usable(struct sm_record *record, enum sm_side side)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    if (!copy || copy->untracked != SM_UNTRACKED_WRITE)
        return SYNCED_MEM_OK;
    if (sm_inflight_retrack(copy) == SYNCED_MEM_OK && !copy->untracked)
        return SYNCED_MEM_OK;
    if (sm_copy_is_of_user(copy) || copy->is_part || is_in_use(sm_owner_of(record), side))
        return sm_fail(SYNCED_MEM_ERR_CUDA,
                       "the end of earlier work on %p is unknown, as no event could be recorded behind it",
                       sm_copy_data(copy));
    sm_copy_quarantine(sm_take_copy(record, side));
    return SYNCED_MEM_OK;
}

/* ---- Contents ---- */

/* After a failure, new memory stays as capacity. Its next user has to come after its allocation. */
static synced_mem_status keep_fresh_copy(struct sm_record *record, struct sm_stream *stream, synced_mem_status status)
{
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    if (status != SYNCED_MEM_OK && copy && !copy->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_enter_write(copy, stream);
        sm_detail_set(&first);
    }
    return status;
}

static synced_mem_status settle_and_wait(struct sm_copy *copy, bool conflicting, struct sm_waits *waits)
{
    SM_TRY(sm_inflight_settle(copy, conflicting, NULL));
    return sm_waits_add(waits, sm_inflight_blocker(copy, conflicting));
}

/* The host reads a pageable source when the transfer is queued, not in the stream's order. A staged transfer runs
 * beside all streams, so its target has to be idle. So has its source, if the host waits for the transfer anyway. */
synced_mem_status sm_plan_unpooled_move(struct sm_record *record, enum sm_side side, const struct sm_batch *batch,
                                        struct sm_waits *waits, bool *staged)
{
    struct sm_copy *const from = sm_copy_of(record, sm_other(side));
    struct sm_copy *const to = sm_copy_of(record, side);
    struct sm_copy *const host = side == SM_GPU ? from : to;
    if (host)
        SM_TRY(sm_find_pin(record, host, sm_device(sm_owner_of(record))));
    if (side == SM_GPU && !from->pinned)
        SM_TRY(sm_waits_add(waits, sm_inflight_blocker(from, false)));
    *staged = host && (sm_is_staged(host, sm_size_of(record), side == SM_GPU) ||
                       (batch && batch->stages_all && !host->pinned && sm_size_of(record) > 0));
    /* A small push of pageable memory may synchronize the stream with the lock held, behind the work on the target. */
    const unsigned purpose = side == SM_GPU && !from->pinned ? 0 : SM_UNTIL_QUEUED;
    if (!*staged)
        return to ? sm_waits_add_for(waits, sm_inflight_queueing(to, true), purpose) : SYNCED_MEM_OK;
    if (to && !batch && record->kind == SM_WHOLE && sm_inflight_has_open_streamless(to))
        waits->ends_kernels = true;
    if (to)
        SM_TRY(settle_and_wait(to, true, waits));
    const bool is_async = batch && batch->is_async;
    return side == SM_CPU && !is_async ? settle_and_wait(from, false, waits) : SYNCED_MEM_OK;
}

/* Records a fence on the stream of the pull for the work that the contents come after. The stream takes no part in the
 * transfer, and its next write must come after the transfer. */
static synced_mem_status record_source_fence(struct sm_copy *from, struct sm_stream *stream, struct sm_fence **after)
{
    synced_mem_status status = sm_inflight_settle(from, false, NULL);
    if (status == SYNCED_MEM_OK)
        status = sm_inflight_order(from, false, stream);
    return status == SYNCED_MEM_OK ? sm_stream_record(stream, after) : status;
}

/* Orders a push behind the work on its target, and behind kernels that may still use an old pointer to it, unless the
 * call has waited for those. stream: of an asynchronous pull. */
static synced_mem_status begin_staged_move(struct sm_transfer *transfer, struct sm_stream *internal,
                                           struct sm_stream *stream, const struct sm_waits *waits)
{
    struct sm_fence *after = NULL;
    synced_mem_status status = SYNCED_MEM_OK;
    transfer->is_left = transfer->direction == SM_D2H && !transfer->is_awaited;
    if (transfer->is_left)
        status = record_source_fence(transfer->from, stream, &after);
    if (transfer->direction == SM_H2D)
        status = waits->ends_kernels ? sm_inflight_order(transfer->to, true, internal)
                                     : sm_transfer_order(transfer->to, internal);
    if (status == SYNCED_MEM_OK)
        status = sm_staged_begin(transfer, internal, after);
    sm_fence_drop(after);
    return status;
}

/* Returns whether a write of the library to the record's side comes after kernels that got the pointer without a
 * stream. A piece without a copy gets a part of its root's memory. */
static bool is_write_behind_kernels(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const copy = sm_copy_of(record, side);
    const struct sm_copy *const memory = copy ? copy : sm_copy_of(sm_own_record(sm_owner_of(record)), side);
    return memory && memory->streamless;
}

/* stream: of the call; NULL: it has picked none. */
static synced_mem_status find_staged_stream(const struct sm_record *record, enum sm_side side,
                                            const struct sm_stream *stream, struct sm_stream **on)
{
    int device;
    SM_TRY(sm_device_resolve(stream ? stream->device : sm_device(sm_owner_of(record)), &device));
    return sm_transfer_stream(device, side == SM_GPU ? SM_H2D : SM_D2H, is_write_behind_kernels(record, side), on);
}

/* Returns whether the caller waits for the transfer at once: it is a read on the host. */
static bool is_host_access(enum sm_side side, const struct sm_batch *batch)
{
    return side == SM_CPU && !(batch && batch->is_async);
}

static __attribute__((noinline)) synced_mem_status
queue_staged_or_first_move(struct sm_record *record, enum sm_side side, struct sm_stream *stream, bool staged,
                           struct sm_batch *batch, struct sm_transfer *transfer, bool is_awaited,
                           const struct sm_waits *waits)
{
    struct sm_stream *on = stream;
    bool fresh = false;
    synced_mem_status status = SYNCED_MEM_OK;
    if (staged)
        status = find_staged_stream(record, side, stream, &on);
    if (status == SYNCED_MEM_OK && side == SM_GPU)
        status = make_device_memory(record, on, &fresh);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_describe_move(record, side, staged, batch, transfer);
    transfer->is_awaited = is_awaited;
    status = staged ? begin_staged_move(transfer, on, stream, waits) : sm_transfer_queue(transfer, stream);
    return fresh ? keep_fresh_copy(record, on, status) : status;
}

static synced_mem_status plan_contents(struct sm_record *record, enum sm_side side, const struct sm_batch *batch,
                                       struct sm_waits *waits, bool *staged)
{
    bool fresh;
    sm_note_record(record);
    if (side == SM_CPU && !sm_copy_of(record, SM_CPU))
        SM_TRY(make_host_memory(record, false, &fresh));
    return sm_plan_move(record, side, batch, waits, staged);
}

static synced_mem_status queue_planned(struct sm_record *record, enum sm_side side, struct sm_stream *stream,
                                       bool staged, struct sm_batch *batch, struct sm_transfer *transfer,
                                       bool is_awaited, const struct sm_waits *waits)
{
    if (staged || !sm_copy_of(record, side))
        return queue_staged_or_first_move(record, side, stream, staged, batch, transfer, is_awaited, waits);
    return sm_queue_direct_move(record, side, stream, batch, transfer, is_awaited);
}

synced_mem_status sm_queue_move(struct sm_record *record, enum sm_side side, struct sm_stream *stream,
                                struct sm_batch *batch, struct sm_transfer *transfer, struct sm_waits *waits)
{
    bool staged;
    SM_TRY(plan_contents(record, side, batch, waits, &staged));
    return queue_planned(record, side, stream, staged, batch, transfer, is_host_access(side, batch), waits);
}

static synced_mem_status queue_device_load(struct sm_record *record, const struct sm_stream *stream,
                                           struct sm_file_reads *reads)
{
    const int of_object = sm_device(sm_owner_of(record));
    int device;
    bool fresh;
    SM_TRY(sm_device_resolve(of_object < 0 && stream ? stream->device : of_object, &device));
    if (reads->internal && reads->internal->device != device) { /* a job has one device */
        sm_file_reads_begin(reads);
        reads->internal = NULL;
    }
    if (!reads->internal) {
        const bool follows = reads->room > 1 || is_write_behind_kernels(record, SM_GPU);
        SM_TRY(sm_transfer_stream(device, SM_H2D, follows, &reads->internal));
    }
    SM_TRY(make_device_memory(record, reads->internal, &fresh));
    synced_mem_status status = sm_transfer_order(sm_copy_of(record, SM_GPU), reads->internal);
    if (status == SYNCED_MEM_OK && fresh && sm_size_of(record) == 0) /* no read comes after the allocation */
        return sm_transfer_enter_write(sm_copy_of(record, SM_GPU), reads->internal);
    if (status == SYNCED_MEM_OK)
        status = sm_add_load(record, SM_GPU, reads);
    return fresh ? keep_fresh_copy(record, reads->internal, status) : status;
}

synced_mem_status sm_queue_load(struct sm_record *record, enum sm_side side, const struct sm_stream *stream,
                                struct sm_file_reads *reads, struct sm_waits *waits)
{
    bool fresh;
    sm_note_record(record);
    SM_TRY(sm_make_usable(record, side));
    SM_TRY(sm_plan_load(record, side, waits));
    if (side == SM_GPU)
        return queue_device_load(record, stream, reads);
    SM_TRY(make_host_memory(record, false, &fresh));
    return sm_add_load(record, side, reads);
}

static synced_mem_status load_contents(struct sm_record *record, enum sm_side side, const struct sm_stream *stream,
                                       struct sm_waits *waits)
{
    struct sm_file_reads reads = {.room = 1};
    const synced_mem_status status = sm_queue_load(record, side, stream, &reads, waits);
    sm_file_reads_begin(&reads);
    return status;
}

/* Moves the contents of a shared copy, without a transfer. stream: an internal one; NULL: none. The host waits for
 * contents that another stream or a copy thread still brings to the copy. */
static synced_mem_status move_shared_contents(struct sm_record *record, enum sm_side side, struct sm_stream *stream,
                                              struct sm_waits *waits)
{
    struct sm_copy *const shared = sm_shared_copy(record);
    SM_TRY(side == SM_CPU ? sm_waits_add(waits, sm_inflight_arrival_from_elsewhere(shared))
                          : sm_waits_add_for(waits, sm_inflight_queueing(shared, false), SM_UNTIL_QUEUED));
    SM_TRY(sm_unified_move(record, side, stream));
    if (side == SM_CPU)
        sm_unified_arrive(shared, stream);
    return SYNCED_MEM_OK;
}

/* Larger moves would hold up the blocking streams, which come after the legacy stream's work. */
enum { MOST_ON_LEGACY = 65536 };

/* Returns whether the legacy stream makes the move of an access without a stream: kernels that got the pointer without
 * one come before it, and nothing else. Another stream would wait for an event there, which takes 1 us more (H200,
 * 2026-11-28). */
static bool is_move_on_legacy(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const on_host = sm_copy_of(record, SM_CPU);
    const struct sm_copy *const on_device = sm_copy_of(record, SM_GPU);
    return on_device && !sm_shared_copy(record) && sm_size_of(record) <= MOST_ON_LEGACY &&
           (side == SM_GPU ? on_device->streamless : on_device->writer != NULL) &&
           sm_inflight_is_on_legacy(on_device) && (!on_host || sm_inflight_is_on_legacy(on_host));
}

static synced_mem_status find_move_stream(const struct sm_record *record, enum sm_side side, bool is_access,
                                          struct sm_stream **stream)
{
    if (is_access && is_move_on_legacy(record, side))
        return sm_stream_find_legacy(sm_device(sm_owner_of(record)), stream);
    return sm_fetch_stream(record, side, SM_MOVE, sm_move_follows_work(record, side), stream);
}

/* Picks a stream only for a transfer that is about to be queued, since that may query the device. A staged one picks
 * its own. An access without a stream waits for the end. But in debug mode a call that makes the host copy stale
 * meanwhile protects it, also from reads. */
static synced_mem_status move_contents(struct sm_record *record, enum sm_side side, struct sm_stream *stream,
                                       bool is_access, struct sm_waits *waits)
{
    struct sm_transfer transfer;
    bool staged;
    if (sm_shared_copy(record))
        return move_shared_contents(record, side, stream, waits);
    SM_TRY(plan_contents(record, side, NULL, waits, &staged));
    const bool picks = !stream && !staged;
    const bool is_awaited = side == SM_CPU || (is_access && picks && !sm_guard_on());
    if (picks)
        SM_TRY(find_move_stream(record, side, is_access, &stream));
    SM_TRY(queue_planned(record, side, stream, staged, NULL, &transfer, is_awaited, waits));
    if (staged)
        return SYNCED_MEM_OK;
    SM_TRY(sm_transfer_enter(&transfer, 1, NULL, stream));
    if (side == SM_CPU)
        sm_inflight_end_write_by_read(transfer.from, stream);
    return SYNCED_MEM_OK;
}

static synced_mem_status zero_host(struct sm_record *record, struct sm_waits *waits)
{
    bool fresh;
    assert(record->kind != SM_PIECE); /* other pieces are not held up by a fill: see fetch_parts.c */
    SM_TRY(make_host_memory(record, true, &fresh));
    struct sm_copy *const copy = sm_copy_of(record, SM_CPU);
    if (fresh)
        return SYNCED_MEM_OK;
    SM_TRY(settle_and_wait(copy, true, waits));
    assert(!copy->read_only);
    sm_guard_open(copy);
    memset(sm_copy_data(copy), 0, sm_size_of(record));
    return SYNCED_MEM_OK;
}

static synced_mem_status zero_device(struct sm_record *record, struct sm_stream *stream, struct sm_waits *waits)
{
    bool fresh;
    SM_TRY(make_device_memory(record, stream, &fresh));
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    SM_TRY(sm_waits_add_for(waits, sm_inflight_queueing(copy, true), SM_UNTIL_QUEUED));
    assert(!copy->read_only);
    const synced_mem_status status = sm_transfer_fill(copy, 0, 0, sm_size_of(record), stream);
    return fresh ? keep_fresh_copy(record, stream, status) : status;
}

/* On a caller's stream no fence follows the allocation. The stream writes next, and whoever waits for that write is
 * behind the allocation too. Of a divided root the stream may write a part alone. */
synced_mem_status sm_make_memory(struct sm_record *record, enum sm_side side, struct sm_stream *stream)
{
    bool fresh;
    if (side == SM_CPU)
        return make_host_memory(record, false, &fresh);
    const synced_mem_status status = make_device_memory(record, stream, &fresh);
    if (status != SYNCED_MEM_OK || !fresh ||
        (stream->kind != SM_STREAM_INTERNAL && !sm_is_divided(sm_owner_of(record))))
        return status;
    return sm_transfer_enter_write(sm_copy_of(record, SM_GPU), stream);
}

/* Picks the internal stream for a fill of a record's device copy. */
static synced_mem_status find_fill_stream(const struct sm_record *record, int device, struct sm_stream **stream)
{
    if (is_write_behind_kernels(record, SM_GPU) || sm_transfer_follows_work(sm_copy_of(record, SM_GPU), NULL))
        return sm_internal_stream_behind(device, SM_INTERNAL_MOVE_BEHIND, stream);
    return sm_internal_stream(device, SM_INTERNAL_ALLOC, stream);
}

/* The caller has waited for copy threads and devices that use the memory. */
void sm_fill_unwritten_host(struct sm_record *record)
{
    struct sm_copy *const copy = sm_copy_of(record, SM_CPU);
    sm_guard_open(copy);
    memset(sm_copy_data(copy), SM_GUARD_UNWRITTEN, sm_size_of(record));
}

void sm_fill_unwritten_device(struct sm_record *record, struct sm_stream *stream)
{
    const struct sm_detail first = sm_detail_get();
    struct sm_copy *const copy = sm_copy_of(record, SM_GPU);
    struct sm_use *const read =
        sm_inflight_set_aside(copy, stream ? stream : sm_stream_any(sm_device(sm_owner_of(record))));
    if (stream || find_fill_stream(record, sm_device(sm_owner_of(record)), &stream) == SYNCED_MEM_OK)
        (void)sm_transfer_fill(copy, SM_GUARD_UNWRITTEN, 0, sm_size_of(record), stream);
    sm_inflight_put_back(copy, read);
    sm_detail_set(&first);
}

bool sm_move_follows_work(const struct sm_record *record, enum sm_side side)
{
    return sm_is_to_be_moved(record, side) &&
           (is_write_behind_kernels(record, side) ||
            sm_transfer_follows_work(sm_copy_of(record, side), sm_copy_of(record, sm_other(side))));
}

synced_mem_status sm_fetch_stream(const struct sm_record *record, enum sm_side side, enum sm_work work, bool follows,
                                  struct sm_stream **stream)
{
    int device;
    const struct sm_copy *const shared = sm_shared_copy(record);
    *stream = NULL;
    if ((side == SM_CPU && work != SM_MOVE) ||
        (work == SM_MOVE && shared && shared->source == SYNCED_MEM_SOURCE_MAPPED))
        return SYNCED_MEM_OK;
    SM_TRY(sm_device_resolve(sm_device(sm_owner_of(record)), &device));
    if (work == SM_NOTHING)
        return sm_internal_stream(device, SM_INTERNAL_ALLOC, stream);
    if (work == SM_ZERO)
        return find_fill_stream(record, device, stream);
    return sm_transfer_stream(device, side == SM_GPU ? SM_H2D : SM_D2H, follows, stream);
}

static synced_mem_status fetch(struct sm_record *record, enum sm_side side, enum sm_work work, struct sm_stream *stream,
                               bool is_access, struct sm_waits *waits)
{
    SM_TRY(sm_make_usable(record, side));
    if (work == SM_NOTHING && sm_copy_of(record, side))
        return SYNCED_MEM_OK;
    const bool allocates = record->kind != SM_PIECE && sm_user_allocator_wanted(sm_owner_of(record), side);
    if (!stream && (allocates || work != SM_MOVE || sm_shared_copy(record)))
        SM_TRY(sm_fetch_stream(record, side, work, sm_move_follows_work(record, side), &stream));
    if (allocates)
        return sm_user_allocator_obtain(sm_owner_of(record), side, stream);
    if (work == SM_NOTHING)
        return sm_make_memory(record, side, stream);
    if (work == SM_MOVE)
        SM_TRY(move_contents(record, side, stream, is_access, waits));
    else if (work == SM_LOAD)
        SM_TRY(load_contents(record, side, stream, waits));
    else
        SM_TRY(side == SM_CPU ? zero_host(record, waits) : zero_device(record, stream, waits));
    sm_set_head(record, sm_head(record) | sm_bit(side));
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fetch(struct sm_record *record, enum sm_side side, enum sm_work work, struct sm_stream *stream,
                           struct sm_waits *waits)
{
    return fetch(record, side, work, stream, false, waits);
}

synced_mem_status sm_fetch_for_one_access(struct sm_record *record, enum sm_side side, enum sm_work work,
                                          struct sm_stream *stream, struct sm_waits *waits)
{
    return fetch(record, side, work, stream, true, waits);
}
