/* The first use of a pool, beside the program. */
#include "device/cuda/warm.h"

#include "base/mutex.h"
#include "base/once.h"
#include "base/process.h"
#include "base/status.h"
#include "system/process.h"
#include "system/thread.h"

#include <stdatomic.h>

enum { WARM_BYTES = 4096 };

static struct warming {
    cudaMemPool_t pool;
    void (*warmed)(int device);
} warmings[SM_MAX_DEVICES];

static struct {
    atomic_uint running; /* threads */
    struct sm_events ended;
    atomic_bool forbidden;
} threads;

static synced_mem_status free_block(int device, void *data, cudaStream_t stream)
{
    return check_code(cudaFreeAsync(data, stream), "cudaFreeAsync", device, 0);
}

static synced_mem_status destroy_stream(int device, cudaStream_t stream)
{
    return check_code(cudaStreamDestroy(stream), "cudaStreamDestroy", device, 0);
}

/* Tries twice to give back the block and the stream, of which nobody else knows. */
static synced_mem_status use_pool(int device, cudaMemPool_t pool)
{
    cudaStream_t stream;
    void *data;
    SM_TRY(
        check_code(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device, 0));
    synced_mem_status status =
        check_code(cudaMallocFromPoolAsync(&data, WARM_BYTES, pool, stream), "cudaMallocFromPoolAsync", device, 0);
    if (status == SYNCED_MEM_OK && free_block(device, data, stream) != SYNCED_MEM_OK)
        status = free_block(device, data, stream);
    if (destroy_stream(device, stream) != SYNCED_MEM_OK)
        (void)destroy_stream(device, stream);
    return status;
}

/* A failure is that of the next allocation too, which reports it. */
static void *warm_in_thread(void *argument)
{
    const struct warming *const warming = argument;
    const int device = (int)(warming - warmings);
    struct before before;
    if (enter_device(device, &before) == SYNCED_MEM_OK)
        (void)leave_device(device, &before, use_pool(device, warming->pool));
    warming->warmed(device);
    atomic_fetch_sub(&threads.running, 1);
    sm_events_add(&threads.ended);
    return NULL;
}

/* The runtime ends when the process does, and no thread may be inside it then. */
static void await_at_exit(void)
{
    if (!sm_is_last_thread())
        sm_cuda_warm_await();
}

static void watch_exit(void)
{
    sm_watch_exit(await_at_exit);
}

bool sm_cuda_warm_begin(int device, cudaMemPool_t pool, void (*warmed)(int device))
{
    static struct sm_once once;
    if (atomic_load_explicit(&threads.forbidden, memory_order_relaxed))
        return false;
    sm_once(&once, watch_exit);
    warmings[device] = (struct warming){.pool = pool, .warmed = warmed};
    atomic_fetch_add(&threads.running, 1);
    if (sm_thread_start(NULL, warm_in_thread, &warmings[device]))
        return true;
    atomic_fetch_sub(&threads.running, 1);
    return false;
}

/* A forked child has none of its parent's threads. */
void sm_cuda_warm_await(void)
{
    while (!sm_process_lost_gpu()) {
        const unsigned seen = sm_events_seen(&threads.ended);
        if (atomic_load(&threads.running) == 0)
            break;
        sm_events_wait(&threads.ended, seen);
    }
}

void sm_device_pool_warm_beside(bool beside)
{
    atomic_store_explicit(&threads.forbidden, !beside, memory_order_relaxed);
}
