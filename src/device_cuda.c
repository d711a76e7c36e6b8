/*
 * The seam on the CUDA runtime. The only file that includes a header of CUDA's; what differs between its versions is
 * here.
 *
 * Every call that can fail goes through check(), which clears the runtime's last error and maps the code. The device
 * is made current around each call and put back, by enter() and leave().
 */
#include "device.h"

#include "status.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* Drivers before 11.2 know no pools, nor the attribute that says so. */
enum { DRIVER_WITH_POOLS = 11020 };

enum pools { POOLS_UNKNOWN, POOLS_USED, POOLS_MISSING };

/* What the library keeps on each device, made at first use. */
static struct device {
    _Atomic(cudaStream_t) lane[SM_LANES];
    atomic_int pools; /* enum pools; once it is POOLS_USED, pool is set */
    cudaMemPool_t pool;
} devices[SM_MAX_DEVICES];

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* held while one of the above is made or destroyed */
static atomic_int known_count;                             /* devices, once they have answered; 0 before */
static atomic_bool in_use;

/* ---- Errors and the current device ---- */

static synced_mem_status status_of(cudaError_t code, synced_mem_status out_of_memory)
{
    switch ((int)code) {
    case cudaErrorMemoryAllocation:
        return out_of_memory;
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorNoDevice:
        return SYNCED_MEM_ERR_NO_GPU;
    case cudaErrorInvalidDevice:
        return SYNCED_MEM_ERR_INVALID_DEVICE;
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return SYNCED_MEM_ERR_DEVICE_LOST;
    default:
        return SYNCED_MEM_ERR_CUDA;
    }
}

/* The one way from the runtime's answer to a status of ours. A size of 0 is left out of the detail. */
static synced_mem_status check_with(synced_mem_status out_of_memory, cudaError_t code, const char *call, int device,
                                    size_t size)
{
    if (code == cudaSuccess)
        return SYNCED_MEM_OK;
    (void)cudaGetLastError();
    const synced_mem_status status = status_of(code, out_of_memory);
    const char *const whose = status == SYNCED_MEM_ERR_DEVICE_LOST ? " (of earlier work on the device)" : "";
    char of[32] = "";
    if (size > 0)
        (void)snprintf(of, sizeof of, " of %zu bytes", size);
    return sm_fail(status, "%s%s on device %d: %s, %s%s", call, of, device, cudaGetErrorName(code),
                   cudaGetErrorString(code), whose);
}

static synced_mem_status check(cudaError_t code, const char *call, int device, size_t size)
{
    return check_with(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, code, call, device, size);
}

/* Makes the device current; before receives the one that was. */
static synced_mem_status enter(int device, int *before)
{
    const synced_mem_status status = check(cudaGetDevice(before), "cudaGetDevice", device, 0);
    if (status != SYNCED_MEM_OK || *before == device)
        return status;
    return check(cudaSetDevice(device), "cudaSetDevice", device, 0);
}

/* Makes the caller's device current again and returns the status given. A failure would leave the caller on the wrong
 * device, so there is a second try. */
static synced_mem_status leave(int device, int before, synced_mem_status status)
{
    if (before != device && cudaSetDevice(before) != cudaSuccess) {
        (void)cudaGetLastError();
        (void)cudaSetDevice(before);
    }
    return status;
}

/* ---- The machine ---- */

static synced_mem_status count_devices(int *count)
{
    *count = atomic_load_explicit(&known_count, memory_order_relaxed);
    if (*count > 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status = check(cudaGetDeviceCount(count), "cudaGetDeviceCount", 0, 0);
    if (status != SYNCED_MEM_OK) {
        *count = 0;
        return status;
    }
    *count = *count < SM_MAX_DEVICES ? *count : SM_MAX_DEVICES;
    atomic_store_explicit(&known_count, *count, memory_order_relaxed);
    return *count > 0 ? SYNCED_MEM_OK : sm_fail(SYNCED_MEM_ERR_NO_GPU, "the CUDA runtime finds no device");
}

int sm_device_count(void)
{
    int count;
    (void)count_devices(&count);
    return count;
}

bool sm_device_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

synced_mem_status sm_device_resolve(int wanted, int *device)
{
    int count;
    int found = wanted;
    synced_mem_status status = count_devices(&count);
    if (status == SYNCED_MEM_OK && wanted == SYNCED_MEM_DEVICE_CURRENT)
        status = check(cudaGetDevice(&found), "cudaGetDevice", 0, 0);
    if (status != SYNCED_MEM_OK)
        return status;
    if (found >= count)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "device %d does not exist, there are %d", found, count);
    atomic_store_explicit(&in_use, true, memory_order_relaxed);
    *device = found;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_device_of_pointer(const void *data, int *device)
{
    int count;
    struct cudaPointerAttributes attributes;
    synced_mem_status status = count_devices(&count);
    if (status == SYNCED_MEM_OK)
        status = check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes", 0, 0);
    if (status != SYNCED_MEM_OK)
        return status;
    if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p is memory of the host, not of a device", data);
    *device = attributes.device;
    return SYNCED_MEM_OK;
}

/* ---- The library's own pool ---- */

static synced_mem_status ask_for_pools(int device, int *supported)
{
    int driver;
    *supported = 0;
    const synced_mem_status status = check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion", device, 0);
    if (status != SYNCED_MEM_OK || driver < DRIVER_WITH_POOLS)
        return status;
    return check(cudaDeviceGetAttribute(supported, cudaDevAttrMemoryPoolsSupported, device), "cudaDeviceGetAttribute",
                 device, 0);
}

/* Memory that was freed stays in the pool: to give it to the system and take it back is what costs. */
static synced_mem_status create_pool(int device, cudaMemPool_t *pool)
{
    const struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = cudaMemHandleTypeNone,
        .location = {.type = cudaMemLocationTypeDevice, .id = device},
    };
    uint64_t threshold = UINT64_MAX;
    synced_mem_status status = check(cudaMemPoolCreate(pool, &properties), "cudaMemPoolCreate", device, 0);
    if (status != SYNCED_MEM_OK)
        return status;
    status = check(cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &threshold),
                   "cudaMemPoolSetAttribute", device, 0);
    if (status != SYNCED_MEM_OK)
        (void)cudaMemPoolDestroy(*pool);
    return status;
}

static synced_mem_status make_pool(int device)
{
    struct device *const on = &devices[device];
    int supported;
    synced_mem_status status = ask_for_pools(device, &supported);
    if (status == SYNCED_MEM_OK && supported)
        status = create_pool(device, &on->pool);
    if (status == SYNCED_MEM_OK)
        atomic_store_explicit(&on->pools, supported ? POOLS_USED : POOLS_MISSING, memory_order_release);
    return status;
}

/* Which of the two allocators the device has, with the device current. */
static synced_mem_status pools_of(int device, enum pools *pools)
{
    const atomic_int *const made = &devices[device].pools;
    synced_mem_status status = SYNCED_MEM_OK;
    *pools = (enum pools)atomic_load_explicit(made, memory_order_acquire);
    if (*pools != POOLS_UNKNOWN)
        return SYNCED_MEM_OK;
    pthread_mutex_lock(&making);
    if (atomic_load_explicit(made, memory_order_relaxed) == POOLS_UNKNOWN)
        status = make_pool(device);
    pthread_mutex_unlock(&making);
    *pools = (enum pools)atomic_load_explicit(made, memory_order_acquire);
    return status;
}

/* ---- Memory ---- */

synced_mem_status sm_device_pinned_alloc(int device, size_t size, void **out)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(
        device, before,
        check_with(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, cudaMallocHost(out, size), "cudaMallocHost", device, size));
}

synced_mem_status sm_device_pinned_free(int device, void *data)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    return status != SYNCED_MEM_OK ? status
                                   : leave(device, before, check(cudaFreeHost(data), "cudaFreeHost", device, 0));
}

static synced_mem_status alloc_here(int device, size_t size, sm_stream stream, void **out)
{
    enum pools pools;
    const synced_mem_status status = pools_of(device, &pools);
    if (status != SYNCED_MEM_OK)
        return status;
    if (pools == POOLS_MISSING)
        return check(cudaMalloc(out, size), "cudaMalloc", device, size);
    return check(cudaMallocFromPoolAsync(out, size, devices[device].pool, stream), "cudaMallocFromPoolAsync", device,
                 size);
}

synced_mem_status sm_device_alloc(int device, size_t size, sm_stream stream, void **out)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    return status != SYNCED_MEM_OK ? status : leave(device, before, alloc_here(device, size, stream, out));
}

static synced_mem_status free_here(int device, void *data, sm_stream stream)
{
    if (atomic_load_explicit(&devices[device].pools, memory_order_acquire) != POOLS_MISSING)
        return check(cudaFreeAsync(data, stream), "cudaFreeAsync", device, 0);
    const synced_mem_status status = check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0);
    return status == SYNCED_MEM_OK ? check(cudaFree(data), "cudaFree", device, 0) : status;
}

synced_mem_status sm_device_free(int device, void *data, sm_stream stream)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    return status != SYNCED_MEM_OK ? status : leave(device, before, free_here(device, data, stream));
}

/* ---- Streams ---- */

static synced_mem_status make_lane(int device, enum sm_lane lane)
{
    cudaStream_t stream;
    const synced_mem_status status =
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device, 0);
    if (status == SYNCED_MEM_OK)
        atomic_store_explicit(&devices[device].lane[lane], stream, memory_order_release);
    return status;
}

synced_mem_status sm_device_lane(int device, enum sm_lane lane, sm_stream *out)
{
    _Atomic(cudaStream_t) *const made = &devices[device].lane[lane];
    if (!atomic_load_explicit(made, memory_order_acquire)) {
        int before;
        synced_mem_status status = enter(device, &before);
        if (status != SYNCED_MEM_OK)
            return status;
        pthread_mutex_lock(&making);
        if (!atomic_load_explicit(made, memory_order_relaxed))
            status = make_lane(device, lane);
        pthread_mutex_unlock(&making);
        if (leave(device, before, status) != SYNCED_MEM_OK)
            return status;
    }
    *out = atomic_load_explicit(made, memory_order_acquire);
    return SYNCED_MEM_OK;
}

bool sm_device_is_lane(int device, sm_stream stream)
{
    for (int lane = 0; stream && lane < SM_LANES; lane++)
        if (atomic_load_explicit(&devices[device].lane[lane], memory_order_acquire) == stream)
            return true;
    return false;
}

synced_mem_status sm_device_stream_sync(int device, sm_stream stream)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0));
}

synced_mem_status sm_device_stream_wait(int device, sm_stream stream, sm_event event)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent", device, 0));
}

/* ---- Work on a stream ---- */

static synced_mem_status copy(int device, void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                              sm_stream stream)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaMemcpyAsync(to, from, size, kind, stream), "cudaMemcpyAsync", device, size));
}

synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, sm_stream stream)
{
    return copy(device, to, from, size, cudaMemcpyHostToDevice, stream);
}

synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, sm_stream stream)
{
    return copy(device, to, from, size, cudaMemcpyDeviceToHost, stream);
}

synced_mem_status sm_device_zero(int device, void *data, size_t size, sm_stream stream)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaMemsetAsync(data, 0, size, stream), "cudaMemsetAsync", device, size));
}

/* ---- Events ---- */

synced_mem_status sm_device_event_create(int device, sm_event *out)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before,
                 check(cudaEventCreateWithFlags(out, cudaEventDisableTiming), "cudaEventCreateWithFlags", device, 0));
}

/* The three below need no device to be current, but answer with the current one's error if that is lost. */

synced_mem_status sm_device_event_destroy(int device, sm_event event)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaEventDestroy(event), "cudaEventDestroy", device, 0));
}

synced_mem_status sm_device_event_sync(int device, sm_event event)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaEventSynchronize(event), "cudaEventSynchronize", device, 0));
}

synced_mem_status sm_device_event_query(int device, sm_event event, bool *done)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    const cudaError_t code = cudaEventQuery(event);
    *done = code == cudaSuccess;
    return leave(device, before, code == cudaErrorNotReady ? SYNCED_MEM_OK : check(code, "cudaEventQuery", device, 0));
}

synced_mem_status sm_device_event_record(int device, sm_event event, sm_stream stream)
{
    int before;
    const synced_mem_status status = enter(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    return leave(device, before, check(cudaEventRecord(event, stream), "cudaEventRecord", device, 0));
}

/* ---- The end ---- */

/* What fails stays, for a later try; what was on a lost device went with it. */
static bool remains(synced_mem_status status)
{
    return status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
}

static synced_mem_status destroy_lane(int device, _Atomic(cudaStream_t) *lane)
{
    const cudaStream_t stream = atomic_load_explicit(lane, memory_order_relaxed);
    if (!stream)
        return SYNCED_MEM_OK;
    synced_mem_status status = check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0);
    if (!remains(status))
        status = check(cudaStreamDestroy(stream), "cudaStreamDestroy", device, 0);
    if (!remains(status))
        atomic_store_explicit(lane, NULL, memory_order_relaxed);
    return status;
}

static synced_mem_status destroy_lanes(int device)
{
    synced_mem_status first = SYNCED_MEM_OK;
    for (int lane = 0; lane < SM_LANES; lane++) {
        const synced_mem_status status = destroy_lane(device, &devices[device].lane[lane]);
        first = remains(first) ? first : status;
    }
    return first;
}

static synced_mem_status destroy_pool(int device)
{
    struct device *const on = &devices[device];
    synced_mem_status status = SYNCED_MEM_OK;
    if (atomic_load_explicit(&on->pools, memory_order_relaxed) == POOLS_USED)
        status = check(cudaMemPoolDestroy(on->pool), "cudaMemPoolDestroy", device, 0);
    if (!remains(status))
        atomic_store_explicit(&on->pools, POOLS_UNKNOWN, memory_order_relaxed);
    return status;
}

/* To make a device current that was never used would give it a context. */
static bool is_used(int device)
{
    bool used = atomic_load_explicit(&devices[device].pools, memory_order_relaxed) != POOLS_UNKNOWN;
    for (int lane = 0; lane < SM_LANES; lane++)
        used = used || atomic_load_explicit(&devices[device].lane[lane], memory_order_relaxed);
    return used;
}

static synced_mem_status destroy_all(int device)
{
    int before;
    if (!is_used(device))
        return SYNCED_MEM_OK;
    const synced_mem_status entered = enter(device, &before);
    if (entered != SYNCED_MEM_OK)
        return entered;
    const synced_mem_status lanes = destroy_lanes(device);
    const synced_mem_status pool = remains(lanes) ? lanes : destroy_pool(device);
    return leave(device, before, lanes != SYNCED_MEM_OK ? lanes : pool);
}

synced_mem_status sm_device_shutdown(void)
{
    synced_mem_status first = SYNCED_MEM_OK;
    pthread_mutex_lock(&making);
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        const synced_mem_status status = destroy_all(device);
        first = remains(first) ? first : status;
    }
    pthread_mutex_unlock(&making);
    atomic_store_explicit(&known_count, 0, memory_order_relaxed);
    atomic_store_explicit(&in_use, false, memory_order_relaxed);
    return first;
}
