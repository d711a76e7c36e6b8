/* One copy between two objects. */
#include "object/pair.h"

#include "base/caller.h"
#include "base/status.h"
#include "copy/pin.h"
#include "copy/staged.h"
#include "memory/guard.h"
#include "object/fetch.h"
#include "object/unified.h"
#include "object/user_allocator.h"

#include <string.h>

/* ---- The way ---- */

enum way { BY_HOST, QUEUED, STAGED };

/* How the contents of one pair are moved. */
struct route {
    enum way way;
    enum sm_direction direction;
    struct sm_copy *source;
    struct sm_copy *target;
    size_t size;
};

static bool is_mapped(const struct sm_copy *copy)
{
    return copy->source == SYNCED_MEM_SOURCE_MAPPED;
}

struct sm_copy *sm_pair_source(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    const bool is_there = (sm_head(pair->from) & sm_bit(pairs->side)) != 0;
    struct sm_copy *const shared = sm_shared_copy(pair->from);
    return shared ? shared : sm_copy_of(pair->from, is_there ? pairs->side : sm_other(pairs->side));
}

static enum sm_side side_of_source(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    return sm_pair_source(pairs, pair) == sm_copy_of(pair->from, SM_CPU) ? SM_CPU : SM_GPU;
}

/* Returns whether the host copies to the host: then it reads the source itself, also one that the device shares. */
static bool is_read_by_host(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    const struct sm_copy *const source = sm_pair_source(pairs, pair);
    if (pairs->side == SM_CPU)
        return side_of_source(pairs, pair) == SM_CPU;
    return sm_copy_is_shared(source) ? is_mapped(source) : side_of_source(pairs, pair) == SM_CPU;
}

static bool is_staged(const struct route *route)
{
    if (route->direction == SM_D2D)
        return false;
    return route->direction == SM_H2D ? sm_is_staged(route->source, route->size, true)
                                      : sm_is_staged(route->target, route->size, false);
}

/* The target exists. Whether memory of the caller's is page-locked must be known. */
static struct route route_of(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    struct route route = {.source = sm_pair_source(pairs, pair),
                          .target = sm_copy_of(pair->to, pairs->side),
                          .size = sm_size(pair->from)};
    const bool from_host = is_read_by_host(pairs, pair);
    const bool to_host = pairs->side == SM_CPU || is_mapped(route.target);
    route.direction = from_host ? SM_H2D : to_host ? SM_D2H : SM_D2D;
    if (from_host && to_host)
        route.way = BY_HOST;
    else
        route.way = is_staged(&route) ? STAGED : QUEUED;
    return route;
}

/* Find out whether the host's end of a transfer is page-locked. */
static synced_mem_status query_pin_of_source(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    if (pairs->side == SM_CPU || side_of_source(pairs, pair) == SM_GPU)
        return SYNCED_MEM_OK;
    return sm_pin_query(sm_pair_source(pairs, pair), pairs->stream->device);
}

static synced_mem_status query_pin_of_target(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    if (pairs->side == SM_GPU || side_of_source(pairs, pair) == SM_CPU)
        return SYNCED_MEM_OK;
    return sm_pin_query(sm_copy_of(pair->to, SM_CPU), sm_pair_source(pairs, pair)->device);
}

/* ---- Memory ---- */

static bool is_staged_up(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    return pairs->side == SM_GPU && is_read_by_host(pairs, pair) &&
           sm_is_staged(sm_pair_source(pairs, pair), sm_size(pair->from), true);
}

/* It is the transfer's stream where that has the target's device. */
synced_mem_status sm_pair_allocation_stream(const struct sm_pairs *pairs, const struct sm_pair *pair,
                                            struct sm_stream **stream)
{
    *stream = pairs->stream;
    if (pairs->side == SM_CPU)
        return SYNCED_MEM_OK;
    const int device = sm_device(pair->to) >= 0 ? sm_device(pair->to) : pairs->stream->device;
    if (device == pairs->stream->device && !is_staged_up(pairs, pair))
        return SYNCED_MEM_OK;
    return sm_internal_stream(device, is_read_by_host(pairs, pair) ? SM_INTERNAL_H2D : SM_INTERNAL_ALLOC, stream);
}

static synced_mem_status obtain_device(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    struct sm_stream *stream;
    struct sm_copy *copy;
    SM_TRY(sm_pair_allocation_stream(pairs, pair, &stream));
    SM_TRY(sm_obtain_device(pair->to, sm_size(pair->to), stream, &copy));
    sm_put_copy(pair->to, SM_GPU, copy);
    sm_put_device(pair->to, copy->device);
    pair->fresh = sm_copy_is_shared(copy) ? NULL : stream;
    if (stream != pairs->stream && !is_read_by_host(pairs, pair))
        sm_pair_keep_fresh(pairs, pair);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_pair_obtain(const struct sm_pairs *pairs, struct sm_pair *pair, bool *without)
{
    struct sm_fence *again;
    *without = false;
    if (pair->done || !sm_pair_moves(pair))
        return SYNCED_MEM_OK;
    SM_TRY(sm_make_usable(pair->from, side_of_source(pairs, pair)));
    SM_TRY(sm_make_usable(pair->to, pairs->side));
    SM_TRY(query_pin_of_source(pairs, pair));
    *without = sm_user_allocator_wanted(pair->to, pairs->side) != NULL;
    if (*without || sm_copy_of(pair->to, pairs->side))
        return SYNCED_MEM_OK;
    return pairs->side == SM_GPU ? obtain_device(pairs, pair) : sm_fetch(pair->to, SM_CPU, SM_NOTHING, NULL, &again);
}

void sm_pair_keep_fresh(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    struct sm_copy *const target = sm_copy_of(pair->to, pairs->side);
    if (pair->fresh && !target->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_none(target, pair->fresh);
        sm_detail_set(&first);
    }
    pair->fresh = NULL;
}

/* ---- Waits ---- */

/* Memory that both sides use can be read also where the device was lost before it had written the contents. */
static synced_mem_status check_contents(const struct sm_pair *pair)
{
    const struct sm_copy *const shared = sm_shared_copy(pair->from);
    if (!shared || sm_head(pair->from) != SYNCED_MEM_AT_GPU || !sm_inflight_is_lost(shared))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_DEVICE_LOST, "device %d was lost before it had written the contents at %p",
                   shared->device, sm_copy_data(shared));
}

/* The host reads the source, or its threads do. */
static synced_mem_status wait_of_source(const struct sm_pair *pair, struct sm_copy *source, struct sm_pair_wait *wait)
{
    SM_TRY(check_contents(pair));
    const synced_mem_status status = sm_inflight_settle(source, false, NULL);
    wait->fence = status == SYNCED_MEM_OK ? sm_inflight_blocker(source, false) : NULL;
    wait->of_source = true;
    return status;
}

/* The host writes the target, or its threads do. Its old contents do not matter, and may be lost. */
static synced_mem_status wait_of_target(struct sm_copy *target, struct sm_pair_wait *wait)
{
    const synced_mem_status status = sm_inflight_settle(target, true, NULL);
    wait->fence = status == SYNCED_MEM_OK ? sm_inflight_unfinished(target, true) : NULL;
    wait->of_source = false;
    return status;
}

/* The stream waits for all work, once that is queued. The source that is pageable is read at once. */
static synced_mem_status wait_of_queued(const struct route *route, struct sm_pair_wait *wait)
{
    if (route->direction == SM_H2D && !route->source->pinned) {
        *wait = (struct sm_pair_wait){.fence = sm_inflight_blocker(route->source, false), .of_source = true};
        if (wait->fence)
            return SYNCED_MEM_OK;
    }
    *wait = (struct sm_pair_wait){
        .fence = sm_inflight_unqueued(route->source, false), .until_queued = true, .of_source = true};
    if (!wait->fence)
        *wait = (struct sm_pair_wait){.fence = sm_inflight_queueing(route->target, true), .until_queued = true};
    return SYNCED_MEM_OK;
}

synced_mem_status sm_pair_find_wait(const struct sm_pairs *pairs, const struct sm_pair *pair, struct sm_pair_wait *wait)
{
    *wait = (struct sm_pair_wait){.fence = NULL};
    if (pair->done || !sm_pair_moves(pair))
        return SYNCED_MEM_OK;
    SM_TRY(query_pin_of_target(pairs, pair));
    const struct route route = route_of(pairs, pair);
    if (route.way == QUEUED)
        return wait_of_queued(&route, wait);
    SM_TRY(wait_of_source(pair, route.source, wait));
    return wait->fence ? SYNCED_MEM_OK : wait_of_target(route.target, wait);
}

/* ---- Heads ---- */

void sm_give_up_contents(struct synced_mem *mem)
{
    sm_close_write(mem);
    sm_set_head(mem, SYNCED_MEM_UNINITIALIZED);
}

/* A read of from ends the open write of another stream. On the writer's own stream the write goes on. */
static void close_source(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    const struct sm_copy *const gpu = sm_copy_of(pair->from, SM_GPU);
    if (gpu && gpu == sm_pair_source(pairs, pair) && gpu->writer != pairs->stream)
        sm_close_write(pair->from);
}

static void set_done(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    close_source(pairs, pair);
    sm_close_write(pair->to);
    sm_set_head(pair->to, sm_bit(pairs->side));
    pair->done = true;
}

/* The target was written, nobody knows how far. */
static void lose_target(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    sm_set_head(pair->to, sm_head(pair->to) & ~sm_bits_of(pair->to, pairs->side));
}

void sm_pair_commit(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status)
{
    pair->queued = false;
    pair->fresh = NULL;
    if (status == SYNCED_MEM_OK)
        set_done(pairs, pair);
    else
        lose_target(pairs, pair);
}

/*
 * The transfer has begun. Until it has ended the head is that of the copies that it does not write:
 *
 *    the other side is valid     that side alone: it has the old contents
 *    nothing is valid            the same
 *    the target alone is valid   the same: its contents are arriving, and whoever needs them waits
 */
static void begin(const struct sm_pairs *pairs, struct sm_pair *pair, const struct route *route)
{
    const unsigned before = sm_head(pair->to);
    const unsigned rest = before & ~sm_bits_of(pair->to, pairs->side);
    pair->kept = rest == SYNCED_MEM_UNINITIALIZED && before != SYNCED_MEM_UNINITIALIZED;
    if (!pair->kept)
        sm_set_head(pair->to, rest);
    pair->arrival = sm_fence_hold(route->target->write);
    pair->target = route->target;
    pair->source = route->source;
    pair->target_writes = route->target->writes;
    pair->source_writes = route->source->writes;
    pair->size = route->size;
    pair->head = sm_head(pair->to);
    pair->fresh = NULL;
}

static bool is_untouched(const struct sm_copy *copy, const struct sm_copy *then, unsigned writes)
{
    return copy == then && copy->writes == writes;
}

/* A call that used the target while the head counted on its contents came after the copy. */
static void end_target(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status)
{
    struct synced_mem *const to = pair->to;
    const bool same = is_untouched(sm_copy_of(to, pairs->side), pair->target, pair->target_writes);
    const bool as_left = same && sm_head(to) == pair->head && sm_size(to) == pair->size;
    if (status != SYNCED_MEM_OK && same && pair->kept)
        lose_target(pairs, pair);
    if (status != SYNCED_MEM_OK)
        return;
    if (as_left) {
        sm_set_head(to, sm_bit(pairs->side));
        pair->target->arriving = pair->target->write == pair->arrival;
    }
    pair->done = as_left || pair->kept;
}

/* Entering cannot fail, as both objects were entered before. */
void sm_pair_finish(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status)
{
    struct sm_transaction call;
    (void)sm_enter(&call, pair->to);
    end_target(pairs, pair, status);
    if (pair->done)
        sm_close_write(pair->to);
    (void)sm_leave(&call, SYNCED_MEM_OK);
    if (pair->done) {
        (void)sm_enter(&call, pair->from);
        if (is_untouched(sm_copy_of(pair->from, SM_GPU), pair->source, pair->source_writes))
            sm_close_write(pair->from);
        (void)sm_leave(&call, SYNCED_MEM_OK);
    }
    sm_fence_drop(pair->arrival);
    pair->arrival = NULL;
}

/* ---- Copying ---- */

static synced_mem_status copy_by_host(const struct sm_pairs *pairs, struct sm_pair *pair, const struct route *route)
{
    sm_guard_open(route->target);
    memcpy(sm_copy_data(route->target), sm_copy_data(route->source), route->size);
    route->target->arriving = false;
    set_done(pairs, pair);
    return SYNCED_MEM_OK;
}

/* Picks the stream of the transfer: the caller's, unless it is of a device that has no memory of the transfer's. */
static synced_mem_status find_stream(const struct sm_pairs *pairs, const struct route *route, struct sm_stream **on)
{
    const bool up = route->direction == SM_H2D;
    const int device = up ? route->target->device : route->source->device;
    const bool callers = pairs->stream && (route->direction == SM_D2D || device == pairs->stream->device);
    *on = pairs->stream;
    if (callers && route->way == QUEUED)
        return SYNCED_MEM_OK;
    return sm_internal_stream(device, up ? SM_INTERNAL_H2D : SM_INTERNAL_D2H, on);
}

/* Makes the internal stream come after the caller's. */
static synced_mem_status order_after(struct sm_stream *internal, struct sm_stream *stream)
{
    struct sm_fence *fence;
    SM_TRY(sm_stream_queued(stream, &fence));
    const synced_mem_status status = sm_stream_wait(internal, fence);
    sm_fence_drop(fence);
    return status;
}

/* Where devices reach one another, the library's memory on each is made usable by the other. Otherwise the runtime
 * copies through the host. */
static void let_reach(const struct route *route)
{
    struct sm_copy *const ends[] = {route->target, route->source};
    if (route->direction != SM_D2D || ends[0]->device == ends[1]->device)
        return;
    for (int i = 0; i < 2; i++)
        if (ends[i]->source == SYNCED_MEM_SOURCE_DEVICE)
            sm_device_pool_reach(ends[i]->device, ends[1 - i]->device);
}

/* The target's old contents may be lost, which does not matter here. */
static synced_mem_status queue(const struct route *route, struct sm_stream *on, struct sm_transfer *transfer)
{
    const bool arriving = route->target->arriving;
    *transfer = (struct sm_transfer){
        .direction = route->direction, .to = route->target, .from = route->source, .size = route->size};
    route->target->arriving = false;
    synced_mem_status status = SYNCED_MEM_OK;
    if (route->way == QUEUED)
        status = sm_transfer_queue(transfer, on);
    else if (route->direction == SM_H2D)
        status = sm_transfer_order(route->target, on);
    if (status == SYNCED_MEM_OK && route->way == STAGED)
        status = sm_staged_begin(transfer, on, NULL);
    if (status != SYNCED_MEM_OK)
        route->target->arriving = arriving;
    return status;
}

/* Enters a transfer on an internal stream. */
static synced_mem_status enter(const struct sm_pairs *pairs, struct sm_pair *pair, const struct route *route,
                               struct sm_stream *on, struct sm_transfer *transfer)
{
    const synced_mem_status status = sm_transfer_enter(transfer, 1, on);
    if (status == SYNCED_MEM_OK && pairs->side == SM_CPU && route->target->write) {
        begin(pairs, pair, route);
        return SYNCED_MEM_OK;
    }
    sm_pair_commit(pairs, pair, status);
    if (status != SYNCED_MEM_OK || !pairs->stream)
        return status;
    return sm_stream_wait(pairs->stream, route->target->write);
}

static synced_mem_status transfer_contents(const struct sm_pairs *pairs, struct sm_pair *pair,
                                           const struct route *route, struct sm_transfer *transfer)
{
    struct sm_stream *on;
    SM_TRY(find_stream(pairs, route, &on));
    if (on != pairs->stream && pairs->stream && route->way == QUEUED)
        SM_TRY(order_after(on, pairs->stream));
    if (pairs->side == SM_CPU)
        sm_guard_open(route->target);
    let_reach(route);
    const synced_mem_status status = queue(route, on, transfer);
    if (status != SYNCED_MEM_OK) {
        if (route->target->untracked == SM_UNTRACKED_WRITE)
            lose_target(pairs, pair);
        return status;
    }
    if (route->way == STAGED)
        begin(pairs, pair, route);
    else if (on != pairs->stream)
        return enter(pairs, pair, route, on, transfer);
    else
        pair->queued = true;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_pair_copy(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_transfer *transfer)
{
    sm_caller_is_about(pair->to, sm_object_name(pair->to));
    if (!sm_pair_moves(pair)) {
        sm_give_up_contents(pair->to);
        pair->done = true;
        return SYNCED_MEM_OK;
    }
    const struct route route = route_of(pairs, pair);
    return route.way == BY_HOST ? copy_by_host(pairs, pair, &route) : transfer_contents(pairs, pair, &route, transfer);
}
