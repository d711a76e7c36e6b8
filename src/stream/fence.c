/* Fences: events from one pool per device, with counted holders. */
#include "stream/fence.h"

#include "base/shard.h"
#include "base/slab.h"
#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

#include <stdalign.h>

static struct sm_slab fences = SM_SLAB_INITIALIZER(struct sm_fence);

/* The pool: fences that nobody holds, whose events exist. Each is on the shelf of the shard of the thread that gave it.
 */
static struct shelf {
    alignas(SM_APART) struct sm_lock lock;
    _Atomic(struct sm_fence *) idle[SM_MAX_DEVICES]; /* changed only with the lock held; any thread may read them */
} shelves[SM_SHARDS] = {SM_SIXTEEN_TIMES({.lock = SM_LOCK_INITIALIZER})};

static struct sm_fence *take_from_shelf(struct shelf *shelf, int device)
{
    sm_lock_briefly(&shelf->lock);
    struct sm_fence *const fence = atomic_load_explicit(&shelf->idle[device], memory_order_relaxed);
    if (fence)
        atomic_store_explicit(&shelf->idle[device], fence->next, memory_order_relaxed);
    sm_unlock_brief(&shelf->lock);
    return fence;
}

/* Searches all shelves: a thread that opens fences which another one gives has none on its own. The search may miss a
 * fence that is given meanwhile. Then the caller makes one more event. */
static __attribute__((noinline, cold)) struct sm_fence *take_from_any_shelf(int device)
{
    struct sm_fence *fence = NULL;
    for (struct shelf *shelf = shelves; shelf < shelves + SM_SHARDS && !fence; shelf++)
        if (atomic_load_explicit(&shelf->idle[device], memory_order_relaxed))
            fence = take_from_shelf(shelf, device);
    return fence;
}

static struct sm_fence *take_idle_fence(int device)
{
    struct sm_fence *const fence = take_from_shelf(&shelves[sm_shard()], device);
    return fence ? fence : take_from_any_shelf(device);
}

static void give_idle_fence(struct sm_fence *fence)
{
    struct shelf *const shelf = &shelves[sm_shard()];
    sm_lock_briefly(&shelf->lock);
    fence->next = atomic_load_explicit(&shelf->idle[fence->device], memory_order_relaxed);
    atomic_store_explicit(&shelf->idle[fence->device], fence, memory_order_relaxed);
    sm_unlock_brief(&shelf->lock);
}

static __attribute__((noinline, cold)) synced_mem_status create_fence(int device, struct sm_fence **out)
{
    struct sm_fence *const fence = sm_slab_take(&fences);
    if (!fence)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of an event");
    const synced_mem_status status = sm_device_event_create(device, &fence->event);
    if (status != SYNCED_MEM_OK) {
        sm_slab_give(&fences, fence);
        return status;
    }
    fence->device = (int16_t)device;
    sm_count_up(SM_COUNT_events, 1);
    *out = fence;
    return SYNCED_MEM_OK;
}

static inline void begin_fence(struct sm_fence *fence, uint64_t stream, struct sm_host_work *work)
{
    fence->stream = stream;
    fence->since = fence->order = 0;
    fence->work = work;
    atomic_store_explicit(&fence->awaited_by, 0, memory_order_relaxed);
    atomic_store_explicit(&fence->stray, false, memory_order_relaxed);
    atomic_store_explicit(&fence->state, SM_FENCE_QUEUEING, memory_order_relaxed);
    atomic_store_explicit(&fence->holders, 1, memory_order_relaxed);
}

void sm_fence_begin_on_host(struct sm_fence *fence, uint64_t serial, struct sm_host_work *work)
{
    fence->device = -1;
    begin_fence(fence, serial, work);
}

static inline synced_mem_status record_event(struct sm_fence *fence, synced_mem_stream handle)
{
    SM_TRY(sm_device_event_record(fence->device, fence->event, handle));
    sm_count_up(SM_COUNT_event_records, 1);
    atomic_store_explicit(&fence->state, SM_FENCE_PENDING, memory_order_release);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle)
{
    return record_event(fence, handle);
}

static inline synced_mem_status open_fence(int device, uint64_t serial, struct sm_host_work *work,
                                           struct sm_fence **out)
{
    *out = take_idle_fence(device);
    if (!*out)
        SM_TRY(create_fence(device, out));
    begin_fence(*out, serial, work);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fence_open(int device, uint64_t serial, struct sm_host_work *work, struct sm_fence **out)
{
    struct sm_fence *fence;
    SM_TRY(open_fence(device, serial, work, &fence));
    *out = fence;
    return SYNCED_MEM_OK;
}

static __attribute__((noinline, cold)) synced_mem_status give_unrecorded(struct sm_fence *fence,
                                                                         synced_mem_status status)
{
    give_idle_fence(fence);
    return status;
}

synced_mem_status sm_fence_record(int device, synced_mem_stream handle, uint64_t stream, struct sm_fence **out)
{
    struct sm_fence *fence;
    SM_TRY(open_fence(device, stream, NULL, &fence));
    const synced_mem_status status = record_event(fence, handle);
    if (status != SYNCED_MEM_OK)
        return give_unrecorded(fence, status);
    *out = fence;
    return SYNCED_MEM_OK;
}

void sm_fence_close(struct sm_fence *fence, enum sm_fence_state state, bool stray)
{
    atomic_store_explicit(&fence->stray, stray, memory_order_relaxed);
    atomic_store_explicit(&fence->state, (unsigned char)state, memory_order_release);
}

void sm_fence_hold_often(struct sm_fence *fence, size_t holders)
{
    atomic_fetch_add_explicit(&fence->holders, (unsigned)holders, memory_order_relaxed);
}

void sm_fence_drop_often(struct sm_fence *fence, size_t holders)
{
    if (atomic_fetch_sub_explicit(&fence->holders, (unsigned)holders, memory_order_acq_rel) > holders)
        return;
    struct sm_host_work *const work = fence->work;
    if (fence->device >= 0)
        give_idle_fence(fence);
    if (work)
        work->drop(work);
}

static void end_fence(struct sm_fence *fence, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        atomic_store_explicit(&fence->state, SM_FENCE_DONE, memory_order_release);
    if (status == SYNCED_MEM_ERR_DEVICE_LOST)
        atomic_store_explicit(&fence->state, SM_FENCE_LOST, memory_order_release);
}

static synced_mem_status wait_for_fence(struct sm_fence *fence, bool until_queued)
{
    const bool waits = until_queued ? sm_fence_state(fence) == SM_FENCE_QUEUEING : sm_fence_is_open(fence);
    /* Work of the host alone is no wait for a device. 0: no wait is traced. */
    const uint64_t since = waits && fence->device >= 0 ? sm_trace_wait_begin() : 0;
    const enum sm_fence_state state = sm_fence_state(fence);
    synced_mem_status status = SYNCED_MEM_OK;
    if (state == SM_FENCE_QUEUEING || (state == SM_FENCE_LOST && fence->work))
        status = fence->work->finish(fence->work, fence);
    /* The library's part may succeed where the device's part fails. */
    if (status == SYNCED_MEM_OK && state == SM_FENCE_LOST)
        status =
            sm_fail(SYNCED_MEM_ERR_DEVICE_LOST, "device %d was lost while it worked on this memory", fence->device);
    if (status == SYNCED_MEM_OK && !until_queued && sm_fence_state(fence) != SM_FENCE_DONE) {
        sm_count_up(SM_COUNT_host_waits, 1);
        status = sm_device_event_sync(fence->device, fence->event);
        end_fence(fence, status);
    }
    if (since != 0)
        sm_trace_close_wait(since, fence->device, fence->stream);
    return status;
}

synced_mem_status sm_fence_wait_queued(struct sm_fence *fence)
{
    return wait_for_fence(fence, true);
}

synced_mem_status sm_fence_wait(struct sm_fence *fence)
{
    return wait_for_fence(fence, false);
}

void sm_fence_follow(struct sm_fence *fence, const struct sm_fence *later)
{
    const bool is_earlier = later && fence->stream == later->stream && fence->order > 0 && fence->order <= later->since;
    if (is_earlier && sm_fence_state(fence) == SM_FENCE_PENDING && sm_fence_state(later) == SM_FENCE_DONE)
        end_fence(fence, SYNCED_MEM_OK);
}

static bool poll_host_work(const struct sm_fence *fence)
{
    if (sm_fence_state(fence) == SM_FENCE_QUEUEING && fence->work && fence->work->poll)
        fence->work->poll(fence->work);
    return sm_fence_is_open(fence);
}

bool sm_fence_poll(struct sm_fence *fence)
{
    if (sm_fence_state(fence) != SM_FENCE_PENDING)
        return poll_host_work(fence);
    bool done = false;
    const synced_mem_status status = sm_device_event_query(fence->device, fence->event, &done);
    if (status == SYNCED_MEM_OK && !done)
        return true;
    end_fence(fence, status);
    return sm_fence_state(fence) == SM_FENCE_PENDING;
}

/* An event that cannot be destroyed stays in the pool for a later try. An event of a lost device is gone with it. */
static synced_mem_status destroy_idle_fences(int device)
{
    struct sm_fence *fence;
    while ((fence = take_idle_fence(device)) != NULL) {
        const synced_mem_status status = sm_device_event_destroy(device, fence->event);
        if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST) {
            give_idle_fence(fence);
            return status;
        }
        sm_count_down(SM_COUNT_events, 1);
        sm_slab_give(&fences, fence);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_fence_shutdown(void)
{
    struct sm_outcome first = {.status = SYNCED_MEM_OK};
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        const synced_mem_status status = destroy_idle_fences(device);
        if (first.status == SYNCED_MEM_OK)
            sm_outcome_set(&first, status);
    }
    sm_slab_trim(&fences);
    return sm_outcome_end(&first);
}
