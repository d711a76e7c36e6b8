/* Fetching for objects that may have several records. */
#include "object/fetch_parts.h"

#include "base/status.h"
#include "copy/host_transfer.h"
#include "memory/guard.h"
#include "object/span.h"
#include "object/unified.h"
#include "stream/shared_ends.h"

#include <assert.h>
#include <stdlib.h>

/* The memory is of all parts, which other streams may use. So the caller's stream does not allocate it. */
synced_mem_status sm_fetch_memory(const struct synced_mem *mem, enum sm_side side, struct sm_stream *stream,
                                  struct sm_waits *waits)
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
    return sm_fetch(own, side, SM_NOTHING, stream, waits);
}

static enum sm_work get_access_work(const struct sm_record *record, enum sm_side side, enum sm_mode mode)
{
    return (enum sm_work)sm_transitions[sm_head(record)][side][mode].work;
}

/* ---- Zeros on the host ---- */

static bool is_zeroed(const struct sm_record *record, enum sm_mode mode)
{
    return get_access_work(record, SM_CPU, mode) == SM_ZERO;
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

static struct sm_fence *begin_zeros(const struct synced_mem *mem, enum sm_mode mode, size_t count)
{
    struct sm_host_range *const ranges = calloc(count, sizeof *ranges);
    if (!ranges) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu fills", count);
        return NULL;
    }
    struct sm_host_range *range = ranges;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        if (is_zeroed(each, mode))
            *range++ = (struct sm_host_range){.to = sm_copy_data(sm_copy_of(each, SM_CPU)), .size = sm_size_of(each)};
    struct sm_fence *const fence = sm_host_transfer_make(ranges, count);
    for (struct sm_record *each = sm_first_record(mem); each && fence; each = sm_next_record(mem, each))
        if (is_zeroed(each, mode))
            enter_zeros(each, fence);
    free(ranges);
    return fence;
}

/* Fills the pieces that have no contents. Calls may use other pieces meanwhile, so the host fills them with no lock
 * held: it does so when the caller waits. */
static synced_mem_status zero_parts(const struct synced_mem *mem, enum sm_mode mode, struct sm_waits *waits)
{
    size_t count = 0;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        if (is_zeroed(each, mode)) {
            SM_TRY(sm_waits_go_on(waits, find_wait_of_zeros(each, waits)));
            count++;
        }
    if (waits->count > 0 || count == 0)
        return sm_waits_status(waits);
    struct sm_fence *const fence = begin_zeros(mem, mode, count);
    if (!fence)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    (void)sm_waits_add(waits, fence);
    sm_fence_drop(fence);
    return SM_AGAIN;
}

/* ---- Several transfers ---- */

/* The transfers of one call, which are queued and not entered. */
struct moves {
    struct sm_record **records;
    struct sm_transfer *transfers;
    size_t queued;
    struct sm_batch copies;
    enum sm_side side;
    struct sm_stream *stream;
};

static bool is_moved(const struct sm_record *record, enum sm_side side, enum sm_mode mode)
{
    return get_access_work(record, side, mode) == SM_MOVE && !sm_shared_copy(record);
}

static size_t count_moves(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    size_t count = 0;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        count += is_moved(each, side, mode);
    return count;
}

static synced_mem_status make_room(struct moves *moves, size_t count)
{
    struct row {
        struct sm_transfer transfer;
        struct sm_record *record;
        void *to;
        const void *from;
        size_t size;
    };
    moves->transfers = calloc(count, sizeof(struct row));
    if (!moves->transfers)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu transfers", count);
    moves->records = (struct sm_record **)(void *)(moves->transfers + count);
    moves->copies.to = (void **)(void *)(moves->records + count);
    moves->copies.from = (const void **)(void *)(moves->copies.to + count);
    moves->copies.sizes = (size_t *)(void *)(moves->copies.from + count);
    moves->copies.room = count;
    moves->copies.direction = moves->side == SM_GPU ? SM_H2D : SM_D2H;
    return SYNCED_MEM_OK;
}

static void set_side_valid(struct sm_record *record, enum sm_side side)
{
    sm_set_head(record, sm_head(record) | sm_bit(side));
}

static synced_mem_status queue_record(struct moves *moves, struct sm_record *record, struct sm_waits *waits)
{
    struct sm_transfer *const transfer = &moves->transfers[moves->queued];
    SM_TRY(sm_make_usable(record, moves->side));
    SM_TRY(sm_queue_move(record, moves->side, moves->stream, &moves->copies, transfer, waits));
    if (transfer->staged)
        set_side_valid(record, moves->side);
    else
        moves->records[moves->queued++] = record;
    return SYNCED_MEM_OK;
}

/* Sends and enters what is queued, also after a failure: a batch that the runtime refused may have been queued in
 * part. */
static synced_mem_status enter_moves(struct moves *moves)
{
    const synced_mem_status sent = sm_batch_send(&moves->copies, moves->stream);
    if (moves->queued == 0)
        return sent;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status entered = sm_transfer_enter(moves->transfers, moves->queued, moves->stream);
    if (sent != SYNCED_MEM_OK)
        sm_detail_set(&first);
    if (sent != SYNCED_MEM_OK || entered != SYNCED_MEM_OK)
        return sent != SYNCED_MEM_OK ? sent : entered;
    for (size_t i = 0; i < moves->queued; i++)
        set_side_valid(moves->records[i], moves->side);
    return SYNCED_MEM_OK;
}

/* Queues each transfer that is ready, and collects the waits of the others. What is queued is entered in any case. */
static synced_mem_status queue_and_enter(struct synced_mem *mem, enum sm_mode mode, struct moves *moves,
                                         struct sm_waits *waits)
{
    struct sm_shared_ends ends;
    synced_mem_status status = SYNCED_MEM_OK;
    sm_share_ends(&ends);
    for (struct sm_record *each = sm_first_record(mem); each && status == SYNCED_MEM_OK;
         each = sm_next_record(mem, each))
        if (is_moved(each, moves->side, mode))
            status = sm_waits_go_on(waits, queue_record(moves, each, waits));
    sm_share_no_ends();
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status entered = enter_moves(moves);
    if (status == SYNCED_MEM_OK || status == SM_AGAIN)
        return entered != SYNCED_MEM_OK ? entered : sm_waits_status(waits);
    sm_detail_set(&first);
    return status;
}

bool sm_moves_follow_work(const struct synced_mem *mem, enum sm_side side)
{
    bool follows = false;
    for (struct sm_record *each = sm_first_record(mem); each && !follows; each = sm_next_record(mem, each))
        follows = sm_move_follows_work(each, side);
    return follows;
}

static synced_mem_status move_records(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, size_t count,
                                      struct sm_stream *stream, struct sm_waits *waits)
{
    struct moves moves = {.side = side, .stream = stream};
    if (!stream)
        SM_TRY(sm_fetch_stream(sm_first_record(mem), side, SM_MOVE, sm_moves_follow_work(mem, side), &moves.stream));
    SM_TRY(make_room(&moves, count));
    sm_batch_begin(&moves.copies, moves.stream);
    const synced_mem_status status = queue_and_enter(mem, mode, &moves, waits);
    free(moves.transfers);
    return status;
}

/* ---- An access ---- */

static synced_mem_status fetch_parts(struct synced_mem *mem, enum sm_side side, enum sm_mode mode,
                                     struct sm_stream *stream, bool *fetched, struct sm_waits *waits)
{
    const size_t moves = sm_has_one_record(mem) ? 0 : count_moves(mem, side, mode);
    *fetched = moves > 1;
    SM_TRY(sm_fetch_memory(mem, side, stream, waits));
    if (moves > 1)
        SM_TRY(move_records(mem, side, mode, moves, stream, waits));
    if (side == SM_CPU)
        SM_TRY(zero_parts(mem, mode, waits));
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        const enum sm_work work = get_access_work(each, side, mode);
        *fetched = *fetched || work != SM_NOTHING;
        SM_TRY(sm_waits_go_on(waits, sm_fetch(each, side, work, stream, waits)));
    }
    return sm_waits_status(waits);
}

synced_mem_status sm_fetch_for_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode,
                                      struct sm_stream *stream, bool *fetched, struct sm_waits *waits)
{
    if (sm_is_divided(mem))
        return fetch_parts(mem, side, mode, stream, fetched, waits);
    struct sm_record *const own = sm_own_record(mem);
    const enum sm_work work = get_access_work(own, side, mode);
    *fetched = work != SM_NOTHING;
    return sm_fetch(own, side, work, stream, waits);
}
