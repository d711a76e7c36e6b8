/* Fetching: a side gets memory and the contents, which are there or arriving. All functions need the object's lock.
 * They release it only to call the caller's allocators. Those with waits return SM_AGAIN if the host has to wait before
 * they can go on: it waits for what they have added there, with nothing locked, and calls again. */
#ifndef SM_FETCH_H
#define SM_FETCH_H

#include "object/load.h"
#include "object/transaction.h"
#include "object/unified.h"
#include "copy/transfer.h"
#include "memory/guard.h"

#include <assert.h>

/* Makes sure that no untracked transfer may still write the side's copy. A copy without contents is quarantined. Waits
 * for no work. ERR_CUDA: the copy holds contents or is the caller's, so it stays, and the access fails. */
synced_mem_status sm_make_usable(struct sm_record *record, enum sm_side side);

/* Obtains host memory for size bytes, or memory that both sides use. The object's copies are unchanged. The caller
 * owns *out. Falls back to pageable memory where that is allowed. Errors: as sm_copy_obtain_host() and
 * sm_unified_obtain(). */
synced_mem_status sm_obtain_host(const struct synced_mem *mem, size_t size, bool zeroed, struct sm_copy **out);

/* The part of sm_plan_move() for host memory that is not from the pool of page-locked memory. */
synced_mem_status sm_plan_unpooled_move(struct sm_record *record, enum sm_side side, const struct sm_batch *batch,
                                        struct sm_waits *waits, bool *staged);

/* Finds what the host waits for before the transfer of the contents to the side can be queued. batch: as of
 * sm_queue_move(). *staged: the transfer will be staged; false if the host copy has no memory yet. Blocks as
 * sm_find_pin(). */
static inline synced_mem_status sm_plan_move(struct sm_record *record, enum sm_side side, const struct sm_batch *batch,
                                             struct sm_waits *waits, bool *staged)
{
    const struct sm_copy *const from = sm_slot_of(record, sm_other(side));
    const struct sm_copy *const to = sm_slot_of(record, side);
    const struct sm_copy *const host = side == SM_GPU ? from : to;
    const bool is_shared = sm_copy_is_shared(host);
    *staged = false;
    if (side ==
        SM_CPU) /* the loss of another device, which brings the source's contents, would not fail the transfer */
        SM_TRY(sm_waits_add(waits, sm_inflight_arrival_from_elsewhere(from)));
    if (side == SM_GPU || is_shared) /* a copy thread may still write the source */
        SM_TRY(sm_waits_add_for(waits, sm_inflight_queueing(from, false), SM_UNTIL_QUEUED));
    if (is_shared)
        return SYNCED_MEM_OK;
    if (!host->pinned || sm_copy_is_of_user(host)) /* memory of the caller's may have become page-locked */
        return sm_plan_unpooled_move(record, side, batch, waits, staged);
    return sm_waits_add_for(waits, sm_inflight_queueing(to, true), SM_UNTIL_QUEUED);
}

/* Returns whether the side has a tracked, writable copy, which is not shared. */
static inline bool sm_has_memory_to_write(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const copy = sm_slot_of(record, side);
    return copy->source != SYNCED_MEM_SOURCE_NONE && !sm_copy_is_shared(copy) && !copy->untracked && !copy->read_only;
}

/* Returns whether the record's device copy, which is not shared, has memory to write, and the stream comes after all
 * work on it. */
static inline bool sm_is_ready_for_zeros(const struct sm_record *record, const struct sm_stream *stream)
{
    return sm_has_memory_to_write(record, SM_GPU) && sm_transfer_is_ordered(sm_slot_of(record, SM_GPU), stream);
}

/* Obtains device memory for size bytes, or memory that both sides use. The object's copies are unchanged. The caller
 * owns *out. Errors: as sm_copy_obtain_device() and sm_unified_obtain(). */
synced_mem_status sm_obtain_device(const struct synced_mem *mem, size_t size, const struct sm_stream *stream,
                                   struct sm_copy **out);

/* Describes the transfer of the contents of a record with two copies, and makes the host copy writable if it is the
 * target. */
static inline void sm_describe_move(const struct sm_record *record, enum sm_side side, bool staged,
                                    struct sm_batch *batch, struct sm_transfer *transfer)
{
    sm_transfer_describe(transfer, side == SM_GPU ? SM_H2D : SM_D2H, sm_slot_of(record, side),
                         sm_slot_of(record, sm_other(side)), sm_size_of(record));
    transfer->memory = sm_owner_of(record);
    transfer->batch = batch;
    transfer->staged = staged;
    assert(sm_copy_of(record, SM_CPU) && sm_copy_of(record, SM_GPU) && !transfer->to->read_only);
    if (side == SM_CPU)
        sm_guard_open(transfer->to);
}

/* Queues the transfer of the contents to the side in the stream's order, or begins it if it is staged. Gives the side's
 * copy memory if it has none. Fills in transfer, which the caller enters unless it is staged. batch: may collect the
 * copy; NULL: none. On failure new memory stays as capacity. Blocks as sm_transfer_queue(). */
synced_mem_status sm_queue_move(struct sm_record *record, enum sm_side side, struct sm_stream *stream,
                                struct sm_batch *batch, struct sm_transfer *transfer, struct sm_waits *waits);

/* Does the same for a record with memory to write on the side, if sm_plan_move() has found no wait and no staged
 * transfer since the lock was taken. is_awaited: see struct sm_transfer. */
static inline synced_mem_status sm_queue_direct_move(struct sm_record *record, enum sm_side side,
                                                     struct sm_stream *stream, struct sm_batch *batch,
                                                     struct sm_transfer *transfer, bool is_awaited)
{
    sm_describe_move(record, side, false, batch, transfer);
    transfer->is_awaited = is_awaited;
    return sm_transfer_queue(transfer, stream);
}

/* Gives the side of a record that is in a file alone memory, and adds its contents to the reads, which the caller
 * begins. The device is the record's, else the stream's, else the current one; stream NULL: there is none. On failure
 * new memory stays as capacity. */
synced_mem_status sm_queue_load(struct sm_record *record, enum sm_side side, const struct sm_stream *stream,
                                struct sm_file_reads *reads, struct sm_waits *waits);

/* Finds out whether a record's host copy is page-locked, for a transfer. Of a piece its root's memory counts. The first
 * transfer of a shareable object page-locks its memory, for which the runtime may block. Errors: as sm_pin_query(). */
synced_mem_status sm_find_pin(const struct sm_record *record, struct sm_copy *host, int device);

/* Gives the record's side memory of the library's own, if it has none, without contents. Device memory is usable in the
 * stream's order. Never releases the lock. */
synced_mem_status sm_make_memory(struct sm_record *record, enum sm_side side, struct sm_stream *stream);

/* Gives the record's side memory and does the work of the transition, on the stream or an internal one (NULL). If there
 * is work, the side then holds the contents, which may be arriving, and the head has its bit. Blocks as
 * sm_transfer_queue(). On failure the head is unchanged. */
synced_mem_status sm_fetch(struct sm_record *record, enum sm_side side, enum sm_work work, struct sm_stream *stream,
                           struct sm_waits *waits);

/* As sm_fetch(), for an access to an object that is one record. Without a stream (NULL) the caller waits for the work
 * before it returns a pointer. So the work may be on the legacy stream, and the runtime may read few pageable bytes
 * until it ends. */
synced_mem_status sm_fetch_for_one_access(struct sm_record *record, enum sm_side side, enum sm_work work,
                                          struct sm_stream *stream, struct sm_waits *waits);

/* Picks an internal stream for the work of a record. follows: a transfer comes after a caller's work, see
 * sm_move_follows_work(). *stream is NULL if the host does it, or there is nothing to do. */
synced_mem_status sm_fetch_stream(const struct sm_record *record, enum sm_side side, enum sm_work work, bool follows,
                                  struct sm_stream **stream);

/* Returns whether a transfer of the record's contents to the side may come after a caller's work. */
bool sm_move_follows_work(const struct sm_record *record, enum sm_side side);

/* Debug mode: fill a copy that is ready to be overwritten, so that bytes the caller leaves unwritten show. The device's
 * fill is in flight afterwards, on the stream or an internal one (NULL). So the caller checks again whether the copy is
 * ready. A pointer to read that the stream, or a caller without one (NULL), has stays given. If the runtime refuses a
 * fill, the copy is unchanged. Neither changes the thread's error detail. */
void sm_fill_unwritten_host(struct sm_record *record);
void sm_fill_unwritten_device(struct sm_record *record, struct sm_stream *stream);

#endif
