/* The callers' streams that the library knows. Only this file makes a stream wait. */
#include "stream/stream.h"

#include "base/hash.h"
#include "base/once.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/status.h"
#include "stream/shared_ends.h"
#include "stream/stream_struct.h"
#include "system/thread.h"
#include "trace/trace.h"

#include <stdalign.h>

/* The states of a caller's stream. */
enum state {
    KNOWN,
    DONE,    /* synced_mem_forget_stream() was called; last stands for its work */
    VANISHED /* its handle was found to name another stream, and it was never done */
};

static _Atomic uint64_t last_thread;
static _Thread_local uint64_t this_thread;

static void orphan_streams(void *thread);

static void watch_thread_ends(void)
{
    sm_thread_watch_ends(orphan_streams);
}

static uint64_t get_thread_number(void)
{
    static struct sm_once once;
    if (this_thread == 0) {
        sm_once(&once, watch_thread_ends);
        this_thread = atomic_fetch_add_explicit(&last_thread, 1, memory_order_relaxed) + 1;
        sm_thread_set_end((void *)(uintptr_t)this_thread);
    }
    return this_thread;
}

/* ---- Streams that nobody creates ---- */

static struct sm_stream legacy[SM_MAX_DEVICES];
static struct sm_stream any[SM_MAX_DEVICES];

static void describe_uncreated_streams(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        sm_stream_describe(&legacy[device], SM_STREAM_LEGACY, device, NULL);
        sm_stream_describe(&any[device], SM_STREAM_ANY, device, SM_NO_HANDLE);
    }
}

static struct sm_stream *get_uncreated_stream(struct sm_stream *of_devices, int device)
{
    static struct sm_once once;
    sm_once(&once, describe_uncreated_streams);
    return &of_devices[device];
}

struct sm_stream *sm_stream_any(int device)
{
    return get_uncreated_stream(any, device);
}

/* ---- Permanent streams ---- */

enum { PERMANENT_OF_DEVICE = SM_INTERNALS + 1 };

unsigned sm_stream_permanent_number(const struct sm_stream *stream)
{
    const unsigned first = (unsigned)stream->device * PERMANENT_OF_DEVICE + 1;
    if (stream->kind == SM_STREAM_LEGACY)
        return first + SM_INTERNALS;
    return stream->kind == SM_STREAM_INTERNAL ? first + sm_internal_of(stream) : 0;
}

struct sm_stream *sm_stream_permanent(unsigned number)
{
    if (number == 0)
        return NULL;
    const int device = (int)((number - 1) / PERMANENT_OF_DEVICE);
    const unsigned which = (number - 1) % PERMANENT_OF_DEVICE;
    return which == SM_INTERNALS ? get_uncreated_stream(legacy, device)
                                 : sm_internal_stream_if_made(device, (enum sm_internal)which);
}

/* ---- Callers' streams ---- */

/* Known streams, by handle. The bucket holds a created stream. It does not hold two kinds, which are known only while
 * somebody else holds them. One is a thread's default stream. The other is a created stream without an id from the
 * runtime, whose handle may come to name another stream. */
enum { BUCKETS_LOG = 6, BUCKETS = 1 << BUCKETS_LOG };
static struct bucket {
    alignas(SM_APART) struct sm_lock lock;
    struct sm_stream *first;
} buckets[BUCKETS] = {SM_FOUR_TIMES(SM_SIXTEEN_TIMES({.lock = SM_LOCK_INITIALIZER}))};

static struct bucket *get_bucket(synced_mem_stream handle, uint64_t thread)
{
    return &buckets[sm_hash((uint64_t)(uintptr_t)handle >> 4 ^ thread) >> (64 - BUCKETS_LOG)];
}

static enum state get_state(const struct sm_stream *stream)
{
    return (enum state)atomic_load_explicit(&stream->state, memory_order_acquire);
}

static void unlink_stream(struct bucket *bucket, const struct sm_stream *stream)
{
    struct sm_stream **link = &bucket->first;
    while (*link && *link != stream)
        link = &(*link)->next;
    if (*link)
        *link = stream->next;
}

static bool is_known_while_held(const struct sm_stream *stream)
{
    return stream->kind == SM_STREAM_PER_THREAD || stream->id == 0;
}

static bool has_counted_holders(const struct sm_stream *stream)
{
    return stream->kind == SM_STREAM_CREATED || stream->kind == SM_STREAM_PER_THREAD;
}

void sm_stream_hold_often(struct sm_stream *stream, size_t holders)
{
    if (has_counted_holders(stream))
        atomic_fetch_add_explicit(&stream->holders, (unsigned)holders, memory_order_relaxed);
}

struct sm_stream *sm_stream_hold(struct sm_stream *stream)
{
    sm_stream_hold_often(stream, 1);
    return stream;
}

void sm_stream_drop(struct sm_stream *stream)
{
    if (stream)
        sm_stream_drop_often(stream, 1);
}

/* Returns whether these were the last holders. */
static bool remove_holders(struct sm_stream *stream, size_t holders)
{
    return atomic_fetch_sub_explicit(&stream->holders, (unsigned)holders, memory_order_acq_rel) == holders;
}

static __attribute__((noinline)) void drop_known_while_held(struct sm_stream *stream, size_t holders)
{
    struct bucket *const bucket = get_bucket(stream->handle, stream->thread);
    sm_lock_briefly(&bucket->lock);
    const bool gone = remove_holders(stream, holders);
    if (gone)
        unlink_stream(bucket, stream);
    sm_unlock_brief(&bucket->lock);
    if (gone)
        sm_stream_struct_give(stream);
}

void sm_stream_drop_often(struct sm_stream *stream, size_t holders)
{
    if (!has_counted_holders(stream))
        return;
    if (is_known_while_held(stream))
        drop_known_while_held(stream, holders);
    else if (remove_holders(stream, holders))
        sm_stream_struct_give(stream);
}

/* With the bucket locked. Makes the stream unknown. Its struct lives as long as somebody refers to it. */
static void forget_stream_in_bucket(struct bucket *bucket, struct sm_stream *stream, enum state state)
{
    unlink_stream(bucket, stream);
    atomic_store_explicit(&stream->hot, SM_NO_HANDLE, memory_order_relaxed);
    atomic_store_explicit(&stream->state, (unsigned char)state, memory_order_release);
}

/* With the bucket unlocked, after forget_stream_in_bucket(). Gives up the bucket's hold. */
static void drop_bucket_hold(struct sm_stream *stream)
{
    if (stream && !is_known_while_held(stream))
        sm_stream_drop(stream);
}

/* Runs when a thread ends. A later destructor may use the thread's default stream once more, as the runtime has
 * destructors too. That may be another stream by then. So this_thread is reset, and a later use counts as another
 * thread's, which ends in the next round of destructors. After the last round no destructor runs. */
static void orphan_streams(void *thread)
{
    this_thread = 0;
    struct bucket *const bucket = get_bucket(SM_HANDLE_PER_THREAD, (uintptr_t)thread);
    sm_lock_briefly(&bucket->lock);
    for (struct sm_stream *stream = bucket->first; stream; stream = stream->next)
        if (stream->thread == (uintptr_t)thread)
            atomic_store_explicit(&stream->orphaned, true, memory_order_relaxed);
    sm_unlock_brief(&bucket->lock);
}

/* With the bucket locked. Holds the stream. device: -1 finds a stream of any device. */
static struct sm_stream *find_stream_in_bucket(const struct bucket *bucket, synced_mem_stream handle, uint64_t thread,
                                               int device)
{
    struct sm_stream *stream = bucket->first;
    while (stream &&
           (stream->handle != handle || stream->thread != thread || (device >= 0 && stream->device != device)))
        stream = stream->next;
    return stream ? sm_stream_hold(stream) : NULL;
}

/* Allocates the struct with no lock held. If two threads first use a stream at once, one of them discards its
 * struct. */
static __attribute__((noinline, cold)) synced_mem_status add_stream(struct bucket *bucket, synced_mem_stream handle,
                                                                    uint64_t id, int device, struct sm_stream **out)
{
    static atomic_uint numbers[SM_MAX_DEVICES];
    const bool created = handle != SM_HANDLE_PER_THREAD;
    const uint64_t thread = created ? 0 : get_thread_number();
    struct sm_stream *fresh = sm_stream_struct_take();
    if (!fresh)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a stream");
    sm_stream_describe(fresh, created ? SM_STREAM_CREATED : SM_STREAM_PER_THREAD, device,
                       created ? handle : SM_NO_HANDLE);
    fresh->handle = handle;
    fresh->thread = thread;
    fresh->id = id;
    fresh->number = atomic_fetch_add_explicit(&numbers[device], 1, memory_order_relaxed);
    sm_mutex_init(&fresh->lock);
    atomic_store_explicit(&fresh->state, KNOWN, memory_order_relaxed);
    atomic_store_explicit(&fresh->orphaned, false, memory_order_relaxed);
    atomic_store_explicit(&fresh->holders, is_known_while_held(fresh) ? 0 : 1, memory_order_relaxed);
    sm_lock_briefly(&bucket->lock);
    struct sm_stream *stream = find_stream_in_bucket(bucket, handle, thread, created ? -1 : device);
    if (!stream) {
        fresh->next = bucket->first;
        bucket->first = stream = sm_stream_hold(fresh);
        fresh = NULL;
    }
    *out = stream;
    sm_unlock_brief(&bucket->lock);
    sm_stream_struct_give(fresh);
    return SYNCED_MEM_OK;
}

static struct sm_stream *find_and_hold_stream(struct bucket *bucket, synced_mem_stream handle, uint64_t thread,
                                              int device)
{
    sm_lock_briefly(&bucket->lock);
    struct sm_stream *const stream = find_stream_in_bucket(bucket, handle, thread, device);
    sm_unlock_brief(&bucket->lock);
    return stream;
}

static bool names_another_stream(const struct sm_stream *stream, uint64_t id)
{
    return stream->id != 0 && id != 0 && stream->id != id;
}

static __attribute__((noinline, cold)) void forget_vanished_stream(struct sm_stream *stream)
{
    struct bucket *const bucket = get_bucket(stream->handle, stream->thread);
    sm_lock_briefly(&bucket->lock);
    const bool known = get_state(stream) == KNOWN;
    if (known)
        forget_stream_in_bucket(bucket, stream, VANISHED);
    sm_unlock_brief(&bucket->lock);
    if (known)
        drop_bucket_hold(stream);
}

static synced_mem_status find_created_stream(int device, int likely, synced_mem_stream handle, uint64_t id,
                                             struct sm_stream **out)
{
    struct bucket *const bucket = get_bucket(handle, 0);
    struct sm_stream *stream = find_and_hold_stream(bucket, handle, 0, -1);
    if (stream && names_another_stream(stream, id)) {
        forget_vanished_stream(stream);
        sm_stream_drop(stream);
        stream = NULL;
    }
    if (!stream) {
        int found;
        SM_TRY(sm_device_of_stream(handle, likely, &found));
        SM_TRY(add_stream(bucket, handle, id, found, &stream));
    }
    const int its = stream->device;
    if (device >= 0 && its != device) {
        sm_stream_drop(stream);
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "stream %p is on device %d, but the object is on device %d",
                       (void *)handle, its, device);
    }
    *out = stream;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_stream_find_legacy(int device, struct sm_stream **out)
{
    struct sm_stream_facts facts;
    SM_TRY(sm_device_stream_query_capture(device, SM_HANDLE_LEGACY, &facts));
    if (facts.capturing)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "a blocking stream of device %d is capturing, so the legacy stream can't be used", device);
    *out = get_uncreated_stream(legacy, device);
    return SYNCED_MEM_OK;
}

bool sm_stream_is_legacy_use(const struct sm_stream *by, const struct sm_fence *fence)
{
    if (fence)
        return !sm_fence_is_open(fence) || fence->stream == get_uncreated_stream(legacy, fence->device)->serial;
    return by->kind == SM_STREAM_ANY || by->kind == SM_STREAM_LEGACY;
}

/* Finds the struct for a handle that names no stream which could capture: the legacy stream, or none at all. */
static __attribute__((noinline)) synced_mem_status find_special_stream(int device, synced_mem_stream handle,
                                                                       struct sm_stream **out)
{
    int resolved;
    if (handle == SM_HANDLE_OF_NONE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p is no stream handle", (void *)handle);
    if (handle == SM_HANDLE_OF_LIBRARY)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "SYNCED_MEM_STREAM_LIBRARY takes transfers alone: the caller can queue no work on it");
    SM_TRY(sm_device_resolve(device, &resolved));
    SM_TRY(sm_stream_find_legacy(resolved, out));
    atomic_store_explicit(&(*out)->hot, handle, memory_order_relaxed);
    return SYNCED_MEM_OK;
}

static __attribute__((noinline)) synced_mem_status find_stream_of_thread(int device, struct sm_stream **out)
{
    struct bucket *const bucket = get_bucket(SM_HANDLE_PER_THREAD, get_thread_number());
    *out = find_and_hold_stream(bucket, SM_HANDLE_PER_THREAD, get_thread_number(), device);
    return *out ? SYNCED_MEM_OK : add_stream(bucket, SM_HANDLE_PER_THREAD, 0, device, out);
}

synced_mem_status sm_stream_find(int device, synced_mem_stream handle, struct sm_stream **out)
{
    int resolved;
    struct sm_stream_facts facts = {.capturing = false};
    if (!handle || handle == SM_HANDLE_LEGACY || handle == SM_HANDLE_OF_NONE || handle == SM_HANDLE_OF_LIBRARY)
        return find_special_stream(device, handle, out);
    SM_TRY(sm_device_resolve(device, &resolved));
    SM_TRY(sm_device_stream_query_capture(resolved, handle, &facts));
    if (facts.capturing) {
        *out = NULL;
        return SYNCED_MEM_OK;
    }
    return handle == SM_HANDLE_PER_THREAD ? find_stream_of_thread(resolved, out)
                                          : find_created_stream(device, resolved, handle, facts.id, out);
}

/* ---- Events on streams ---- */

/* Returns the stream whose event covers the stream's work. A thread cannot record an event on another thread's default
 * stream. The legacy stream waits for such streams as for all blocking ones, so it stands for them. It also stands for
 * the stream of an access that names none. */
static struct sm_stream *get_recordable_stream(struct sm_stream *stream)
{
    const bool others = stream->kind == SM_STREAM_PER_THREAD && stream->thread != get_thread_number();
    return others || stream->kind == SM_STREAM_ANY ? get_uncreated_stream(legacy, stream->device) : stream;
}

static __attribute__((noinline, cold)) synced_mem_status fail_vanished(const struct sm_stream *stream)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "stream %p was destroyed without synced_mem_forget_stream(): its work on this object is not tracked",
                   (void *)stream->handle);
}

/* With the stream locked. A caller that is done with the stream may destroy it as soon as the lock is free. */
static synced_mem_status record_use_end(struct sm_stream *stream, struct sm_fence **out)
{
    const enum state state = get_state(stream);
    if (state == VANISHED)
        return fail_vanished(stream);
    if (state == DONE) {
        struct sm_fence *const last = atomic_load_explicit(&stream->last, memory_order_acquire);
        if (!last)
            return sm_fail(SYNCED_MEM_ERR_DEVICE_LOST, "device %d was lost before stream %p was done", stream->device,
                           (void *)stream->handle);
        *out = sm_fence_hold(last);
        return SYNCED_MEM_OK;
    }
    struct sm_stream *const on = get_recordable_stream(stream);
    struct sm_fence *const shared = sm_shared_end(on->serial);
    struct sm_stream_facts facts;
    if (shared) {
        *out = sm_fence_hold(shared);
        return SYNCED_MEM_OK;
    }
    SM_TRY(sm_device_stream_query_capture(on->device, on->handle, &facts));
    if (facts.capturing)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING, "stream %p, which uses this object's memory, is capturing",
                       (void *)on->handle);
    if (names_another_stream(on, facts.id) && on->kind == SM_STREAM_CREATED) {
        forget_vanished_stream(stream);
        return fail_vanished(stream);
    }
    SM_TRY(sm_stream_record(on, out));
    sm_shared_end_add(*out);
    return SYNCED_MEM_OK;
}

static void lock_stream(struct sm_stream *stream)
{
    if (has_counted_holders(stream))
        sm_mutex_lock(&stream->lock);
}

void sm_stream_unlock(struct sm_stream *stream)
{
    if (has_counted_holders(stream))
        sm_mutex_unlock(&stream->lock);
}

synced_mem_status sm_stream_end_use(struct sm_stream *stream, struct sm_fence **out)
{
    lock_stream(stream);
    const synced_mem_status status = record_use_end(stream, out);
    sm_stream_unlock(stream);
    return status;
}

/* Returns whether all work that the stream gets from now on comes after the fence. */
static bool is_behind(const struct sm_stream *stream, const struct sm_fence *fence)
{
    return fence->stream == stream->serial ||
           atomic_load_explicit(&fence->awaited_by, memory_order_acquire) == stream->serial;
}

synced_mem_status sm_stream_wait(struct sm_stream *stream, struct sm_fence *fence)
{
    const bool is_queueing = sm_fence_state(fence) == SM_FENCE_QUEUEING;
    const synced_mem_status status = is_queueing ? sm_fence_wait_queued(fence) : SYNCED_MEM_OK;
    if (fence && fence->device != stream->device) /* a stream need not notice the loss of another device */
        (void)sm_fence_poll(fence);
    if (status != SYNCED_MEM_OK || sm_fence_state(fence) != SM_FENCE_PENDING || is_behind(stream, fence))
        return status;
    sm_count_up(SM_COUNT_stream_waits, 1);
    sm_trace_stream_wait(sm_stream_traced(stream), fence->stream);
    SM_TRY(sm_device_stream_wait(stream->device, stream->handle, fence->event));
    atomic_store_explicit(&fence->awaited_by, stream->serial, memory_order_release);
    return SYNCED_MEM_OK;
}

static __attribute__((noinline)) synced_mem_status wait_for_any_first(struct sm_stream *stream, int device)
{
    struct sm_fence *fence;
    SM_TRY(sm_stream_end_use(sm_stream_any(device), &fence));
    const synced_mem_status status = sm_stream_wait(stream, fence);
    sm_fence_drop(fence);
    return status;
}

/* The event for such uses is on the legacy stream, which itself comes after them. */
synced_mem_status sm_stream_wait_for_any(struct sm_stream *stream, int device)
{
    if (stream->kind == SM_STREAM_LEGACY && stream->device == device)
        return SYNCED_MEM_OK;
    const struct sm_fence *const shared = sm_shared_end(get_uncreated_stream(legacy, device)->serial);
    return shared && is_behind(stream, shared) ? SYNCED_MEM_OK : wait_for_any_first(stream, device);
}

/* Blocking streams wait for the work that the legacy stream waits for. Another thread's default stream needs no such
 * wait for its own work. */
bool sm_stream_hold_back(struct sm_stream *stream, struct sm_fence *fence)
{
    struct sm_stream_facts facts;
    lock_stream(stream);
    struct sm_stream *const on = get_recordable_stream(stream);
    const bool held = get_state(stream) == KNOWN &&
                      sm_device_stream_query_capture(on->device, on->handle, &facts) == SYNCED_MEM_OK &&
                      !facts.capturing && !names_another_stream(on, facts.id) &&
                      (is_behind(stream, fence) || sm_stream_wait(on, fence) == SYNCED_MEM_OK);
    sm_stream_unlock(stream);
    return held;
}

/* ---- For memory that is freed in the order of a stream ---- */

bool sm_stream_lock_if_free(struct sm_stream *stream, synced_mem_status *status)
{
    struct sm_stream_facts facts = {.capturing = true};
    lock_stream(stream);
    const bool known = get_state(stream) == KNOWN;
    *status = known ? sm_device_stream_query_capture(stream->device, stream->handle, &facts) : SYNCED_MEM_OK;
    if (known && *status == SYNCED_MEM_OK && !facts.capturing && !names_another_stream(stream, facts.id))
        return true;
    sm_stream_unlock(stream);
    return false;
}

static struct sm_stream *find_next_wanted_stream(struct bucket *bucket, bool (*wanted)(const struct sm_stream *, int),
                                                 int device, uint64_t below)
{
    struct sm_stream *found = NULL;
    sm_lock_briefly(&bucket->lock);
    for (struct sm_stream *stream = bucket->first; stream; stream = stream->next)
        if (wanted(stream, device) && stream->serial < below && (!found || stream->serial > found->serial))
            found = stream;
    if (found)
        sm_stream_hold(found);
    sm_unlock_brief(&bucket->lock);
    return found;
}

void sm_stream_each(bool (*wanted)(const struct sm_stream *stream, int device), int device,
                    void (*visit)(struct sm_stream *stream))
{
    for (int i = 0; i < BUCKETS; i++) {
        struct sm_stream *stream;
        uint64_t below = UINT64_MAX;
        while ((stream = find_next_wanted_stream(&buckets[i], wanted, device, below)) != NULL) {
            below = stream->serial;
            visit(stream);
            sm_stream_drop(stream);
        }
    }
}

/* ---- Streams that go ---- */

bool sm_stream_is_over(const struct sm_stream *stream)
{
    return get_state(stream) == DONE ||
           (has_counted_holders(stream) && atomic_load_explicit(&stream->orphaned, memory_order_relaxed));
}

/* On a lost device nothing runs, and the stream's handle may be invalid by the next query. So the stream is done. */
static synced_mem_status end_stream(struct bucket *bucket, struct sm_stream *stream)
{
    struct sm_fence *last = NULL;
    if (get_state(stream) != KNOWN)
        return SYNCED_MEM_OK;
    /* Besides the uses that it was given, the caller holds the stream, and perhaps the bucket. */
    const unsigned others = is_known_while_held(stream) ? 1 : 2;
    const bool has_uses = atomic_load_explicit(&stream->holders, memory_order_relaxed) > others;
    const synced_mem_status status = has_uses ? record_use_end(stream, &last) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return get_state(stream) == VANISHED ? SYNCED_MEM_OK : status;
    sm_lock_briefly(&bucket->lock);
    atomic_store_explicit(&stream->last, last, memory_order_release);
    forget_stream_in_bucket(bucket, stream, DONE);
    sm_unlock_brief(&bucket->lock);
    drop_bucket_hold(stream);
    return status;
}

synced_mem_status sm_stream_forget(synced_mem_stream handle)
{
    const uint64_t thread = handle == SM_HANDLE_PER_THREAD ? get_thread_number() : 0;
    struct bucket *const bucket = get_bucket(handle, thread);
    synced_mem_status status = SYNCED_MEM_OK;
    struct sm_stream *stream;
    while (status == SYNCED_MEM_OK && (stream = find_and_hold_stream(bucket, handle, thread, -1)) != NULL) {
        lock_stream(stream);
        status = end_stream(bucket, stream);
        sm_stream_unlock(stream);
        sm_stream_drop(stream);
    }
    return status;
}

/* ---- The end ---- */

synced_mem_status sm_stream_shutdown(void)
{
    for (struct bucket *bucket = buckets; bucket < buckets + BUCKETS; bucket++) {
        struct sm_stream *stream;
        while ((stream = bucket->first) != NULL) {
            sm_lock_briefly(&bucket->lock);
            forget_stream_in_bucket(bucket, stream, DONE);
            sm_unlock_brief(&bucket->lock);
            drop_bucket_hold(stream);
        }
    }
    sm_stream_structs_trim();
    return sm_internal_streams_shutdown();
}
