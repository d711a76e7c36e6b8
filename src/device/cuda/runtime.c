/* The seam on the CUDA runtime: devices, streams and events. */
#include "device/cuda/runtime.h"

#include "base/process.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdio.h>

/* Only newer headers name them. */
enum { ERROR_CONTAINED = 226, ERROR_TENSOR_MEMORY_LEAK = 721 };

static atomic_uint losses;

/* ---- Errors and the current device ---- */

static synced_mem_status map_error_code(cudaError_t code, synced_mem_status out_of_memory)
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
    case ERROR_CONTAINED:
    case ERROR_TENSOR_MEMORY_LEAK:
        return SYNCED_MEM_ERR_DEVICE_LOST;
    default:
        return SYNCED_MEM_ERR_CUDA;
    }
}

/* Returns what the runtime's own words leave out. They are the same without a driver and with one that is too old. */
static const char *explain(cudaError_t code, synced_mem_status status)
{
    if (code == cudaErrorInsufficientDriver)
        return " (the driver is missing, or older than the CUDA runtime)";
    return status == SYNCED_MEM_ERR_DEVICE_LOST ? " (an error of earlier work on the device)" : "";
}

synced_mem_status sm_cuda_fail(synced_mem_status out_of_memory, cudaError_t code, const char *call, int device,
                               size_t size)
{
    (void)cudaGetLastError();
    const synced_mem_status status = map_error_code(code, out_of_memory);
    if (status == SYNCED_MEM_ERR_DEVICE_LOST)
        atomic_fetch_add(&losses, 1);
    const char *const absent = status == SYNCED_MEM_ERR_NO_GPU ? "no GPU: " : "";
    char of[32] = "";
    if (size > 0)
        (void)snprintf(of, sizeof of, " of %zu bytes", size);
    return sm_fail(status, "%s%s%s on device %d: %s, %s%s", absent, call, of, device, cudaGetErrorName(code),
                   cudaGetErrorString(code), explain(code, status));
}

static __attribute__((noinline, cold)) synced_mem_status fail_forked(void)
{
    return sm_fail(SYNCED_MEM_ERR_FORKED, "a forked child can't use the CUDA runtime, as its parent has used it");
}

/* A single device is always the current one. */
static synced_mem_status query_current_device(int count, int *device)
{
    *device = 0;
    return count == 1 ? SYNCED_MEM_OK : check_code(cudaGetDevice(device), "cudaGetDevice", 0, 0);
}

/* Tries twice, since a failure changes the caller's thread. */
static void restore_capture_mode(const struct before *before)
{
    enum cudaStreamCaptureMode mode = before->mode;
    if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) {
        (void)cudaGetLastError();
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
    }
}

/* Relaxes the capture mode first: making a device current may create its context. */
synced_mem_status sm_cuda_begin_calls(int device, bool relaxed, struct before *before)
{
    *before = (struct before){.device = device};
    if (sm_process_lost_gpu())
        return fail_forked();
    SM_TRY(query_current_device(atomic_load_explicit(&sm_process.devices, memory_order_relaxed), &before->device));
    const bool elsewhere = before->device != device;
    if (relaxed || elsewhere) {
        before->mode = cudaStreamCaptureModeRelaxed;
        SM_TRY(check_code(cudaThreadExchangeStreamCaptureMode(&before->mode), "cudaThreadExchangeStreamCaptureMode",
                          device, 0));
        before->relaxed = true;
    }
    const synced_mem_status status =
        elsewhere ? check_code(cudaSetDevice(device), "cudaSetDevice", device, 0) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        restore_capture_mode(before);
    return status;
}

/* Tries twice to restore the device, as restore_capture_mode() does. */
void sm_cuda_end_calls(int device, const struct before *before)
{
    if (before->device != device && cudaSetDevice(before->device) != cudaSuccess) {
        (void)cudaGetLastError();
        (void)cudaSetDevice(before->device);
    }
    if (before->relaxed)
        restore_capture_mode(before);
}

/* ---- The machine ---- */

static synced_mem_status count_devices(int *count)
{
    *count = atomic_load_explicit(&sm_process.devices, memory_order_relaxed);
    if (*count > 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status = check_code(cudaGetDeviceCount(count), "cudaGetDeviceCount", 0, 0);
    if (status != SYNCED_MEM_OK) {
        *count = 0;
        return status;
    }
    sm_process_uses_gpu();
    *count = *count < SM_MAX_DEVICES ? *count : SM_MAX_DEVICES;
    atomic_store_explicit(&sm_process.devices, *count, memory_order_relaxed);
    return *count > 0 ? SYNCED_MEM_OK : sm_fail(SYNCED_MEM_ERR_NO_GPU, "no GPU: the CUDA runtime finds no device");
}

int sm_device_count(void)
{
    int count = 0;
    if (!sm_process_lost_gpu())
        (void)count_devices(&count);
    return count;
}

bool sm_device_in_use(void)
{
    return atomic_load_explicit(&sm_process.uses_device, memory_order_relaxed) && !sm_process_lost_gpu();
}

unsigned sm_device_losses(void)
{
    return atomic_load(&losses);
}

synced_mem_status sm_cuda_resolve(int wanted, int *device)
{
    int count;
    int found = wanted;
    if (sm_process_lost_gpu())
        return fail_forked();
    synced_mem_status status = count_devices(&count);
    if (status == SYNCED_MEM_OK && wanted == SYNCED_MEM_DEVICE_CURRENT)
        status = query_current_device(count, &found);
    if (status != SYNCED_MEM_OK)
        return status;
    if (found >= count)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "device %d does not exist: the CUDA runtime finds %d", found,
                       count);
    *device = found;
    return SYNCED_MEM_OK;
}

/* Stores only a change: all threads read the flag, often. */
static void note_use(void)
{
    if (!atomic_load_explicit(&sm_process.uses_device, memory_order_relaxed))
        atomic_store_explicit(&sm_process.uses_device, true, memory_order_relaxed);
}

synced_mem_status sm_device_resolve(int wanted, int *device)
{
    /* Most calls ask for a device after the first use of one. */
    const bool is_known = wanted >= 0 && wanted < atomic_load_explicit(&sm_process.devices, memory_order_relaxed);
    if (is_known && sm_device_in_use()) {
        *device = wanted;
        return SYNCED_MEM_OK;
    }
    const synced_mem_status status = sm_cuda_resolve(wanted, device);
    if (status == SYNCED_MEM_OK)
        note_use();
    return status;
}

/* Ignores a failure: the thread's next calls report it. Nothing else changes the device of the library's threads for
 * good. If it is another one after all, each call switches to it. */
void sm_device_stay(int device)
{
    static _Thread_local int current = -1;
    if (device == current)
        return;
    current = cudaSetDevice(device) == cudaSuccess ? device : -1;
    if (current != device)
        (void)cudaGetLastError();
}

static enum sm_pointer_kind map_memory_type(enum cudaMemoryType type)
{
    switch (type) {
    case cudaMemoryTypeHost:
        return SM_POINTER_PINNED;
    case cudaMemoryTypeDevice:
        return SM_POINTER_DEVICE;
    case cudaMemoryTypeManaged:
        return SM_POINTER_MANAGED;
    case cudaMemoryTypeUnregistered:
        break;
    }
    return SM_POINTER_HOST;
}

static synced_mem_status query_pointer_here(int device, const void *data, struct sm_pointer_facts *facts)
{
    struct cudaPointerAttributes attributes;
    int concurrent = 0;
    synced_mem_status status =
        check_code(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes", device, 0);
    if (status == SYNCED_MEM_OK && attributes.type == cudaMemoryTypeManaged)
        status = check_code(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, attributes.device),
                            "cudaDeviceGetAttribute", attributes.device, 0);
    if (status == SYNCED_MEM_OK)
        *facts = (struct sm_pointer_facts){
            .kind = map_memory_type(attributes.type), .device = attributes.device, .concurrent = concurrent != 0};
    return status;
}

synced_mem_status sm_device_query_pointer(int device, const void *data, struct sm_pointer_facts *facts)
{
    int count;
    struct before before;
    if (sm_process_lost_gpu())
        return fail_forked();
    synced_mem_status status = count_devices(&count);
    if (status == SYNCED_MEM_OK && device < 0)
        status = query_current_device(count, &device);
    if (status == SYNCED_MEM_OK)
        status = enter_device(device, &before);
    return status != SYNCED_MEM_OK ? status : leave_device(device, &before, query_pointer_here(device, data, facts));
}

synced_mem_status sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES])
{
    if (sm_process_lost_gpu())
        return fail_forked();
    return check_code(cudaDeviceGetPCIBusId(id, SM_PCI_ID_BYTES, device), "cudaDeviceGetPCIBusId", device, 0);
}

/* ---- Streams ---- */

synced_mem_status sm_device_stream_create(int device, synced_mem_stream *out)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(
        device, &before,
        check_code(cudaStreamCreateWithFlags(out, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device, 0));
}

synced_mem_status sm_device_stream_destroy(int device, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaStreamDestroy(stream), "cudaStreamDestroy", device, 0));
}

/* Queries the id only of a created stream, as no other stream's handle is used again. A query would end a capture, and
 * has ended one that another thread has begun meanwhile. For the legacy stream, while a blocking stream captures, the
 * runtime returns cudaErrorStreamCaptureImplicit. */
static inline synced_mem_status query_capture_here(int device, synced_mem_stream stream, bool is_created,
                                                   struct sm_stream_facts *facts)
{
    enum cudaStreamCaptureStatus capture;
    const cudaError_t code = cudaStreamIsCapturing(stream, &capture);
    *facts = (struct sm_stream_facts){.capturing = code == cudaErrorStreamCaptureImplicit};
    synced_mem_status status = check_code(code, "cudaStreamIsCapturing", device, 0);
    if (facts->capturing)
        return SYNCED_MEM_OK;
    facts->capturing = status == SYNCED_MEM_OK && capture != cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 12000
    unsigned long long id = 0;
    if (status == SYNCED_MEM_OK && !facts->capturing && is_created) {
        const cudaError_t got = cudaStreamGetId(stream, &id);
        status = check_code(got, "cudaStreamGetId", device, 0);
        facts->capturing = got == cudaErrorStreamCaptureUnsupported;
        facts->id = id;
    }
#else
    (void)is_created;
#endif
    return facts->capturing ? SYNCED_MEM_OK : status;
}

static __attribute__((noinline)) synced_mem_status query_uncreated(int device, synced_mem_stream stream,
                                                                   struct sm_stream_facts *facts)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(device, &before, query_capture_here(device, stream, false, facts));
}

/* Streams can be queried in any capture mode, and created ones with any device current. */
synced_mem_status sm_device_stream_query_capture(int device, synced_mem_stream stream, struct sm_stream_facts *facts)
{
    if (!stream || stream == SM_HANDLE_LEGACY || stream == SM_HANDLE_PER_THREAD)
        return query_uncreated(device, stream, facts);
    return sm_process_lost_gpu() ? fail_forked() : query_capture_here(device, stream, true, facts);
}

/* Tries to record an event on the stream, for runtimes that can't report its device. An event can only be recorded on a
 * stream of its own device. */
static bool can_record_event_of(synced_mem_stream stream, int device)
{
    struct before before;
    cudaEvent_t event;
    if (enter_device(device, &before) != SYNCED_MEM_OK)
        return false;
    synced_mem_status status =
        check_code(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", device, 0);
    if (status == SYNCED_MEM_OK) {
        status = check_code(cudaEventRecord(event, stream), "cudaEventRecord", device, 0);
        (void)check_code(cudaEventDestroy(event), "cudaEventDestroy", device, 0);
    }
    return leave_device(device, &before, status) == SYNCED_MEM_OK;
}

/* cudaStreamGetDevice() is new in CUDA 12.8 and needs a driver as new. */
synced_mem_status sm_device_of_stream(synced_mem_stream stream, int likely, int *device)
{
#if CUDART_VERSION >= 12080
    const cudaError_t code = cudaStreamGetDevice(stream, device);
    if (code != cudaErrorCallRequiresNewerDriver && code != cudaErrorNotSupported)
        return check_code(code, "cudaStreamGetDevice", likely, 0);
    (void)cudaGetLastError();
#endif
    const int count = sm_device_count();
    for (int i = 0; i < count; i++) {
        const int next = (likely + i) % count;
        if (can_record_event_of(stream, next)) {
            *device = next;
            return SYNCED_MEM_OK;
        }
    }
    return sm_fail(SYNCED_MEM_ERR_CUDA, "no device accepts %p as a stream of its own", (void *)stream);
}

synced_mem_status sm_device_stream_sync(int device, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0));
}

synced_mem_status sm_device_stream_wait(int device, synced_mem_stream stream, sm_event event)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(device, &before,
                        check_code(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent", device, 0));
}

synced_mem_status sm_device_stream_query(int device, synced_mem_stream stream, bool *done)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    const cudaError_t code = cudaStreamQuery(stream);
    *done = code == cudaSuccess;
    return leave_device(device, &before,
                        code == cudaErrorNotReady ? SYNCED_MEM_OK : check_code(code, "cudaStreamQuery", device, 0));
}

/* ---- Events ---- */

synced_mem_status sm_device_event_create(int device, sm_event *out)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(
        device, &before,
        check_code(cudaEventCreateWithFlags(out, cudaEventDisableTiming), "cudaEventCreateWithFlags", device, 0));
}

/* The next three functions work with any device current, but return the current device's error if that is lost. So they
 * make the event's device current. */

synced_mem_status sm_device_event_destroy(int device, sm_event event)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaEventDestroy(event), "cudaEventDestroy", device, 0));
}

synced_mem_status sm_device_event_sync(int device, sm_event event)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaEventSynchronize(event), "cudaEventSynchronize", device, 0));
}

synced_mem_status sm_device_event_query(int device, sm_event event, bool *done)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    const cudaError_t code = cudaEventQuery(event);
    *done = code == cudaSuccess;
    return leave_device(device, &before,
                        code == cudaErrorNotReady ? SYNCED_MEM_OK : check_code(code, "cudaEventQuery", device, 0));
}

static __attribute__((noinline)) synced_mem_status record_elsewhere(int device, sm_event event,
                                                                    synced_mem_stream stream)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(device, &before, check_code(cudaEventRecord(event, stream), "cudaEventRecord", device, 0));
}

synced_mem_status sm_device_event_record(int device, sm_event event, synced_mem_stream stream)
{
    if (!is_current(device))
        return record_elsewhere(device, event, stream);
    return check_code(cudaEventRecord(event, stream), "cudaEventRecord", device, 0);
}

/* ---- For traces ---- */

synced_mem_status sm_device_timing_create(int device, sm_event *out)
{
    struct before before;
    SM_TRY(enter_device(device, &before));
    return leave_device(device, &before, check_code(cudaEventCreate(out), "cudaEventCreate", device, 0));
}

/* The runtime reports milliseconds, and may report a slightly negative time. That becomes 0. */
synced_mem_status sm_device_elapsed(int device, sm_event from, sm_event to, uint64_t *nanoseconds)
{
    struct before before;
    float milliseconds = 0;
    synced_mem_status status = enter_device(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    status = leave_device(device, &before,
                          check_code(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime", device, 0));
    if (status == SYNCED_MEM_OK)
        *nanoseconds = milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
    return status;
}

/* ---- For the emulated runtime, which alone has the function ---- */

void emu_set_namer(bool (*name)(const void *address, char *name, size_t room)) __attribute__((weak));

void sm_device_set_namer(bool (*name)(const void *address, char *name, size_t room))
{
    if (emu_set_namer)
        emu_set_namer(name);
}

/* ---- Shutdown ---- */

void sm_cuda_forget_use(void)
{
    atomic_store_explicit(&sm_process.devices, 0, memory_order_relaxed);
    atomic_store_explicit(&sm_process.uses_device, false, memory_order_relaxed);
}
