/* A change of an object's size. */
#include "object/resize.h"

#include "memory/guard.h"
#include "object/access.h"
#include "object/fetch.h"
#include "object/piece.h"
#include "object/reclaim.h"
#include "object/replace.h"
#include "object/span.h"
#include "base/status.h"
#include "object/user_allocator.h"
#include "object/unified.h"

#include <string.h>

static bool has_room(const struct synced_mem *mem, enum sm_side side, size_t size)
{
    return sm_copy_of(mem, side) && sm_copy_capacity(sm_copy_of(mem, side)) >= size;
}

static void set_size(struct sm_transaction *transaction, size_t size, unsigned head)
{
    struct synced_mem *const mem = transaction->mem;
    sm_close_write(mem);
    atomic_store_explicit(&mem->size, size, memory_order_relaxed);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(mem, side) && !has_room(mem, side, size))
            sm_detach_copy(transaction, side);
    sm_set_head(mem, head);
}

/* Larger memory for a copy's contents, which is not the object's yet. Borrowed memory is read out before it is handed
 * back, and an allocator is called with nothing locked. So this outlives an unlock. */
struct growth {
    struct sm_copy *empty[SM_SIDES]; /* with undefined contents */
    struct sm_copy *larger;          /* with the contents of from */
    const struct sm_copy *from;
    unsigned writes; /* the writes of from when it was read */
    size_t size;     /* of the contents */
};

static void drop_growth(struct growth *growth)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_copy_retire(growth->empty[side]);
    sm_copy_retire(growth->larger);
}

/* Gets memory from an allocator, if there is one and no other memory. *wait: the caller reads the object's state
 * again. */
static synced_mem_status allocate_growth(struct synced_mem *mem, enum sm_side side, size_t size, struct growth *growth,
                                         struct sm_fence **wait)
{
    const struct sm_allocator *const allocator = sm_object_allocator(mem, side);
    struct sm_stream *stream = NULL;
    synced_mem_status status = SYNCED_MEM_OK;
    if (growth->empty[side] || growth->larger || !allocator)
        return SYNCED_MEM_OK;
    if (side == SM_GPU)
        status = sm_internal_stream(sm_device(mem), SM_INTERNAL_ALLOC, &stream);
    if (status == SYNCED_MEM_OK)
        status = sm_user_allocator_obtain_unlocked(mem, allocator, size, stream, &growth->empty[side]);
    if (status == SYNCED_MEM_OK)
        *wait = sm_fence_done;
    return status;
}

static struct sm_copy *take_empty_copy(struct growth *growth, enum sm_side side)
{
    struct sm_copy *const empty = growth->empty[side];
    growth->empty[side] = NULL;
    return empty;
}

/* Moves the contents to larger host memory, or to memory that both sides use, and appends zeros. */
static synced_mem_status grow_host(struct sm_transaction *transaction, size_t size, struct growth *growth)
{
    struct synced_mem *const mem = transaction->mem;
    struct sm_copy *larger = take_empty_copy(growth, SM_CPU);
    const bool zeroed = !larger;
    SM_TRY(larger ? SYNCED_MEM_OK : sm_obtain_host(mem, size, true, &larger));
    memcpy(sm_copy_data(larger), sm_copy_data(sm_copy_of(mem, SM_CPU)), sm_size(mem));
    if (!zeroed)
        memset((char *)sm_copy_data(larger) + sm_size(mem), 0, size - sm_size(mem));
    sm_detach_copy(transaction, SM_CPU);
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

/* Copies the contents to larger device memory on an internal stream, and appends zeros. */
static synced_mem_status transfer_to_larger(struct synced_mem *mem, size_t size, struct growth *growth)
{
    struct sm_stream *stream;
    SM_TRY(sm_internal_stream_behind(sm_device(mem), SM_INTERNAL_MOVE_BEHIND, &stream));
    struct sm_copy *larger = take_empty_copy(growth, SM_GPU);
    SM_TRY(larger ? SYNCED_MEM_OK : sm_obtain_device(mem, size, stream, &larger));
    synced_mem_status status = queue_growth(mem, size, larger, stream);
    growth->larger = larger;
    if (status != SYNCED_MEM_OK && !larger->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_none(larger, stream);
        sm_detail_set(&first);
    }
    return status;
}

static synced_mem_status grow_device(struct sm_transaction *transaction, size_t size, struct growth *growth,
                                     struct sm_fence **wait)
{
    struct synced_mem *const mem = transaction->mem;
    struct sm_copy *const from = sm_copy_of(mem, SM_GPU);
    synced_mem_status status = SYNCED_MEM_OK;
    if (growth->from != from || growth->writes != from->writes || growth->size != sm_size(mem)) {
        /* The earlier copy is stale, but its memory serves for another try. */
        if (growth->larger)
            growth->empty[SM_GPU] = growth->larger;
        growth->larger = NULL;
        status = transfer_to_larger(mem, size, growth);
    }
    if (status != SYNCED_MEM_OK)
        return status;
    growth->from = from;
    growth->writes = from->writes;
    growth->size = sm_size(mem);
    status = sm_blocker_of_borrowed(from, wait);
    if (status != SYNCED_MEM_OK || *wait)
        return status;
    sm_detach_copy(transaction, SM_GPU);
    sm_put_copy(mem, SM_GPU, growth->larger);
    growth->larger = NULL;
    return SYNCED_MEM_OK;
}

static synced_mem_status grow_side(struct sm_transaction *transaction, enum sm_side side, size_t size,
                                   struct growth *growth, struct sm_fence **wait)
{
    const synced_mem_status status = allocate_growth(transaction->mem, side, size, growth, wait);
    if (status != SYNCED_MEM_OK || *wait)
        return status;
    return side == SM_GPU ? grow_device(transaction, size, growth, wait) : grow_host(transaction, size, growth);
}

static synced_mem_status zero_device_tail(struct synced_mem *mem, size_t size)
{
    struct sm_stream *stream;
    const synced_mem_status status = sm_internal_stream_behind(sm_device(mem), SM_INTERNAL_MOVE_BEHIND, &stream);
    return status == SYNCED_MEM_OK ? sm_transfer_fill(sm_copy_of(mem, SM_GPU), 0, sm_size(mem), size, stream) : status;
}

/* The host's part comes last: it cannot fail once the host copy may be written. */
static synced_mem_status zero_tails(struct sm_transaction *transaction, size_t size, unsigned sides)
{
    struct synced_mem *const mem = transaction->mem;
    const synced_mem_status status = sides & sm_bit(SM_GPU) ? zero_device_tail(mem, size) : SYNCED_MEM_OK;
    const bool done = sm_shared_copy(mem) && (sides & sm_bit(SM_GPU));
    if (status == SYNCED_MEM_OK && (sides & sm_bit(SM_CPU)) && !done) {
        sm_guard_open(sm_copy_of(mem, SM_CPU));
        memset((char *)sm_copy_data(sm_copy_of(mem, SM_CPU)) + sm_size(mem), 0, size - sm_size(mem));
    }
    return status;
}

/*
 * Returns whether the host moves the contents or fills the new bytes, and so waits for the work in flight. Shared
 * contents are the host's work where they are AT_CPU. Moving mapped memory always is, as the runtime would copy it by
 * the host too.
 */
static bool is_host_work(const struct synced_mem *mem, size_t size)
{
    const struct sm_copy *const shared = sm_shared_copy(mem);
    const unsigned head = sm_head(mem);
    if (shared && !has_room(mem, SM_CPU, size) && shared->source == SYNCED_MEM_SOURCE_MAPPED)
        return head != SYNCED_MEM_UNINITIALIZED;
    if (shared)
        return head == SYNCED_MEM_AT_CPU;
    return (head & sm_bit(SM_CPU)) && (has_room(mem, SM_CPU, size) || !(head & sm_bit(SM_GPU)));
}

/* Grows the object. Sides with room keep the contents and get zeros behind them. If none has room, one side gets larger
 * memory. *wait: not done yet, and the host waits for that first. */
static synced_mem_status grow_object(struct sm_transaction *transaction, size_t size, struct growth *growth,
                                     struct sm_fence **wait)
{
    struct synced_mem *const mem = transaction->mem;
    const unsigned head = sm_head(mem);
    const unsigned room =
        (has_room(mem, SM_CPU, size) ? sm_bit(SM_CPU) : 0) | (has_room(mem, SM_GPU, size) ? sm_bit(SM_GPU) : 0);
    unsigned next = head & room;
    synced_mem_status status = SYNCED_MEM_OK;
    if (head != SYNCED_MEM_UNINITIALIZED && next == 0) {
        next = head & sm_bit(SM_GPU) ? sm_bit(SM_GPU) : sm_bit(SM_CPU);
        status = grow_side(transaction, is_host_work(mem, size) ? SM_CPU : SM_GPU, size, growth, wait);
    } else {
        status = zero_tails(transaction, size, next);
    }
    if (status == SYNCED_MEM_OK && !*wait)
        set_size(transaction, size, next);
    return status;
}

/* Finds the fence that the host waits for before the size can change. It waits before it hands back borrowed memory
 * without room. It waits for work that is still queueing, to queue behind it. It waits before it writes or reads the
 * host copy. */
static synced_mem_status find_resize_wait(struct synced_mem *mem, size_t size, bool growing, struct sm_fence **wait)
{
    synced_mem_status status = SYNCED_MEM_OK;
    *wait = NULL;
    for (enum sm_side side = SM_CPU; side < SM_SIDES && !*wait && status == SYNCED_MEM_OK; side++)
        if (!has_room(mem, side, size))
            status = sm_blocker_of_borrowed(sm_copy_of(mem, side), wait);
    if (status == SYNCED_MEM_OK && !*wait && growing && (sm_head(mem) & sm_bit(SM_GPU)))
        *wait = sm_inflight_unqueued(sm_copy_of(mem, SM_GPU), has_room(mem, SM_GPU, size));
    if (status != SYNCED_MEM_OK || *wait || !growing || !is_host_work(mem, size))
        return status;
    status = sm_inflight_settle(sm_copy_of(mem, SM_CPU), true, NULL);
    *wait = status == SYNCED_MEM_OK ? sm_inflight_blocker(sm_copy_of(mem, SM_CPU), true) : NULL;
    return status;
}

static synced_mem_status resize_object(struct sm_transaction *transaction, size_t size, bool keep,
                                       struct growth *growth)
{
    struct synced_mem *const mem = transaction->mem;
    for (;;) {
        const bool growing = keep && size > sm_size(mem);
        struct sm_fence *wait;
        synced_mem_status status = find_resize_wait(mem, size, growing, &wait);
        if (status == SYNCED_MEM_OK && !wait && growing)
            status = grow_object(transaction, size, growth, &wait);
        else if (status == SYNCED_MEM_OK && !wait)
            set_size(transaction, size, keep ? sm_head(mem) : SYNCED_MEM_UNINITIALIZED);
        if (status != SYNCED_MEM_OK || !wait)
            return status;
        bool over;
        status = sm_wait_unlocked(mem, wait, &over);
        if (status != SYNCED_MEM_OK && (!over || (growing && sm_is_lost(mem))))
            return status;
    }
}

static synced_mem_status fail_with_views(void)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object has views: release them before its size changes");
}

static void discard_contents(struct synced_mem *mem)
{
    for (struct synced_mem *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        sm_close_write(each);
        sm_set_head(each, SYNCED_MEM_UNINITIALIZED);
    }
}

/* Makes the pieces of a root alike, whose contents are on the host alone or do not matter. What is in flight on a copy
 * that has no contents goes to the root's record, as nobody needs the copy's pieces. */
static synced_mem_status gather_work(struct sm_transaction *transaction, bool keep)
{
    struct synced_mem *const mem = transaction->mem;
    if (!sm_is_divided(mem))
        return SYNCED_MEM_OK;
    for (enum sm_side side = keep ? SM_GPU : SM_CPU; side < SM_SIDES && !(keep && sm_shared_copy(mem)); side++)
        SM_TRY(sm_gather_parts(mem, side));
    if (!keep)
        discard_contents(mem);
    for (enum sm_side side = keep ? SM_GPU : SM_CPU; side < SM_SIDES && !(keep && sm_shared_copy(mem)); side++)
        sm_drop_parts(mem, side);
    return SYNCED_MEM_OK;
}

/* Makes a root without views, which may still be in pieces, whole. */
static synced_mem_status make_whole(struct synced_mem *mem, bool keep)
{
    struct sm_transaction transaction;
    void *data;
    SM_TRY(sm_lock_first(mem));
    const bool is_divided = sm_is_divided(mem);
    const bool has_views = is_divided && mem->holders > 0;
    sm_unlock_last(mem);
    if (has_views)
        return fail_with_views();
    if (!is_divided)
        return SYNCED_MEM_OK;
    if (keep)
        SM_TRY(sm_access(mem, SM_CPU, SM_MUTABLE, &data));
    SM_TRY(sm_enter(&transaction, mem));
    return sm_leave(&transaction, gather_work(&transaction, keep));
}

static synced_mem_status resize_once(struct synced_mem *mem, size_t size, bool keep)
{
    struct sm_transaction transaction;
    struct growth growth = {.larger = NULL};
    SM_TRY(make_whole(mem, keep));
    SM_TRY(sm_enter(&transaction, mem));
    synced_mem_status status =
        sm_is_divided(mem) ? fail_with_views() : resize_object(&transaction, size, keep, &growth);
    status = sm_leave(&transaction, status);
    const struct sm_detail first = sm_detail_get();
    drop_growth(&growth);
    sm_copy_reap_passing_by(false);
    sm_detail_set(&first);
    return status;
}

synced_mem_status sm_resize(struct synced_mem *mem, size_t size, bool keep)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status;
    do
        status = resize_once(mem, size, keep);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}
