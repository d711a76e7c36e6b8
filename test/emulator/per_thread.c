/*
 * The per-thread streams, one for each thread and device. Also the names under which the runtime offers its calls to
 * programs that are compiled to use these streams for NULL.
 *
 * Such a stream has no handle but cudaStreamPerThread. It lives until its thread has ended and its work is done.
 */
#include "emu.h"

#include <stdlib.h>

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

/* Ends a thread's use of its stream. A capture that began there can no longer be ended, nor the stream be used. */
static void let_go(struct emu_stream *stream)
{
    struct emu_stream **link = &emu.kept_streams;
    if (stream->capture != NULL) {
        stream->capture->invalid = true;
        return;
    }
    while (*link != stream)
        link = &(*link)->next_kept;
    *link = stream->next_kept;
    stream->kept = false;
    emu_race_stream_gone(stream);
    if (stream->head == NULL)
        emu_stream_forget(stream);
}

static void thread_ended(void *unused)
{
    (void)unused;
    emu_lock();
    struct emu_thread *thread = emu_self();
    for (int device = 0; device < EMU_MAX_DEVICES; device++) {
        if (thread->streams[device] != NULL)
            let_go(thread->streams[device]);
        thread->streams[device] = NULL;
    }
    emu_unlock();
}

static void make_key(void)
{
    if (pthread_key_create(&key, thread_ended) != 0)
        abort();
}

struct emu_stream *emu_per_thread_stream(void)
{
    struct emu_thread *thread = emu_self();
    struct emu_stream **mine = &thread->streams[thread->device];
    if (*mine != NULL)
        return *mine;
    pthread_once(&key_once, make_key);
    pthread_setspecific(key, &emu); /* any value but NULL, so that thread_ended() is called */
    struct emu_stream *stream = emu_allocate(sizeof *stream);
    stream->id = ++emu.last_stream_id;
    stream->device = thread->device;
    stream->blocking = true;
    stream->kept = true;
    stream->born = thread->origin;
    stream->next_kept = emu.kept_streams;
    emu.kept_streams = stream;
    *mine = stream;
    return stream;
}

/* Streams with work are among the active streams, and are freed with them. */
void emu_per_thread_reset(void)
{
    for (struct emu_stream *stream = emu.kept_streams, *next; stream != NULL; stream = next) {
        next = stream->next_kept;
        emu_race_stream_gone(stream);
        if (stream->head == NULL)
            emu_stream_free(stream);
    }
    emu.kept_streams = NULL;
}

/* ---- The names ---- */

static cudaStream_t own(cudaStream_t stream)
{
    return stream == NULL ? cudaStreamPerThread : stream;
}

/* Declares and defines one of the names. */
#define PER_THREAD(name, parameters, arguments)                                                                        \
    cudaError_t name##_ptsz parameters;                                                                                \
    cudaError_t name##_ptsz parameters                                                                                 \
    {                                                                                                                  \
        emu_called_from(__builtin_return_address(0));                                                                  \
        return name arguments;                                                                                         \
    }

PER_THREAD(cudaMemcpyAsync, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
           (dst, src, count, kind, own(stream)))
PER_THREAD(cudaMemsetAsync, (void *devPtr, int value, size_t count, cudaStream_t stream),
           (devPtr, value, count, own(stream)))
#if CUDART_VERSION >= 13000
PER_THREAD(cudaMemcpyBatchAsync,
           (void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
            struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream),
           (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, own(stream)))
PER_THREAD(cudaMemPrefetchAsync,
           (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags, cudaStream_t stream),
           (devPtr, count, location, flags, own(stream)))
#else
PER_THREAD(cudaMemPrefetchAsync, (const void *devPtr, size_t count, int dstDevice, cudaStream_t stream),
           (devPtr, count, dstDevice, own(stream)))
#endif
PER_THREAD(cudaMallocFromPoolAsync, (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
           (ptr, size, memPool, own(stream)))
PER_THREAD(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t hStream), (devPtr, size, own(hStream)))
PER_THREAD(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), (devPtr, own(hStream)))

PER_THREAD(cudaStreamQuery, (cudaStream_t stream), (own(stream)))
PER_THREAD(cudaStreamSynchronize, (cudaStream_t stream), (own(stream)))
PER_THREAD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
           (own(stream), event, flags))
PER_THREAD(cudaStreamGetFlags, (cudaStream_t hStream, unsigned int *flags), (own(hStream), flags))
PER_THREAD(cudaStreamGetPriority, (cudaStream_t hStream, int *priority), (own(hStream), priority))
PER_THREAD(cudaStreamGetId, (cudaStream_t hStream, unsigned long long *streamId), (own(hStream), streamId))
PER_THREAD(cudaStreamGetDevice, (cudaStream_t hStream, int *device), (own(hStream), device))
PER_THREAD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *userData), (own(stream), fn, userData))
PER_THREAD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, own(stream)))

PER_THREAD(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (own(stream), mode))
PER_THREAD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *pGraph), (own(stream), pGraph))
PER_THREAD(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
           (own(stream), pCaptureStatus))
PER_THREAD(cudaStreamGetCaptureInfo,
           (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out,
            cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
            size_t *numDependencies_out),
           (own(stream), captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out))
PER_THREAD(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, own(stream)))
