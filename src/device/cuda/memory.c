/* The seam on the CUDA runtime: device memory, and the library's own pool on each device. */
#include "device/cuda/runtime.h"

#include "device/cuda/warm.h"

#include "base/process.h"
#include "base/status.h"

#include <stdatomic.h>

/* Drivers before 11.2 have no pools, and don't know the attribute that reports them. */
enum { DRIVER_WITH_POOLS = 11020 };

/* WARMING: the pool exists, but its first use would take too long; a thread makes it, and memory comes from
 * cudaMalloc() until then. */
enum pools { POOLS_UNKNOWN, POOLS_WARMING, POOLS_USED, POOLS_MISSING };

/* The library's pool on each device, created at first use. */
static struct device {
    atomic_int pools; /* enum pools; once it is POOLS_WARMING or POOLS_USED, pool is set */
    cudaMemPool_t pool;
    atomic_bool plain; /* memory may have come from cudaMalloc() although there is a pool */
} devices[SM_MAX_DEVICES];

static struct sm_lock making = SM_LOCK_INITIALIZER; /* held while a pool is created or destroyed */

/* ---- The library's own pool ---- */

static synced_mem_status query_pool_support(int device, int *supported)
{
    int driver;
    *supported = 0;
    const synced_mem_status status = check_code(cudaDriverGetVersion(&driver), "cudaDriverGetVersion", device, 0);
    if (status != SYNCED_MEM_OK || driver < DRIVER_WITH_POOLS)
        return status;
    return check_code(cudaDeviceGetAttribute(supported, cudaDevAttrMemoryPoolsSupported, device),
                      "cudaDeviceGetAttribute", device, 0);
}

/* Creates a pool that keeps all freed memory: returning memory to the system and allocating it again is expensive. */
static synced_mem_status create_pool(int device, cudaMemPool_t *pool)
{
    const struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = cudaMemHandleTypeNone,
        .location = {.type = cudaMemLocationTypeDevice, .id = device},
    };
    uint64_t threshold = UINT64_MAX;
    SM_TRY(check_code(cudaMemPoolCreate(pool, &properties), "cudaMemPoolCreate", device, 0));
    synced_mem_status status = check_code(cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &threshold),
                                          "cudaMemPoolSetAttribute", device, 0);
    if (status != SYNCED_MEM_OK)
        (void)cudaMemPoolDestroy(*pool);
    return status;
}

static void end_warming(int device)
{
    atomic_store(&devices[device].pools, POOLS_USED);
}

static synced_mem_status make_pool(int device, bool warms)
{
    struct device *const on = &devices[device];
    int supported;
    synced_mem_status status = query_pool_support(device, &supported);
    if (status == SYNCED_MEM_OK && supported)
        status = create_pool(device, &on->pool);
    if (status != SYNCED_MEM_OK)
        return status;
    atomic_store(&on->pools, supported ? POOLS_WARMING : POOLS_MISSING);
    if (supported && !(warms && sm_cuda_warm_begin(device, on->pool, end_warming)))
        end_warming(device);
    return SYNCED_MEM_OK;
}

/* Sets *pools to the kind of allocator that the device has. The device is current. warms: a new pool is warmed beside
 * the program. */
static synced_mem_status get_pools(int device, bool warms, enum pools *pools)
{
    const atomic_int *const made = &devices[device].pools;
    synced_mem_status status = SYNCED_MEM_OK;
    *pools = (enum pools)atomic_load_explicit(made, memory_order_acquire);
    if (*pools != POOLS_UNKNOWN)
        return SYNCED_MEM_OK;
    sm_lock(&making);
    if (atomic_load_explicit(made, memory_order_relaxed) == POOLS_UNKNOWN)
        status = make_pool(device, warms);
    sm_unlock(&making);
    *pools = (enum pools)atomic_load_explicit(made, memory_order_acquire);
    return status;
}

/* A program that sets something of a pool before it has memory wants all memory to be the pool's. */
synced_mem_status sm_cuda_pool(int device, bool make, cudaMemPool_t *pool)
{
    enum pools pools = (enum pools)atomic_load_explicit(&devices[device].pools, memory_order_acquire);
    const synced_mem_status status = make ? get_pools(device, false, &pools) : SYNCED_MEM_OK;
    const bool is_made = pools == POOLS_WARMING || pools == POOLS_USED;
    *pool = status == SYNCED_MEM_OK && is_made ? devices[device].pool : NULL;
    return status;
}

/* allocate() announces plain memory before it reads the state again. So if this returns false, later memory is the
 * pool's. */
bool sm_cuda_has_plain_memory(int device)
{
    const struct device *const on = &devices[device];
    return atomic_load(&on->pools) == POOLS_WARMING || atomic_load(&on->plain);
}

bool sm_device_frees_in_order(int device)
{
    return atomic_load_explicit(&devices[device].pools, memory_order_acquire) != POOLS_MISSING;
}

/* ---- Memory ---- */

static synced_mem_status allocate(int device, enum pools pools, size_t size, synced_mem_stream stream, void **out)
{
    struct device *const on = &devices[device];
    if (pools == POOLS_WARMING) {
        atomic_store(&on->plain, true);
        pools = (enum pools)atomic_load(&on->pools);
    }
    if (pools == POOLS_USED)
        return check_code(cudaMallocFromPoolAsync(out, size, on->pool, stream), "cudaMallocFromPoolAsync", device,
                          size);
    return check_code(cudaMalloc(out, size), "cudaMalloc", device, size);
}

synced_mem_status sm_device_alloc(int device, size_t size, synced_mem_stream stream, void **out)
{
    struct before before;
    enum pools pools;
    SM_TRY(enter_device(device, &before));
    synced_mem_status status = get_pools(device, true, &pools);
    if (status == SYNCED_MEM_OK)
        status = allocate(device, pools, size, stream, out);
    return leave_device(device, &before, status);
}

/* cudaFreeAsync() also frees memory of cudaMalloc() in the stream's order. */
static synced_mem_status free_behind(int device, void *data, synced_mem_stream stream)
{
    if (sm_device_frees_in_order(device))
        return check_code(cudaFreeAsync(data, stream), "cudaFreeAsync", device, 0);
    SM_TRY(check_code(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0));
    return check_code(cudaFree(data), "cudaFree", device, 0);
}

synced_mem_status sm_device_free(int device, void *data, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, free_behind(device, data, stream));
}

synced_mem_status sm_device_memory_info(int device, size_t *free, size_t *total)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaMemGetInfo(free, total), "cudaMemGetInfo", device, 0));
}

/* ---- Shutdown ---- */

static synced_mem_status destroy_pool(int device)
{
    struct device *const on = &devices[device];
    struct before before;
    if (atomic_load_explicit(&on->pools, memory_order_relaxed) == POOLS_USED) {
        synced_mem_status status = enter_device(device, &before);
        if (status == SYNCED_MEM_OK)
            status = leave_device(device, &before,
                                  check_code(cudaMemPoolDestroy(on->pool), "cudaMemPoolDestroy", device, 0));
        if (sm_cuda_remains(status))
            return status;
    }
    atomic_store_explicit(&on->plain, false, memory_order_relaxed);
    atomic_store_explicit(&on->pools, POOLS_UNKNOWN, memory_order_relaxed);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_cuda_destroy_pools(void)
{
    struct sm_outcome first = {.status = SYNCED_MEM_OK};
    sm_cuda_warm_await();
    sm_lock(&making);
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        const synced_mem_status status = destroy_pool(device);
        if (!sm_cuda_remains(first.status))
            sm_outcome_set(&first, status);
    }
    sm_unlock(&making);
    return sm_outcome_end(&first);
}
