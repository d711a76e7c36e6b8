/* The seam on the CUDA runtime: batches of copies, by cudaMemcpyBatchAsync. */
#include "device/cuda/runtime.h"

#include "base/status.h"

#include <stdatomic.h>

#if CUDART_VERSION >= 12080

enum { DRIVER_WITH_BATCHES = 12080 };

/* The result of the query of the driver. */
enum batches { BATCHES_UNKNOWN, BATCHES_USED, BATCHES_MISSING };

static atomic_int batches; /* enum batches */

/* To the device, 64 copies of 16 KiB take an H200 (driver 580, CUDA 13.0) 3.5 us each in a batch, and 3.1 us as single
 * copies. At 4 KiB and at 64 KiB the batch is faster. From the device it is never slower. */
enum { SLOW_ABOVE = 4 << 10, SLOW_BELOW = 64 << 10 };

static bool has_driver_batches(void)
{
    int driver;
    const int known = atomic_load_explicit(&batches, memory_order_relaxed);
    if (known != BATCHES_UNKNOWN)
        return known == BATCHES_USED;
    if (check_code(cudaDriverGetVersion(&driver), "cudaDriverGetVersion", 0, 0) != SYNCED_MEM_OK)
        return false;
    const bool has = driver >= DRIVER_WITH_BATCHES;
    atomic_store_explicit(&batches, has ? BATCHES_USED : BATCHES_MISSING, memory_order_relaxed);
    return has;
}

bool sm_device_has_batches(synced_mem_stream stream)
{
    return stream && stream != SM_HANDLE_LEGACY && has_driver_batches();
}

/* Memory that was registered in extents needs a copy for each extent. */
bool sm_device_batch_takes(const void *host, size_t size, bool to_device)
{
    return size > 0 && (!to_device || size <= SLOW_ABOVE || size >= SLOW_BELOW) &&
           sm_cuda_in_extent(host, size) == size;
}

/* Page-locked sources may be read in the stream's order. CUDA 12 has one more argument than CUDA 13, and other
 * types. void * converts to each of them. */
static cudaError_t queue_batch(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                               cudaStream_t stream)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream);
#else
    size_t failed;
    return cudaMemcpyBatchAsync((void *)to, (void *)from, (void *)sizes, count, &attributes, &first, 1, &failed,
                                stream);
#endif
}

static synced_mem_status queue_copies(int device, void *const *to, const void *const *from, const size_t *sizes,
                                      size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < count && status == SYNCED_MEM_OK; i++)
        status =
            check_code(cudaMemcpyAsync(to[i], from[i], sizes[i], kind, stream), "cudaMemcpyAsync", device, sizes[i]);
    return status;
}

/* Queues one copy without a batch, which would cost more. An earlier batch of the call may have found them missing. */
synced_mem_status sm_device_copy_batch(int device, void *const *to, const void *const *from, const size_t *sizes,
                                       size_t count, bool to_device, synced_mem_stream stream)
{
    struct before before;
    const enum cudaMemcpyKind kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    SM_TRY(make_current(device, &before));
    if (count != 1 && atomic_load_explicit(&batches, memory_order_relaxed) != BATCHES_MISSING) {
        const cudaError_t code = queue_batch(to, from, sizes, count, stream);
        if (code != cudaErrorCallRequiresNewerDriver && code != cudaErrorNotSupported)
            return leave_device(device, &before, check_code(code, "cudaMemcpyBatchAsync", device, 0));
        (void)cudaGetLastError();
        atomic_store_explicit(&batches, BATCHES_MISSING, memory_order_relaxed);
    }
    return leave_device(device, &before, queue_copies(device, to, from, sizes, count, kind, stream));
}

#else

bool sm_device_has_batches(synced_mem_stream stream)
{
    (void)stream;
    return false;
}

bool sm_device_batch_takes(const void *host, size_t size, bool to_device)
{
    (void)host, (void)size, (void)to_device;
    return false;
}

synced_mem_status sm_device_copy_batch(int device, void *const *to, const void *const *from, const size_t *sizes,
                                       size_t count, bool to_device, synced_mem_stream stream)
{
    struct before before;
    (void)to, (void)from, (void)sizes, (void)count, (void)to_device, (void)stream;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, sm_fail(SYNCED_MEM_ERR_CUDA, "the CUDA runtime has no batches of copies"));
}

#endif
