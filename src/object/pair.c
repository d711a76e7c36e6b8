/* One copy between two records. */
#include "object/pair_heads.h"

#include "base/caller.h"
#include "base/status.h"
#include "copy/pin.h"
#include "copy/staged.h"
#include "memory/guard.h"
#include "object/fetch_parts.h"
#include "object/piece.h"
#include "object/publish.h"
#include "object/renew.h"
#include "object/span.h"
#include "object/unified.h"
#include "object/user_allocator.h"

#include <assert.h>
#include <string.h>

/* ---- The way ---- */

enum way { BY_HOST, QUEUED, STAGED };

/* The way of one pair, and its ends. */
struct route {
    enum way way;
    enum sm_direction direction;
    struct sm_copy *source;
    struct sm_copy *target;
    size_t from_offset; /* in source */
    size_t size;
};

static bool is_copy_mapped(const struct sm_copy *copy)
{
    return copy->source == SYNCED_MEM_SOURCE_MAPPED;
}

/* Returns the copy of from to read: the one on the targets' side if it is valid, else the other. */
static struct sm_copy *get_source(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    const bool is_there = (sm_head(pair->from) & sm_bit(pairs->side)) != 0;
    struct sm_copy *const shared = sm_shared_copy(pair->from);
    return shared ? shared : sm_copy_of(pair->from, is_there ? pairs->side : sm_other(pairs->side));
}

static enum sm_side get_source_side(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    return get_source(pairs, pair) == sm_copy_of(pair->from, SM_CPU) ? SM_CPU : SM_GPU;
}

/* Returns whether the source is read as host memory. A shared source can be both. */
static bool is_read_by_host(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    const struct sm_copy *const source = get_source(pairs, pair);
    if (pairs->side == SM_CPU)
        return get_source_side(pairs, pair) == SM_CPU;
    return sm_copy_is_shared(source) ? is_copy_mapped(source) : get_source_side(pairs, pair) == SM_CPU;
}

/* If an object of the call is in parts, pageable memory of any size is staged, also that of the other objects: another
 * transfer of it may block with the locks held. */
static bool is_host_end_staged(const struct sm_pairs *pairs, const struct sm_copy *host, size_t size, bool up)
{
    return sm_is_staged(host, size, up) || (pairs->unlocked && !host->pinned && size > 0);
}

static bool is_route_staged(const struct sm_pairs *pairs, const struct route *route)
{
    if (route->direction == SM_D2D)
        return false;
    const bool up = route->direction == SM_H2D;
    return is_host_end_staged(pairs, up ? route->source : route->target, route->size, up);
}

/* The target must exist. It must be known whether user memory is page-locked. */
static struct route choose_route(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    struct route route = {.source = get_source(pairs, pair),
                          .target = sm_copy_of(pair->to, pairs->side),
                          .from_offset = pair->from_offset,
                          .size = pair->size};
    const bool from_host = is_read_by_host(pairs, pair);
    const bool to_host = pairs->side == SM_CPU || is_copy_mapped(route.target);
    route.direction = from_host ? SM_H2D : to_host ? SM_D2H : SM_D2D;
    if (from_host && to_host)
        route.way = BY_HOST;
    else
        route.way = is_route_staged(pairs, &route) ? STAGED : QUEUED;
    return route;
}

void sm_pair_plan(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_expected *expected)
{
    struct sm_copy *const source = sm_slot_of(pair->from, SM_GPU);
    struct sm_copy *const target = sm_slot_of(pair->to, SM_GPU);
    const int device = pairs->stream ? pairs->stream->device : SYNCED_MEM_DEVICE_CURRENT;
    pair->direct = !pair->done && (sm_head(pair->from) & sm_bit(SM_GPU)) && pairs->side == SM_GPU &&
                   source->device == device && target->device == device && !sm_copy_is_shared(source) &&
                   source->untracked != SM_UNTRACKED_WRITE && sm_has_memory_to_write(pair->to, SM_GPU) &&
                   !sm_inflight_unqueued(source, false) && !sm_inflight_queueing(target, true);
    if (pair->direct)
        sm_transfer_expect(expected, target, source, pair->size);
}

/* The next two functions find out whether the host's end of a transfer is page-locked. */
static synced_mem_status find_pin_of_source(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    if (pairs->side == SM_CPU || get_source_side(pairs, pair) == SM_GPU)
        return SYNCED_MEM_OK;
    return sm_find_pin(pair->from, get_source(pairs, pair), pairs->stream->device);
}

static synced_mem_status find_pin_of_target(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    if (pairs->side == SM_GPU || get_source_side(pairs, pair) == SM_CPU)
        return SYNCED_MEM_OK;
    return sm_find_pin(pair->to, sm_copy_of(pair->to, SM_CPU), get_source(pairs, pair)->device);
}

/* ---- Memory ---- */

static bool is_source_staged(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    return pairs->side == SM_GPU && is_read_by_host(pairs, pair) &&
           is_host_end_staged(pairs, get_source(pairs, pair), pair->size, true);
}

/* It is the transfer's stream if that is on the target's device, or if the transfer is staged. */
synced_mem_status sm_pair_allocation_stream(const struct sm_pairs *pairs, const struct sm_pair *pair,
                                            struct sm_stream **stream)
{
    *stream = pairs->stream;
    if (pairs->side == SM_CPU)
        return SYNCED_MEM_OK;
    const int device = sm_device(sm_owner_of(pair->to)) >= 0 ? sm_device(sm_owner_of(pair->to)) : pairs->stream->device;
    if (device == pairs->stream->device && !is_source_staged(pairs, pair))
        return SYNCED_MEM_OK;
    return sm_internal_stream(device, is_source_staged(pairs, pair) ? SM_INTERNAL_H2D : SM_INTERNAL_ALLOC, stream);
}

/* A piece gets a part of its root's memory, which is usable behind the work that is entered there. */
static synced_mem_status obtain_device_part(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    struct sm_stream *stream;
    SM_TRY(sm_pair_allocation_stream(pairs, pair, &stream));
    SM_TRY(sm_fetch_memory(sm_owner_of(pair->to), SM_GPU, stream, false));
    return sm_attach_part(sm_piece_of(pair->to), SM_GPU);
}

static synced_mem_status obtain_device_copy(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    struct sm_stream *stream;
    struct sm_copy *copy;
    if (pair->to->kind == SM_PIECE)
        return obtain_device_part(pairs, pair);
    SM_TRY(sm_pair_allocation_stream(pairs, pair, &stream));
    SM_TRY(sm_obtain_device(sm_owner_of(pair->to), sm_size_of(pair->to), stream, &copy));
    sm_put_copy(pair->to, SM_GPU, copy);
    sm_put_device(sm_owner_of(pair->to), copy->device);
    pair->fresh = sm_copy_is_shared(copy) ? NULL : stream;
    if (stream != pairs->stream && !is_source_staged(pairs, pair))
        sm_pair_keep_fresh(pairs, pair);
    return SYNCED_MEM_OK;
}

/* Memory that the library obtains itself is there at once. */
static synced_mem_status obtain_host_copy(const struct sm_pair *pair)
{
    SM_TRY(sm_fetch_memory(sm_owner_of(pair->to), SM_CPU, NULL, false));
    return sm_make_memory(pair->to, SM_CPU, NULL);
}

synced_mem_status sm_pair_obtain(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    struct synced_mem *const to = sm_owner_of(pair->to);
    if (pair->done || !sm_pair_moves(pair))
        return SYNCED_MEM_OK;
    SM_TRY(sm_make_usable(pair->from, get_source_side(pairs, pair)));
    SM_TRY(sm_make_usable(pair->to, pairs->side));
    SM_TRY(find_pin_of_source(pairs, pair));
    if (sm_is_read_only(to, pairs->side) || sm_user_allocator_wanted(to, pairs->side))
        return SM_AGAIN;
    if (sm_copy_of(pair->to, pairs->side))
        return SYNCED_MEM_OK;
    return pairs->side == SM_GPU ? obtain_device_copy(pairs, pair) : obtain_host_copy(pair);
}

void sm_pair_keep_fresh(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    struct sm_copy *const target = sm_copy_of(pair->to, pairs->side);
    if (pair->fresh && !target->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_enter_write(target, pair->fresh);
        sm_detail_set(&first);
    }
    pair->fresh = NULL;
}

/* ---- Waits ---- */

/* Memory that both sides use stays readable after the loss of the device, even if its contents were never written. */
static synced_mem_status check_contents(const struct sm_pair *pair)
{
    const struct sm_copy *const shared = sm_shared_copy(pair->from);
    return shared && sm_head(pair->from) == SYNCED_MEM_AT_GPU ? sm_unified_check_contents(shared) : SYNCED_MEM_OK;
}

/* For a source that the host or a copy thread reads. */
static synced_mem_status find_source_wait(const struct sm_pair *pair, struct sm_copy *source, struct sm_waits *waits)
{
    SM_TRY(check_contents(pair));
    SM_TRY(sm_inflight_settle(source, false, NULL));
    return sm_waits_add(waits, sm_inflight_blocker(source, false));
}

/* For a target that the host or a copy thread writes. Its old contents do not matter, and may be lost. */
static synced_mem_status find_target_wait(struct sm_copy *target, struct sm_waits *waits)
{
    SM_TRY(sm_inflight_settle(target, true, NULL));
    return sm_waits_add_for(waits, sm_inflight_unfinished(target, true), SM_MAY_FAIL);
}

/* The stream waits for all work once that is queued. A pageable source is read at once, so the host waits for it. */
static synced_mem_status find_queued_wait(const struct route *route, struct sm_waits *waits)
{
    if (route->direction == SM_H2D && !route->source->pinned)
        SM_TRY(sm_waits_add(waits, sm_inflight_blocker(route->source, false)));
    SM_TRY(sm_waits_add_for(waits, sm_inflight_unqueued(route->source, false), SM_UNTIL_QUEUED));
    return sm_waits_add_for(waits, sm_inflight_queueing(route->target, true), SM_UNTIL_QUEUED | SM_MAY_FAIL);
}

synced_mem_status sm_pair_find_wait(const struct sm_pairs *pairs, const struct sm_pair *pair, struct sm_waits *waits)
{
    if (pair->done || !sm_pair_moves(pair))
        return SYNCED_MEM_OK;
    SM_TRY(find_pin_of_target(pairs, pair));
    const struct route route = choose_route(pairs, pair);
    if (pairs->side == SM_CPU && route.direction == SM_D2H)
        SM_TRY(sm_waits_add(waits, sm_inflight_arrival_from_elsewhere(route.source)));
    if (route.way == QUEUED)
        return find_queued_wait(&route, waits);
    SM_TRY(find_source_wait(pair, route.source, waits));
    return find_target_wait(route.target, waits);
}

/* ---- Copying ---- */

/* Copies with the locks held, unless that may hold up calls on other parts of an object. */
static synced_mem_status copy_by_host(const struct sm_pairs *pairs, struct sm_pair *pair, const struct route *route)
{
    sm_guard_open(route->target);
    if (pairs->unlocked) {
        SM_TRY(sm_host_collection_add(pairs->by_host, route->target, route->source, route->from_offset, route->size));
        sm_pair_begin(pairs, pair, route->target);
        return SYNCED_MEM_OK;
    }
    memcpy(sm_copy_data(route->target), (char *)sm_copy_data(route->source) + route->from_offset, route->size);
    route->target->writes++;
    route->target->arriving = false;
    sm_pair_complete(pairs, pair);
    return SYNCED_MEM_OK;
}

/* Returns whether a transfer on an internal stream may come after a caller's work. A staged one is queued when its
 * copies are idle, but it comes after kernels that got the target's pointer without a stream. */
static bool follows_work(const struct sm_pairs *pairs, const struct route *route)
{
    if (route->way == STAGED)
        return route->target->streamless;
    return pairs->stream || sm_transfer_follows_work(route->target, route->source);
}

/* Picks the stream of the transfer. It is the caller's if both are on the same device and nothing is staged. */
static synced_mem_status find_stream(const struct sm_pairs *pairs, const struct route *route, struct sm_stream **on)
{
    const int device = route->direction == SM_H2D ? route->target->device : route->source->device;
    const bool callers = pairs->stream && (route->direction == SM_D2D || device == pairs->stream->device);
    *on = pairs->stream;
    if (callers && route->way == QUEUED)
        return SYNCED_MEM_OK;
    return sm_transfer_stream(device, route->direction, follows_work(pairs, route), on);
}

/* Makes the internal stream come after the caller's. */
static synced_mem_status order_after_stream(struct sm_stream *internal, struct sm_stream *stream)
{
    struct sm_fence *fence;
    SM_TRY(sm_stream_record(stream, &fence));
    const synced_mem_status status = sm_stream_wait(internal, fence);
    sm_fence_drop(fence);
    return status;
}

/* Allows each of two devices to use the library's memory on the other, if they can reach one another. Otherwise the
 * runtime copies through the host. */
static void allow_peer_access(const struct route *route)
{
    struct sm_copy *const ends[] = {route->target, route->source};
    if (route->direction != SM_D2D || ends[0]->device == ends[1]->device)
        return;
    for (int i = 0; i < 2; i++)
        if (ends[i]->source == SYNCED_MEM_SOURCE_DEVICE)
            sm_device_pool_reach(ends[i]->device, ends[1 - i]->device);
}

/* After a failure to queue the pair's transfer. arriving: of the target, as it was before. */
static synced_mem_status leave_target(const struct sm_pairs *pairs, const struct sm_pair *pair, struct sm_copy *target,
                                      bool arriving, synced_mem_status status)
{
    target->arriving = arriving;
    if (target->untracked == SM_UNTRACKED_WRITE)
        sm_pair_drop_target(pairs, pair);
    return status;
}

/* The target's old contents do not matter, and may be lost. */
static synced_mem_status queue_transfer(const struct sm_pairs *pairs, const struct route *route, struct sm_stream *on,
                                        struct sm_transfer *transfer)
{
    sm_transfer_describe(transfer, route->direction, route->target, route->source, route->size);
    transfer->from_offset = route->from_offset;
    transfer->batch = route->direction == SM_D2D && on == pairs->stream ? pairs->batch : NULL;
    route->target->arriving = false;
    synced_mem_status status = SYNCED_MEM_OK;
    if (route->way == QUEUED)
        status = sm_transfer_queue(transfer, on);
    else if (route->direction == SM_H2D)
        status = sm_transfer_order(route->target, on);
    if (status == SYNCED_MEM_OK && route->way == STAGED)
        status = sm_staged_begin(transfer, on, NULL);
    return status;
}

/* Enters a transfer on an internal stream. */
static synced_mem_status enter_transfer(const struct sm_pairs *pairs, struct sm_pair *pair, const struct route *route,
                                        struct sm_stream *on, struct sm_transfer *transfer)
{
    const synced_mem_status status = sm_transfer_enter(transfer, 1, NULL, on);
    if (status == SYNCED_MEM_OK && pairs->side == SM_CPU && route->target->write) {
        sm_pair_begin(pairs, pair, route->target);
        return SYNCED_MEM_OK;
    }
    sm_pair_set_heads(pairs, pair, status);
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
        SM_TRY(order_after_stream(on, pairs->stream));
    if (pairs->side == SM_CPU)
        sm_guard_open(route->target);
    allow_peer_access(route);
    const bool arriving = route->target->arriving;
    const synced_mem_status status = queue_transfer(pairs, route, on, transfer);
    if (status != SYNCED_MEM_OK)
        return leave_target(pairs, pair, route->target, arriving, status);
    if (route->way == STAGED)
        sm_pair_begin(pairs, pair, route->target);
    else if (on != pairs->stream)
        return enter_transfer(pairs, pair, route, on, transfer);
    else
        pair->queued = true;
    return SYNCED_MEM_OK;
}

static void note_source(struct sm_pair *pair, struct sm_copy *source)
{
    pair->source = source;
    pair->source_writes = source->writes;
    pair->source_data = (char *)sm_copy_data(source) + pair->from_offset;
    pair->reads_gpu = source == sm_copy_of(pair->from, SM_GPU);
}

/* A direct pair has one way: on the caller's stream, which the batch is for. */
static synced_mem_status queue_directly(const struct sm_pairs *pairs, struct sm_pair *pair,
                                        struct sm_transfer *transfer)
{
    struct sm_copy *const source = sm_slot_of(pair->from, SM_GPU);
    struct sm_copy *const target = sm_slot_of(pair->to, SM_GPU);
    const bool arriving = target->arriving;
    note_source(pair, source);
    sm_transfer_describe(transfer, SM_D2D, target, source, pair->size);
    transfer->from_offset = pair->from_offset;
    transfer->batch = pairs->batch;
    target->arriving = false;
    const synced_mem_status status = sm_transfer_queue(transfer, pairs->stream);
    if (status != SYNCED_MEM_OK)
        return leave_target(pairs, pair, target, arriving, status);
    pair->queued = true;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_pair_copy(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_transfer *transfer)
{
    sm_note_record(pair->to);
    if (pair->direct)
        return queue_directly(pairs, pair, transfer);
    if (!sm_pair_moves(pair)) {
        sm_give_up_contents(pair->to);
        pair->done = true;
        return SYNCED_MEM_OK;
    }
    const struct route route = choose_route(pairs, pair);
    assert(!route.target->read_only);
    note_source(pair, route.source);
    return route.way == BY_HOST ? copy_by_host(pairs, pair, &route) : transfer_contents(pairs, pair, &route, transfer);
}
