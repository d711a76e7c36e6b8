/* Device memory that is freed in the order of a stream: freeing it, and finding out that it is free. */
#include "stream/stream.h"

/* A created stream without an id is forgotten with its last use. Then nobody would poll its frees. */
static bool polls_frees_of(const struct sm_stream *stream)
{
    return stream->kind != SM_STREAM_CREATED || stream->id != 0;
}

synced_mem_status sm_stream_free(struct sm_stream *stream, void *data, bool *freed)
{
    synced_mem_status status = SYNCED_MEM_OK;
    *freed = polls_frees_of(stream) && sm_stream_lock_if_free(stream, &status);
    if (!*freed)
        return status;
    atomic_fetch_add_explicit(&stream->frees, 1, memory_order_relaxed);
    status = sm_device_free(stream->device, data, stream->handle);
    sm_stream_unlock(stream);
    return status;
}

static bool has_pending_frees(const struct sm_stream *stream, int device)
{
    return stream->device == device && atomic_load_explicit(&stream->frees, memory_order_relaxed) !=
                                           atomic_load_explicit(&stream->awaited, memory_order_relaxed);
}

static void wait_for_stream_frees(struct sm_stream *stream)
{
    struct sm_fence *fence = NULL;
    const unsigned frees = atomic_load_explicit(&stream->frees, memory_order_relaxed);
    const bool ended = sm_stream_end_use(stream, &fence) == SYNCED_MEM_OK;
    if (ended && sm_fence_wait(fence) == SYNCED_MEM_OK)
        atomic_store_explicit(&stream->awaited, frees, memory_order_relaxed);
    sm_fence_drop(fence);
}

/* The runtime counts a free as done once a synchronization has shown it. Synchronizing a stream that has nothing to do
 * does not wait. Source: CUDA Runtime API, cudaMemPoolTrimTo. */
static bool poll_frees(const struct sm_stream *stream)
{
    bool done = false;
    const synced_mem_status status = sm_device_stream_query(stream->device, stream->handle, &done);
    return status == SYNCED_MEM_OK && done && sm_device_stream_sync(stream->device, stream->handle) == SYNCED_MEM_OK;
}

static void poll_stream_frees(struct sm_stream *stream)
{
    synced_mem_status status;
    const unsigned frees = atomic_load_explicit(&stream->frees, memory_order_relaxed);
    if (sm_stream_lock_if_free(stream, &status)) {
        if (poll_frees(stream))
            atomic_store_explicit(&stream->awaited, frees, memory_order_relaxed);
        sm_stream_unlock(stream);
    }
}

void sm_stream_poll_frees(int device)
{
    for (enum sm_internal internal = SM_INTERNAL_FREE; internal < SM_INTERNALS; internal++) {
        const struct sm_stream *const stream = sm_internal_stream_if_made(device, internal);
        if (stream)
            (void)poll_frees(stream);
    }
    sm_stream_each(has_pending_frees, device, poll_stream_frees);
}

void sm_stream_wait_for_frees(int device)
{
    for (enum sm_internal internal = SM_INTERNAL_FREE; internal < SM_INTERNALS; internal++) {
        const struct sm_stream *const stream = sm_internal_stream_if_made(device, internal);
        if (stream)
            (void)sm_device_stream_sync(device, stream->handle);
    }
    sm_stream_each(has_pending_frees, device, wait_for_stream_frees);
}
