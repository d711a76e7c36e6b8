/* Transfers and fills, in the order that the work in flight requires. */
#include "copy/transfer.h"

#include "base/stats.h"
#include "copy/urgent.h"
#include "trace/trace.h"

#include <string.h>

/* Waits for the stream, as no event could be recorded behind its work, unless the device is lost. */
static __attribute__((noinline, cold)) synced_mem_status wait_without_event(const struct sm_stream *stream,
                                                                            synced_mem_status recorded, bool *untracked)
{
    if (recorded == SYNCED_MEM_ERR_DEVICE_LOST)
        return recorded;
    const synced_mem_status waited = sm_device_stream_sync(stream->device, stream->handle);
    *untracked = waited != SYNCED_MEM_OK && waited != SYNCED_MEM_ERR_DEVICE_LOST;
    return waited;
}

synced_mem_status sm_transfer_record(struct sm_stream *stream, struct sm_fence **fence, bool *untracked)
{
    *fence = NULL;
    *untracked = false;
    const synced_mem_status recorded = sm_stream_record(stream, fence);
    return recorded == SYNCED_MEM_OK ? SYNCED_MEM_OK : wait_without_event(stream, recorded, untracked);
}

static void enter_write(struct sm_copy *to, struct sm_fence *fence)
{
    sm_inflight_written(to, fence);
    to->arriving = fence != NULL;
}

static const void *get_source(const struct sm_transfer *transfer)
{
    if (transfer->bounce)
        return sm_bounce_data(transfer->bounce);
    return transfer->gathered ? transfer->gathered : sm_transfer_source(transfer);
}

/* Returns whether the host has copied the source to page-locked memory, and so no longer needs it. */
static bool has_read_source(const struct sm_transfer *transfer)
{
    return transfer->bounce || transfer->gathered;
}

static synced_mem_status queue_transfer(const struct sm_transfer *transfer, const struct sm_stream *stream)
{
    void *const to = transfer->arrival ? sm_arrival_buffer(transfer->arrival) : sm_copy_data(transfer->to);
    const void *const from = get_source(transfer);
    if (transfer->size == 0)
        return SYNCED_MEM_OK;
    /* Memory that is both copies of its object: the runtime finds it by its address. */
    if (sm_copy_is_shared(transfer->to) || sm_copy_is_shared(transfer->from))
        return sm_device_copy_any(stream->device, to, from, transfer->size, stream->handle);
    switch (transfer->direction) {
    case SM_H2D:
        return sm_device_copy_h2d(stream->device, to, from, transfer->size, stream->handle);
    case SM_D2H:
        return sm_device_copy_d2h(stream->device, to, from, transfer->size, stream->handle);
    case SM_D2D:
        break;
    }
    if (transfer->to->device != transfer->from->device)
        return sm_device_copy_peer(stream->device, to, transfer->to->device, from, transfer->from->device,
                                   transfer->size, stream->handle);
    return sm_device_copy_d2d(stream->device, to, from, transfer->size, stream->handle);
}

static struct sm_trace_moved describe_move(const struct sm_transfer *transfer, enum sm_trace_way way)
{
    return (struct sm_trace_moved){.direction = transfer->direction,
                                   .bytes = transfer->size,
                                   .from = transfer->from->source,
                                   .to = transfer->to->source,
                                   .way = way};
}

static __attribute__((noinline)) synced_mem_status queue_traced_transfer(const struct sm_transfer *transfer,
                                                                         const struct sm_stream *stream)
{
    const struct sm_trace_moved moved = describe_move(transfer, SM_TRACE_ENGINE);
    const struct sm_trace_copy traced = sm_trace_copy_begin(sm_stream_traced(stream));
    const synced_mem_status status = queue_transfer(transfer, stream);
    sm_trace_copy_end(&traced, &moved, sm_stream_traced(stream), status);
    return status;
}

/* Queues a transfer that no batch collects. */
static synced_mem_status queue_single_transfer(const struct sm_transfer *transfer, const struct sm_stream *stream)
{
    return sm_trace_on() ? queue_traced_transfer(transfer, stream) : queue_transfer(transfer, stream);
}

/* Returns whether a kernel on the device may access the copy: page-locked memory, or memory of that device, of the
 * library's own. */
static inline bool is_for_kernels(const struct sm_copy *copy, int device)
{
    return copy->source == SYNCED_MEM_SOURCE_PINNED ||
           (copy->source == SYNCED_MEM_SOURCE_DEVICE && copy->device == device);
}

/* The kernel copies byte by byte what is not equally aligned. */
static inline bool is_slow_for_kernels(const struct sm_transfer *transfer)
{
    enum { ELEMENT = 4, MOST_BYTES = 4096 };
    const uintptr_t apart = (uintptr_t)sm_copy_data(transfer->to) ^ (uintptr_t)get_source(transfer);
    return apart % ELEMENT != 0 && transfer->size > MOST_BYTES;
}

/* Bounce buffers are such memory. */
static inline __attribute__((always_inline)) bool is_memory_for_kernels(const struct sm_transfer *transfer, int device)
{
    return is_for_kernels(transfer->to, device) &&
           (has_read_source(transfer) || is_for_kernels(transfer->from, device)) && !is_slow_for_kernels(transfer);
}

static bool can_be_listed(const struct sm_transfer *transfer, int device)
{
    return sm_kernel_list_takes(&transfer->batch->list, transfer->size) && is_memory_for_kernels(transfer, device);
}

static struct sm_batch_copy describe_copy(const struct sm_transfer *transfer, bool listed)
{
    return (struct sm_batch_copy){.to = sm_copy_data(transfer->to),
                                  .from = get_source(transfer),
                                  .size = transfer->size,
                                  .memory = transfer->memory,
                                  .of_user = sm_copy_is_of_user(transfer->to),
                                  .listed = listed};
}

static void trace_listed(const struct sm_transfer *transfer, struct sm_stream *stream)
{
    const struct sm_trace_moved moved = describe_move(transfer, SM_TRACE_LISTED);
    sm_trace_record_listed(&moved, sm_stream_traced(stream));
}

/* Queues a transfer of a batch alone. Collected copies of the same target came before it. */
static __attribute__((noinline)) synced_mem_status queue_past_batch(struct sm_transfer *transfer,
                                                                    struct sm_stream *stream)
{
    struct sm_batch *const batch = transfer->batch;
    transfer->batch = NULL;
    if (sm_batch_count(batch) > 0)
        SM_TRY(sm_batch_make_way(batch, stream, describe_copy(transfer, false)));
    return queue_single_transfer(transfer, stream);
}

/* Returns whether a kernel makes the transfer, because copy engines have bulk copies to make first. */
static __attribute__((noinline)) bool queue_urgent(const struct sm_transfer *transfer, struct sm_stream *stream)
{
    const struct sm_trace_moved moved = describe_move(transfer, SM_TRACE_KERNEL);
    if (!is_memory_for_kernels(transfer, stream->device))
        return false;
    const struct sm_trace_copy traced = sm_trace_copy_begin(sm_stream_traced(stream));
    const bool is_sent = sm_urgent_send(sm_copy_data(transfer->to), get_source(transfer), transfer->size,
                                        transfer->direction, stream, &transfer->batch->list.has_room);
    sm_trace_copy_end(&traced, &moved, sm_stream_traced(stream), is_sent ? SYNCED_MEM_OK : SYNCED_MEM_ERR_CUDA);
    return is_sent;
}

/* Queues the copy, or has the batch collect it. */
static synced_mem_status queue_copy(struct sm_transfer *transfer, struct sm_stream *stream)
{
    const struct sm_copy *const host = transfer->direction == SM_H2D ? transfer->from : transfer->to;
    if (!transfer->batch)
        return queue_single_transfer(transfer, stream);
    if (transfer->batch->is_urgent && queue_urgent(transfer, stream)) {
        transfer->batch = NULL;
        return SYNCED_MEM_OK;
    }
    const bool listed = can_be_listed(transfer, stream->device);
    if (transfer->gathered && listed)
        sm_gather_add(&transfer->batch->gather, transfer->gathered, sm_transfer_source(transfer), transfer->size);
    else if (transfer->gathered)
        memcpy(transfer->gathered, sm_transfer_source(transfer), transfer->size);
    if (!listed && (has_read_source(transfer) ||
                    !sm_batch_takes(transfer->batch, sm_copy_data(host), transfer->size, host->pinned)))
        return queue_past_batch(transfer, stream);
    SM_TRY(sm_batch_collect(transfer->batch, stream, describe_copy(transfer, listed)));
    if (listed && sm_trace_on())
        trace_listed(transfer, stream);
    return SYNCED_MEM_OK;
}

/* Gives back the bounce buffer, or enters the read, of a transfer with this fence. NULL: nothing is queued. The read
 * takes over a hold, and adds to replaced. */
static void release_source(struct sm_transfer *transfer, struct sm_fence *fence, struct sm_replaced *replaced)
{
    if (transfer->bounce)
        sm_bounce_give(transfer->bounce, fence);
    else if (fence && transfer->read)
        sm_inflight_read(transfer->from, transfer->read, fence, replaced);
    else if (transfer->read)
        sm_inflight_unreserve(transfer->read);
    transfer->bounce = NULL;
    transfer->read = NULL;
}

/* from: NULL if the device has not read it. */
static void untrack(struct sm_copy *to, struct sm_copy *from, struct sm_stream *stream)
{
    sm_inflight_untrack(to, SM_UNTRACKED_WRITE, stream);
    if (from)
        sm_inflight_untrack(from, SM_UNTRACKED_READ, stream);
}

static void untrack_copies(const struct sm_transfer *transfer, struct sm_stream *stream)
{
    untrack(transfer->to, has_read_source(transfer) ? NULL : transfer->from, stream);
}

/* Without a bounce buffer the source has been read only when the copy is done. */
static __attribute__((noinline)) synced_mem_status wait_for_source_read(const struct sm_transfer *transfer,
                                                                        struct sm_stream *stream)
{
    const synced_mem_status status = sm_device_stream_sync(stream->device, stream->handle);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        untrack_copies(transfer, stream);
    return status;
}

bool sm_transfer_follows_work(const struct sm_copy *to, const struct sm_copy *from)
{
    return (to && (to->streamless || !sm_inflight_is_quiet(to))) || (from && !sm_inflight_is_quiet(from));
}

synced_mem_status sm_transfer_stream(int device, enum sm_direction direction, bool follows, struct sm_stream **out)
{
    if (follows)
        return sm_internal_stream_behind(device, SM_INTERNAL_MOVE_BEHIND, out);
    return sm_internal_stream(device, direction == SM_D2H ? SM_INTERNAL_D2H : SM_INTERNAL_H2D, out);
}

/* An open use by no stream needs no event of its own, as the second step settles it. */
synced_mem_status sm_transfer_make_order(struct sm_copy *to, struct sm_stream *stream)
{
    if (to->streamless && !sm_inflight_has_open_streamless(to))
        SM_TRY(sm_stream_wait_for_any(stream, to->device));
    return sm_inflight_order(to, true, stream);
}

static __attribute__((noinline)) synced_mem_status give_back_source(struct sm_transfer *transfer,
                                                                    synced_mem_status status)
{
    release_source(transfer, NULL, NULL);
    if (transfer->arrival)
        sm_arrival_give_up(transfer->arrival, false);
    return status;
}

/* NULL: the device writes the target itself, or the runtime does. */
static struct sm_arrival *make_arrival(const struct sm_transfer *transfer, int device)
{
    if (transfer->direction != SM_D2H || transfer->to->pinned || transfer->size == 0 ||
        sm_copy_is_shared(transfer->to) || sm_copy_is_shared(transfer->from))
        return NULL;
    return sm_arrival_make(device, sm_copy_data(transfer->to), transfer->size, transfer->is_awaited);
}

/* The runtime may read pageable memory at any time until the copy is done. */
static bool is_source_pageable(const struct sm_transfer *transfer)
{
    return transfer->direction == SM_H2D && !transfer->from->pinned && transfer->size > 0;
}

/* Returns whether the runtime reads a pageable source itself. It has a way for few bytes that is faster than a bounce
 * buffer, by 0.4 microseconds at 16 KiB, and slower from 64 KiB on (H200, 2026-11-30). */
static bool is_read_by_runtime(const struct sm_transfer *transfer)
{
    enum { MOST_BYTES = 32 << 10 };
    return is_source_pageable(transfer) && transfer->is_awaited && transfer->size <= MOST_BYTES;
}

/* Copies a pageable source to page-locked memory, or finds a place there among others. Reserves a place among the
 * readers of a source that the device reads itself. Returns false: there is no host memory. */
static bool prepare_source(struct sm_transfer *transfer, int device)
{
    struct sm_batch *const batch = transfer->batch;
    const bool shares = batch && batch->room > 0 && !batch->is_urgent;
    transfer->read = NULL;
    transfer->bounce = NULL;
    transfer->gathered = NULL;
    if (is_source_pageable(transfer) && shares)
        transfer->gathered =
            sm_gather_place(&batch->gather, device, sm_copy_data(transfer->to), transfer->size, batch->room);
    else if (is_source_pageable(transfer) && !is_read_by_runtime(transfer))
        transfer->bounce = sm_bounce_take(device, sm_transfer_source(transfer), transfer->size);
    if (has_read_source(transfer))
        return true;
    if (batch && batch->reads) {
        transfer->read = batch->reads;
        batch->reads = transfer->read->next;
    } else {
        transfer->read = sm_inflight_reserve();
    }
    return transfer->read != NULL;
}

/* The runtime has refused the caller's memory, of which a part may have become page-locked since it was found pageable.
 * The host reads the bytes. first: the detail before. */
static __attribute__((noinline, cold)) synced_mem_status queue_refused(struct sm_transfer *transfer,
                                                                       struct sm_stream *stream,
                                                                       const struct sm_detail *first,
                                                                       synced_mem_status status)
{
    const struct sm_detail refused = sm_detail_get();
    transfer->bounce = sm_bounce_take(stream->device, sm_transfer_source(transfer), transfer->size);
    sm_detail_set(transfer->bounce ? first : &refused);
    if (!transfer->bounce)
        return status;
    sm_inflight_unreserve(transfer->read);
    transfer->read = NULL;
    return queue_copy(transfer, stream);
}

static synced_mem_status queue_read_by_runtime(struct sm_transfer *transfer, struct sm_stream *stream)
{
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status status = queue_copy(transfer, stream);
    const bool may_be_locked = status == SYNCED_MEM_ERR_CUDA && sm_copy_is_of_user(transfer->from);
    return may_be_locked ? queue_refused(transfer, stream, &first, status) : status;
}

synced_mem_status sm_transfer_queue(struct sm_transfer *transfer, struct sm_stream *stream)
{
    transfer->arrival = make_arrival(transfer, stream->device);
    synced_mem_status status = SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (prepare_source(transfer, stream->device))
        status = sm_inflight_order(transfer->from, false, stream);
    if (status == SYNCED_MEM_OK)
        status = sm_transfer_order(transfer->to, stream);
    if (status == SYNCED_MEM_OK && is_read_by_runtime(transfer))
        status = queue_read_by_runtime(transfer, stream);
    else if (status == SYNCED_MEM_OK)
        status = queue_copy(transfer, stream);
    if (status == SYNCED_MEM_OK && is_source_pageable(transfer) && !has_read_source(transfer) &&
        !is_read_by_runtime(transfer))
        status = wait_for_source_read(transfer, stream);
    if (status != SYNCED_MEM_OK)
        return give_back_source(transfer, status);
    return SYNCED_MEM_OK;
}

/* Takes over a hold on the fence. */
static struct sm_fence *begin_arrival(const struct sm_transfer *transfer, struct sm_fence *fence)
{
    struct sm_fence *const arrived = sm_arrival_begin(transfer->arrival, fence);
    sm_fence_drop(fence);
    return arrived;
}

static inline __attribute__((always_inline)) void count_transfer(enum sm_direction direction, size_t size)
{
    if (direction == SM_H2D)
        sm_count_up_both(SM_COUNT_h2d_transfers, 1, SM_COUNT_h2d_bytes, size);
    else
        sm_count_up_both(SM_COUNT_d2h_transfers, 1, SM_COUNT_d2h_bytes, size);
}

static void enter_transfer(struct sm_transfer *transfer, struct sm_fence *fence, struct sm_replaced *replaced)
{
    struct sm_fence *const arrival = transfer->arrival ? begin_arrival(transfer, fence) : fence;
    const bool counts = transfer->size > 0 && transfer->direction != SM_D2D;
    transfer->to->arrivals += counts;
    if (counts && !transfer->batch) /* a batch counts its transfers when it is sent */
        count_transfer(transfer->direction, transfer->size);
    release_source(transfer, fence, replaced);
    sm_inflight_written_of_several(transfer->to, arrival, replaced);
    transfer->to->arriving = arrival != NULL;
}

static void give_up_transfer(struct sm_transfer *transfer, bool untracked, struct sm_stream *stream)
{
    if (untracked)
        untrack_copies(transfer, stream);
    if (untracked && transfer->bounce) {
        sm_bounce_lose(transfer->bounce);
        transfer->bounce = NULL;
    }
    if (transfer->arrival)
        sm_arrival_give_up(transfer->arrival, untracked);
    release_source(transfer, NULL, NULL);
}

void sm_transfer_give_gathered(struct sm_gather *gather, struct sm_fence *fence, bool untracked)
{
    if (gather && untracked) {
        sm_gather_lose(gather);
        sm_device_keep_lists(); /* a kernel may run for ever */
    } else if (gather) {
        sm_gather_give(gather, fence);
    }
}

synced_mem_status sm_transfer_enter(struct sm_transfer *transfers, size_t count, struct sm_gather *gather,
                                    struct sm_stream *stream)
{
    struct sm_fence *fence;
    struct sm_replaced replaced = {.uses = NULL};
    bool untracked;
    const synced_mem_status status = sm_transfer_record(stream, &fence, &untracked);
    size_t holds = count; /* each transfer takes over one for its write, and one for its read */
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        holds += transfers[i].read != NULL;
        bytes += transfers[i].size;
    }
    if (fence)
        sm_fence_hold_often(fence, holds);
    sm_transfer_give_gathered(gather, fence, untracked);
    if (fence && bytes >= SM_BULK_BYTES)
        sm_bulk_note(stream->device, transfers->direction, fence);
    for (size_t i = 0; i < count; i++) {
        if (i + SM_AHEAD < count) {
            sm_prefetch_copy(transfers[i + SM_AHEAD].to);
            sm_prefetch_copy(transfers[i + SM_AHEAD].from);
        }
        if (status == SYNCED_MEM_OK)
            enter_transfer(&transfers[i], fence, &replaced);
        else
            give_up_transfer(&transfers[i], untracked, stream);
    }
    sm_replaced_drop(&replaced);
    sm_fence_drop(fence);
    return status;
}

static synced_mem_status queue_direct(enum sm_direction direction, struct sm_copy *to, struct sm_copy *from,
                                      size_t size, struct sm_stream *stream)
{
    SM_TRY(sm_inflight_order(from, false, stream));
    SM_TRY(sm_transfer_order(to, stream));
    return direction == SM_H2D
               ? sm_device_copy_h2d(stream->device, sm_copy_data(to), sm_copy_data(from), size, stream->handle)
               : sm_device_copy_d2h(stream->device, sm_copy_data(to), sm_copy_data(from), size, stream->handle);
}

/* Gives up a direct transfer that is not queued, or behind which no event could be recorded. */
static __attribute__((noinline, cold)) synced_mem_status give_up_direct(struct sm_copy *to, struct sm_copy *from,
                                                                        struct sm_stream *stream, struct sm_use *read,
                                                                        bool untracked, synced_mem_status status)
{
    if (untracked)
        untrack(to, from, stream);
    sm_inflight_unreserve(read);
    return status;
}

synced_mem_status sm_transfer_direct(enum sm_direction direction, struct sm_copy *to, struct sm_copy *from, size_t size,
                                     struct sm_stream *stream)
{
    struct sm_replaced replaced = {.uses = NULL};
    struct sm_fence *fence = NULL;
    bool untracked = false;
    struct sm_use *const read = sm_inflight_reserve();
    if (!read)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    synced_mem_status status = queue_direct(direction, to, from, size, stream);
    if (status != SYNCED_MEM_OK)
        return give_up_direct(to, from, stream, read, false, status);
    status = sm_stream_record(stream, &fence);
    if (status != SYNCED_MEM_OK)
        status = wait_without_event(stream, status, &untracked);
    if (status != SYNCED_MEM_OK)
        return give_up_direct(to, from, stream, read, untracked, status);
    to->arrivals++;
    count_transfer(direction, size);
    if (fence && size >= SM_BULK_BYTES)
        sm_bulk_note(stream->device, direction, fence);
    if (fence)
        sm_inflight_read(from, read, sm_fence_hold(fence), &replaced);
    else
        sm_inflight_unreserve(read);
    sm_replaced_drop(&replaced);
    enter_write(to, fence);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_transfer_fill(struct sm_copy *to, unsigned char value, size_t begin, size_t end,
                                   struct sm_stream *stream)
{
    synced_mem_status status = sm_transfer_order(to, stream);
    if (status == SYNCED_MEM_OK && end > begin)
        status = sm_device_fill(stream->device, (char *)sm_copy_data(to) + begin, value, end - begin, stream->handle);
    return status == SYNCED_MEM_OK ? sm_transfer_enter_write(to, stream) : status;
}

synced_mem_status sm_transfer_enter_write(struct sm_copy *to, struct sm_stream *stream)
{
    struct sm_fence *fence;
    bool untracked;
    const synced_mem_status status = sm_transfer_record(stream, &fence, &untracked);
    if (untracked)
        sm_inflight_untrack(to, SM_UNTRACKED_WRITE, stream);
    if (status == SYNCED_MEM_OK)
        enter_write(to, fence);
    return status;
}
