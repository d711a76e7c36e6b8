/* Calls that change an object's memory or its size. */
#include "object/storage.h"

#include "memory/guard.h"
#include "object/fetch.h"
#include "object/reclaim.h"
#include "base/status.h"
#include "object/user_allocator.h"
#include "object/unified.h"

#include <stdint.h>
#include <string.h>

/* ---- Handing back ---- */

/* The library's work on borrowed memory that is about to be handed back; it may have got out of sight. */
static synced_mem_status blocker_of_borrowed(struct sm_copy *copy, struct sm_fence **wait)
{
    *wait = NULL;
    if (!copy || copy->source != SYNCED_MEM_SOURCE_BORROWED)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_inflight_retrack(copy);
    if (status == SYNCED_MEM_OK)
        *wait = sm_inflight_transfer(copy);
    return status;
}

/* Waits until the sides that will go have nothing of the library's in flight, if they are borrowed. */
static synced_mem_status make_replaceable(struct synced_mem *mem, const bool going[SM_SIDES])
{
    for (;;) {
        struct sm_fence *wait = NULL;
        synced_mem_status status = SYNCED_MEM_OK;
        for (enum sm_side side = SM_CPU; side < SM_SIDES && !wait && status == SYNCED_MEM_OK; side++)
            if (going[side])
                status = blocker_of_borrowed(sm_copy_of(mem, side), &wait);
        if (!wait)
            return status;
        bool over;
        status = sm_wait_unlocked(mem, wait, &over);
        if (status != SYNCED_MEM_OK && !over)
            return status;
    }
}

/* ---- Releasing one side ---- */

/* The contents have to arrive on the other side, as this one is the last that has them. */
static synced_mem_status next_arrival(struct synced_mem *mem, enum sm_side side, struct sm_fence **wait)
{
    synced_mem_status status = SYNCED_MEM_OK;
    *wait = NULL;
    if (sm_head(mem) == sm_bit(side))
        status = sm_fetch(mem, sm_other(side), SM_MOVE, NULL, wait);
    if (status == SYNCED_MEM_OK && !*wait && sm_head(mem) == SYNCED_MEM_SYNCED)
        *wait = sm_inflight_blocker(sm_copy_of(mem, sm_other(side)), false);
    return status;
}

/* Leaves the other side with the contents, arrived, if this one has them; and nothing in flight on borrowed memory. */
static synced_mem_status make_dispensable(struct synced_mem *mem, enum sm_side side)
{
    while (sm_copy_of(mem, side)) {
        struct sm_fence *wait;
        synced_mem_status status = next_arrival(mem, side, &wait);
        const bool arriving = wait != NULL;
        if (status == SYNCED_MEM_OK && !wait)
            status = blocker_of_borrowed(sm_copy_of(mem, side), &wait);
        if (status != SYNCED_MEM_OK || !wait)
            return status;
        bool over;
        status = sm_wait_unlocked(mem, wait, &over);
        /* What has failed does no more to borrowed memory; but what was to arrive has not. */
        if (status != SYNCED_MEM_OK && (arriving || !over))
            return status;
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status release_side(struct synced_mem *mem, enum sm_side side)
{
    struct sm_transaction call;
    synced_mem_status status = sm_enter(&call, mem);
    if (status != SYNCED_MEM_OK)
        return status;
    status = make_dispensable(mem, side);
    if (status == SYNCED_MEM_OK) {
        sm_close_write(mem);
        if (!sm_shared_copy(mem))
            sm_let_go(&call, side);
        sm_set_head(mem, sm_head(mem) & ~sm_bit(side));
    }
    return sm_leave_and_reap(&call, status);
}

synced_mem_status sm_release_side(struct synced_mem *mem, enum sm_side side)
{
    struct sm_reclaim reclaim = {.asked = 0};
    synced_mem_status status;
    do
        status = release_side(mem, side);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

/* ---- Replacing ---- */

/* Whether what is handed in begins in memory that is not the caller's to hand in, and would go when it comes. */
static bool owns(const struct synced_mem *mem, enum sm_side side, const struct sm_copy *incoming)
{
    const struct sm_copy *const copy = sm_copy_of(mem, side);
    if (!copy || copy->source == SYNCED_MEM_SOURCE_BORROWED)
        return false;
    const uintptr_t into = (uintptr_t)sm_copy_data(incoming) - (uintptr_t)copy->base;
    return into < copy->bytes;
}

static synced_mem_status replace(struct sm_transaction *call, struct sm_copy *const incoming[SM_SIDES])
{
    struct synced_mem *const mem = call->mem;
    const bool all = !incoming[SM_CPU] && !incoming[SM_GPU];
    const bool going[SM_SIDES] = {[SM_CPU] = incoming[SM_CPU] || all, [SM_GPU] = incoming[SM_GPU] || all};
    const struct sm_copy *const gpu = incoming[SM_GPU];
    unsigned head = SYNCED_MEM_UNINITIALIZED;
    synced_mem_status status = all ? SYNCED_MEM_OK : sm_unified_check_user_memory(mem);
    if (status == SYNCED_MEM_OK)
        status = make_replaceable(mem, going);
    if (status != SYNCED_MEM_OK)
        return status;
    if (gpu && sm_device(mem) >= 0 && sm_device(mem) != gpu->device)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "memory of device %d for an object of device %d", gpu->device,
                       sm_device(mem));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (incoming[side] && sm_copy_capacity(incoming[side]) < sm_size(mem))
            return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object was resized by another call meanwhile");
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (incoming[side] && (owns(mem, SM_CPU, incoming[side]) || owns(mem, SM_GPU, incoming[side])))
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p is memory of the object's own",
                           sm_copy_data(incoming[side]));
    sm_close_write(mem);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        if (!going[side])
            continue;
        sm_let_go(call, side);
        sm_put_copy(mem, side, incoming[side]);
        head |= incoming[side] ? sm_bit(side) : 0;
    }
    if (gpu)
        sm_put_device(mem, gpu->device);
    sm_set_head(mem, head);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_replace(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu)
{
    struct sm_copy *const incoming[SM_SIDES] = {[SM_CPU] = cpu, [SM_GPU] = gpu};
    struct sm_transaction call;
    const synced_mem_status status = sm_enter(&call, mem);
    return status == SYNCED_MEM_OK ? sm_leave_and_reap(&call, replace(&call, incoming)) : status;
}

/* A fence for what the stream has queued up to now. */
static synced_mem_status fence_of_stream(int device, synced_mem_stream handle, struct sm_fence **out)
{
    struct sm_stream *stream;
    synced_mem_status status = sm_stream_find(device, handle, &stream);
    if (status != SYNCED_MEM_OK)
        return status;
    if (!stream)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING, "the stream is capturing: no event can be recorded on it");
    status = sm_stream_queued(stream, out);
    sm_stream_drop(stream);
    return status;
}

synced_mem_status sm_replace_on(struct synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu,
                                synced_mem_stream handle)
{
    struct sm_fence *fence;
    const int device = sm_device(mem);
    synced_mem_status status = fence_of_stream(device < 0 && gpu ? gpu->device : device, handle, &fence);
    if (status != SYNCED_MEM_OK)
        return status;
    if (cpu)
        sm_inflight_filled(cpu, sm_fence_hold(fence));
    if (gpu)
        sm_inflight_filled(gpu, sm_fence_hold(fence));
    sm_fence_drop(fence);
    return sm_replace(mem, cpu, gpu);
}

/* ---- Size ---- */

static bool has_room(const struct synced_mem *mem, enum sm_side side, size_t size)
{
    return sm_copy_of(mem, side) && sm_copy_capacity(sm_copy_of(mem, side)) >= size;
}

static void set_size(struct sm_transaction *call, size_t size, unsigned head)
{
    struct synced_mem *const mem = call->mem;
    sm_close_write(mem);
    atomic_store_explicit(&mem->size, size, memory_order_relaxed);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(mem, side) && !has_room(mem, side, size))
            sm_let_go(call, side);
    sm_set_head(mem, head);
}

/* Larger memory for the contents of a copy, which is not the object's yet: borrowed memory has to be read out before it
 * is let go of, and an allocator is called with nothing locked. */
struct growth {
    struct sm_copy *spare[SM_SIDES]; /* contents undefined */
    struct sm_copy *larger;          /* with the contents of the copy from */
    const struct sm_copy *from;
    unsigned writes; /* to that when it was read */
    size_t size;     /* of the contents */
};

static void drop_growth(struct growth *growth)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_copy_retire(growth->spare[side]);
    sm_copy_retire(growth->larger);
}

/* Memory from an allocator, if there is one and nothing is at hand. *wait: afterwards all has to be looked at again. */
static synced_mem_status allocate_growth(struct synced_mem *mem, enum sm_side side, size_t size, struct growth *growth,
                                         struct sm_fence **wait)
{
    const struct sm_allocator *const allocator = sm_object_allocator(mem, side);
    struct sm_stream *stream = NULL;
    synced_mem_status status = SYNCED_MEM_OK;
    if (growth->spare[side] || growth->larger || !allocator)
        return SYNCED_MEM_OK;
    if (side == SM_GPU)
        status = sm_internal_stream(sm_device(mem), SM_INTERNAL_ALLOC, &stream);
    if (status == SYNCED_MEM_OK)
        status = sm_user_allocator_obtain_unlocked(mem, allocator, size, stream, &growth->spare[side]);
    if (status == SYNCED_MEM_OK)
        *wait = sm_fence_done;
    return status;
}

static struct sm_copy *take_spare(struct growth *growth, enum sm_side side)
{
    struct sm_copy *const spare = growth->spare[side];
    growth->spare[side] = NULL;
    return spare;
}

/* The contents, and zeros behind them, in larger host memory, or in memory that both sides use. */
static synced_mem_status grow_host(struct sm_transaction *call, size_t size, struct growth *growth)
{
    struct synced_mem *const mem = call->mem;
    struct sm_copy *larger = take_spare(growth, SM_CPU);
    const bool zeroed = !larger;
    const synced_mem_status status = larger ? SYNCED_MEM_OK : sm_obtain_host(mem, size, true, &larger);
    if (status != SYNCED_MEM_OK)
        return status;
    memcpy(sm_copy_data(larger), sm_copy_data(sm_copy_of(mem, SM_CPU)), sm_size(mem));
    if (!zeroed)
        memset((char *)sm_copy_data(larger) + sm_size(mem), 0, size - sm_size(mem));
    sm_let_go(call, SM_CPU);
    sm_put_copy(mem, SM_CPU, larger);
    return SYNCED_MEM_OK;
}

static synced_mem_status queue_growth(const struct synced_mem *mem, size_t size, struct sm_copy *larger,
                                      struct sm_stream *stream)
{
    struct sm_transfer transfer = {
        .direction = SM_D2D, .to = larger, .from = sm_copy_of(mem, SM_GPU), .size = sm_size(mem)};
    synced_mem_status status = sm_transfer_queue(&transfer, stream);
    if (status == SYNCED_MEM_OK)
        status = sm_transfer_enter(&transfer, 1, stream);
    if (status == SYNCED_MEM_OK)
        status = sm_transfer_fill(larger, 0, sm_size(mem), size, stream);
    return status;
}

/* The contents, and zeros behind them, in larger device memory, on a stream of the library's own. */
static synced_mem_status copy_to_larger(struct synced_mem *mem, size_t size, struct growth *growth)
{
    struct sm_stream *stream;
    struct sm_copy *larger = take_spare(growth, SM_GPU);
    synced_mem_status status = sm_internal_stream(sm_device(mem), SM_INTERNAL_ALLOC, &stream);
    if (status == SYNCED_MEM_OK && !larger)
        status = sm_obtain_device(mem, size, stream, &larger);
    if (status != SYNCED_MEM_OK)
        return status;
    status = queue_growth(mem, size, larger, stream);
    growth->larger = larger;
    if (status != SYNCED_MEM_OK && !larger->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_none(larger, stream);
        sm_detail_set(&first);
    }
    return status;
}

static synced_mem_status grow_device(struct sm_transaction *call, size_t size, struct growth *growth,
                                     struct sm_fence **wait)
{
    struct synced_mem *const mem = call->mem;
    struct sm_copy *const from = sm_copy_of(mem, SM_GPU);
    synced_mem_status status = SYNCED_MEM_OK;
    if (growth->from != from || growth->writes != from->writes || growth->size != sm_size(mem)) {
        /* What was read before is stale, and its memory does for another try. */
        if (growth->larger)
            growth->spare[SM_GPU] = growth->larger;
        growth->larger = NULL;
        status = copy_to_larger(mem, size, growth);
    }
    if (status != SYNCED_MEM_OK)
        return status;
    growth->from = from;
    growth->writes = from->writes;
    growth->size = sm_size(mem);
    status = blocker_of_borrowed(from, wait);
    if (status != SYNCED_MEM_OK || *wait)
        return status;
    sm_let_go(call, SM_GPU);
    sm_put_copy(mem, SM_GPU, growth->larger);
    growth->larger = NULL;
    return SYNCED_MEM_OK;
}

static synced_mem_status grow_side(struct sm_transaction *call, enum sm_side side, size_t size, struct growth *growth,
                                   struct sm_fence **wait)
{
    const synced_mem_status status = allocate_growth(call->mem, side, size, growth, wait);
    if (status != SYNCED_MEM_OK || *wait)
        return status;
    return side == SM_GPU ? grow_device(call, size, growth, wait) : grow_host(call, size, growth);
}

static synced_mem_status zero_device_tail(struct synced_mem *mem, size_t size)
{
    struct sm_stream *stream;
    const synced_mem_status status = sm_internal_stream(sm_device(mem), SM_INTERNAL_ALLOC, &stream);
    return status == SYNCED_MEM_OK ? sm_transfer_fill(sm_copy_of(mem, SM_GPU), 0, sm_size(mem), size, stream) : status;
}

/* The host's part comes last, since it can't fail once the host copy may be written. */
static synced_mem_status zero_tails(struct sm_transaction *call, size_t size, unsigned sides)
{
    struct synced_mem *const mem = call->mem;
    const synced_mem_status status = sides & sm_bit(SM_GPU) ? zero_device_tail(mem, size) : SYNCED_MEM_OK;
    const bool done = sm_shared_copy(mem) && (sides & sm_bit(SM_GPU));
    if (status == SYNCED_MEM_OK && (sides & sm_bit(SM_CPU)) && !done) {
        sm_guard_open(sm_copy_of(mem, SM_CPU));
        memset((char *)sm_copy_data(sm_copy_of(mem, SM_CPU)) + sm_size(mem), 0, size - sm_size(mem));
    }
    return status;
}

/*
 * Whether the host, which waits for that, moves the contents or fills what is new. Contents that both sides share the
 * host touches where they are its own; to move mapped memory, which the runtime would copy by the host as well, always.
 */
static bool is_hosts_work(const struct synced_mem *mem, size_t size)
{
    const struct sm_copy *const shared = sm_shared_copy(mem);
    const unsigned head = sm_head(mem);
    if (shared && !has_room(mem, SM_CPU, size) && shared->source == SYNCED_MEM_SOURCE_MAPPED)
        return head != SYNCED_MEM_UNINITIALIZED;
    if (shared)
        return head == SYNCED_MEM_AT_CPU;
    return (head & sm_bit(SM_CPU)) && (has_room(mem, SM_CPU, size) || !(head & sm_bit(SM_GPU)));
}

/* Which sides will have the contents: those with room keep them, and get zeros behind; if none has, one grows. *wait:
 * not done yet, and the host has to wait for that first. */
static synced_mem_status grow(struct sm_transaction *call, size_t size, struct growth *growth, struct sm_fence **wait)
{
    struct synced_mem *const mem = call->mem;
    const unsigned head = sm_head(mem);
    const unsigned room =
        (has_room(mem, SM_CPU, size) ? sm_bit(SM_CPU) : 0) | (has_room(mem, SM_GPU, size) ? sm_bit(SM_GPU) : 0);
    unsigned next = head & room;
    synced_mem_status status = SYNCED_MEM_OK;
    if (head != SYNCED_MEM_UNINITIALIZED && next == 0) {
        next = head & sm_bit(SM_GPU) ? sm_bit(SM_GPU) : sm_bit(SM_CPU);
        status = grow_side(call, is_hosts_work(mem, size) ? SM_CPU : SM_GPU, size, growth, wait);
    } else {
        status = zero_tails(call, size, next);
    }
    if (status == SYNCED_MEM_OK && !*wait)
        set_size(call, size, next);
    return status;
}

/* What the host has to wait for before the size can change: to hand back borrowed memory that has no room, to queue
 * what comes after work that is not queued yet, and to write the host copy, or read all of it. */
static synced_mem_status next_wait(struct synced_mem *mem, size_t size, bool growing, struct sm_fence **wait)
{
    synced_mem_status status = SYNCED_MEM_OK;
    *wait = NULL;
    for (enum sm_side side = SM_CPU; side < SM_SIDES && !*wait && status == SYNCED_MEM_OK; side++)
        if (!has_room(mem, side, size))
            status = blocker_of_borrowed(sm_copy_of(mem, side), wait);
    if (status == SYNCED_MEM_OK && !*wait && growing && (sm_head(mem) & sm_bit(SM_GPU)))
        *wait = sm_inflight_unqueued(sm_copy_of(mem, SM_GPU), has_room(mem, SM_GPU, size));
    if (status != SYNCED_MEM_OK || *wait || !growing || !is_hosts_work(mem, size))
        return status;
    status = sm_inflight_settle(sm_copy_of(mem, SM_CPU), true, NULL);
    *wait = status == SYNCED_MEM_OK ? sm_inflight_blocker(sm_copy_of(mem, SM_CPU), true) : NULL;
    return status;
}

static synced_mem_status resize(struct sm_transaction *call, size_t size, bool keep, struct growth *growth)
{
    struct synced_mem *const mem = call->mem;
    for (;;) {
        const bool growing = keep && size > sm_size(mem);
        struct sm_fence *wait;
        synced_mem_status status = next_wait(mem, size, growing, &wait);
        if (status == SYNCED_MEM_OK && !wait && growing)
            status = grow(call, size, growth, &wait);
        else if (status == SYNCED_MEM_OK && !wait)
            set_size(call, size, keep ? sm_head(mem) : SYNCED_MEM_UNINITIALIZED);
        if (status != SYNCED_MEM_OK || !wait)
            return status;
        bool over;
        status = sm_wait_unlocked(mem, wait, &over);
        if (status != SYNCED_MEM_OK && (!over || (growing && sm_is_lost(mem))))
            return status;
    }
}

static synced_mem_status resize_once(struct synced_mem *mem, size_t size, bool keep)
{
    struct sm_transaction call;
    struct growth growth = {.larger = NULL};
    synced_mem_status status = sm_enter(&call, mem);
    if (status != SYNCED_MEM_OK)
        return status;
    status = sm_leave(&call, resize(&call, size, keep, &growth));
    const struct sm_detail first = sm_detail_get();
    drop_growth(&growth);
    sm_copy_reap_passing_by();
    sm_detail_set(&first);
    return status;
}

synced_mem_status sm_resize(struct synced_mem *mem, size_t size, bool keep)
{
    struct sm_reclaim reclaim = {.asked = 0};
    synced_mem_status status;
    do
        status = resize_once(mem, size, keep);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}
