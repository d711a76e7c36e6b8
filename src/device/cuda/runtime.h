/*
 * Shared by the files of device/cuda/, the seam on the CUDA runtime. Only they include CUDA headers, and the
 * differences between CUDA versions are handled in them.
 *
 * A runtime call whose failure matters goes through check_code(), which clears the runtime's last error and maps the
 * code.
 *
 * Around each call, enter_device() makes the device current and relaxes the thread's capture mode, so that no thread's
 * capture is disturbed. leave_device() restores both. Work on a stream that does not capture disturbs no capture in any
 * mode. For such work make_current() replaces enter_device(): it changes nothing if the device is already current, as
 * it mostly is on the path of a transfer.
 */
#ifndef SM_DEVICE_CUDA_H
#define SM_DEVICE_CUDA_H

#include "base/process.h"
#include "device/device.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

/* Maps the runtime's code of a failure to a status, and records it. A size of 0 is left out of the detail. */
__attribute__((cold)) synced_mem_status sm_cuda_fail(synced_mem_status out_of_memory, cudaError_t code,
                                                     const char *call, int device, size_t size);

/* Host memory is registered in extents of at most this size, because the driver refuses 512 GiB at once. Extents end at
 * multiples of it, so that an address alone tells its extent. The runtime refuses a copy or a fill that spans two
 * extents. */
#define SM_CUDA_EXTENT ((size_t)64 << 30)

/* Returns the bytes from data to the end of its extent, at most size. */
static inline size_t sm_cuda_in_extent(const void *data, size_t size)
{
    const size_t left = SM_CUDA_EXTENT - (uintptr_t)data % SM_CUDA_EXTENT;
    return size < left ? size : left;
}

/* State of the calling thread that a runtime call changes and restores. */
struct before {
    int device;
    enum cudaStreamCaptureMode mode;
    bool relaxed; /* the capture mode was changed */
};

/* Returns whether the device is the only one, which is always the current one. */
static inline bool sm_cuda_is_only(int device)
{
    return device == 0 && atomic_load_explicit(&sm_process.devices, memory_order_relaxed) == 1;
}

/* Makes the device current. If relaxed, or if another one was current, relaxes the capture mode too. */
synced_mem_status sm_cuda_begin_calls(int device, bool relaxed, struct before *before);
/* Restores the state in *before. */
void sm_cuda_end_calls(int device, const struct before *before);

/* As sm_device_resolve(), but sm_device_in_use() does not change. */
synced_mem_status sm_cuda_resolve(int wanted, int *device);

/* Sets *pool to the device's pool. The device is current. make: create a missing pool. NULL: the device has no pools,
 * or none was created yet. */
synced_mem_status sm_cuda_pool(int device, bool make, cudaMemPool_t *pool);

/* Returns whether the device has a pool, but some of its memory may be from cudaMalloc(). */
bool sm_cuda_has_plain_memory(int device);

/* Returns whether a thing still exists after its destruction returned status. After a failure it does, and can be
 * destroyed later. On a lost device it is gone. */
static inline bool sm_cuda_remains(synced_mem_status status)
{
    return status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
}

/* Waits until no code is being loaded, and unloads the kernel of lists. No kernel may be queued. */
synced_mem_status sm_cuda_unload_lists(void);
/* Destroys the pools of all devices, and with them the peers' access to their memory. */
synced_mem_status sm_cuda_destroy_pools(void);
/* Returns to the state before the first use of a device. */
void sm_cuda_forget_use(void);

/* The short names below surround every runtime call. */

static inline synced_mem_status check_code_with(synced_mem_status out_of_memory, cudaError_t code, const char *call,
                                                int device, size_t size)
{
    return code == cudaSuccess ? SYNCED_MEM_OK : sm_cuda_fail(out_of_memory, code, call, device, size);
}

static inline synced_mem_status check_code(cudaError_t code, const char *call, int device, size_t size)
{
    return code == cudaSuccess ? SYNCED_MEM_OK
                               : sm_cuda_fail(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, code, call, device, size);
}

/* Returns whether make_current() has nothing to do. */
static inline bool is_current(int device)
{
    return sm_cuda_is_only(device) && !sm_process_lost_gpu();
}

static inline synced_mem_status make_current(int device, struct before *before)
{
    if (!is_current(device))
        return sm_cuda_begin_calls(device, false, before);
    before->device = device;
    before->relaxed = false;
    return SYNCED_MEM_OK;
}

static inline synced_mem_status enter_device(int device, struct before *before)
{
    return sm_cuda_begin_calls(device, true, before);
}

/* Returns the given status. */
static inline synced_mem_status leave_device(int device, const struct before *before, synced_mem_status status)
{
    if (before->device != device || before->relaxed)
        sm_cuda_end_calls(device, before);
    return status;
}

#endif
