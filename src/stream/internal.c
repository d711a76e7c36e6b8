/* The internal streams. */
#include "stream/stream.h"

#include "base/process.h"
#include "base/status.h"

static struct {
    struct sm_lock lock; /* held while a stream is created or destroyed */
    struct sm_stream stream[SM_MAX_DEVICES][SM_INTERNALS];
    atomic_bool made[SM_MAX_DEVICES][SM_INTERNALS];
} internals = {.lock = SM_LOCK_INITIALIZER};

synced_mem_status sm_internal_stream(int device, enum sm_internal internal, struct sm_stream **out)
{
    struct sm_stream *const stream = &internals.stream[device][internal];
    atomic_bool *const made = &internals.made[device][internal];
    synced_mem_status status = SYNCED_MEM_OK;
    if (!atomic_load_explicit(made, memory_order_acquire)) {
        sm_lock(&internals.lock);
        if (!atomic_load_explicit(made, memory_order_relaxed)) {
            status = sm_device_stream_create(device, &stream->handle);
            if (status == SYNCED_MEM_OK) {
                sm_stream_describe(stream, SM_STREAM_INTERNAL, device, SM_NO_HANDLE);
                atomic_store_explicit(made, true, memory_order_release);
            }
        }
        sm_unlock(&internals.lock);
    }
    if (status == SYNCED_MEM_OK)
        *out = stream;
    return status;
}

/* Stores the fence of the stream's last work. Takes over the caller's hold. */
static void set_last(struct sm_stream *internal, struct sm_fence *last)
{
    sm_fence_drop(atomic_exchange_explicit(&internal->last, last, memory_order_acq_rel));
}

/* Many threads may record at once, and a lock would make most of them sleep. So nobody knows which of these fences is
 * the last, and none is kept. */
synced_mem_status sm_internal_stream_record(struct sm_stream *internal, struct sm_fence **out)
{
    const synced_mem_status status = sm_stream_record_fence(internal, out);
    struct sm_fence *const fence = status == SYNCED_MEM_OK ? *out : NULL;
    const bool was_alone = fence && fence->order == fence->since + 1;
    set_last(internal, was_alone ? sm_fence_hold(fence) : NULL);
    if (!was_alone || atomic_load_explicit(&internal->fences, memory_order_acquire) != fence->order)
        set_last(internal, NULL);
    return status;
}

/* Takes the fence of the stream's last work, which no longer stands for what the caller is about to queue. Returns
 * whether the fence is done. A query is needed if another thread has taken the fence. */
static bool was_seen_idle(struct sm_stream *internal)
{
    struct sm_fence *const last = atomic_exchange_explicit(&internal->last, NULL, memory_order_acq_rel);
    const bool idle = last && sm_fence_state(last) == SM_FENCE_DONE;
    sm_fence_drop(last);
    return idle;
}

synced_mem_status sm_internal_stream_behind(int device, enum sm_internal first, struct sm_stream **out)
{
    static atomic_uint turn;
    for (unsigned i = 0; i < SM_INTERNALS_BEHIND; i++) {
        bool done = false;
        SM_TRY(sm_internal_stream(device, (enum sm_internal)(first + i), out));
        if (was_seen_idle(*out))
            return SYNCED_MEM_OK;
        const synced_mem_status status = sm_device_stream_query(device, (*out)->handle, &done);
        if (status == SYNCED_MEM_ERR_DEVICE_LOST)
            return SYNCED_MEM_OK; /* the call goes on, and reports which work or contents it needs */
        if (status != SYNCED_MEM_OK || done)
            return status;
    }
    const unsigned next = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % SM_INTERNALS_BEHIND;
    return sm_internal_stream(device, (enum sm_internal)(first + next), out);
}

struct sm_stream *sm_internal_stream_if_made(int device, enum sm_internal internal)
{
    const bool made = atomic_load_explicit(&internals.made[device][internal], memory_order_acquire);
    return made ? &internals.stream[device][internal] : NULL;
}

enum sm_internal sm_internal_of(const struct sm_stream *internal)
{
    return (enum sm_internal)(internal - internals.stream[internal->device]);
}

synced_mem_status sm_internal_streams_shutdown(void)
{
    struct sm_outcome first = {.status = SYNCED_MEM_OK};
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        for (enum sm_internal internal = SM_INTERNAL_H2D; internal < SM_INTERNALS; internal++)
            (void)was_seen_idle(&internals.stream[device][internal]); /* drops the last fence */
    sm_lock(&internals.lock);
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        for (enum sm_internal internal = SM_INTERNAL_H2D; internal < SM_INTERNALS; internal++) {
            atomic_bool *const made = &internals.made[device][internal];
            synced_mem_status status = SYNCED_MEM_OK;
            if (atomic_load_explicit(made, memory_order_relaxed))
                status = sm_device_stream_destroy(device, internals.stream[device][internal].handle);
            /* A stream of a lost device is gone with it. After any other failure the stream stays, for a later try. */
            if (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_DEVICE_LOST)
                atomic_store_explicit(made, false, memory_order_relaxed);
            if (first.status == SYNCED_MEM_OK || first.status == SYNCED_MEM_ERR_DEVICE_LOST)
                sm_outcome_set(&first, status);
        }
    }
    sm_unlock(&internals.lock);
    return sm_outcome_end(&first);
}
