/*
 * What the files of the seam on the CUDA runtime, device_cuda*.c, share. They are the only ones that include a header
 * of CUDA's; what differs between its versions is there.
 *
 * Every call that can fail goes through check(), which clears the runtime's last error and maps the code. Around each
 * call the device is made current, and the thread's capture mode relaxed, so that no capture of another thread's is
 * disturbed; enter() and leave() do both and put both back. Work on a stream that does not capture disturbs none in any
 * mode: for that go_to() and leave() do nothing if the device is current, as it is what a push does before its copy.
 */
#ifndef SM_DEVICE_CUDA_H
#define SM_DEVICE_CUDA_H

#include "device/device.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* The one way from the runtime's answer to a status of ours. A size of 0 is left out of the detail. */
synced_mem_status sm_cuda_check(synced_mem_status out_of_memory, cudaError_t code, const char *call, int device,
                                size_t size);

/* Host memory is registered in pieces of at most so many bytes, because the driver refuses 512 GiB as one. Pieces end
 * at multiples of it, so that the address tells where: the runtime refuses a copy or a fill that touches two of them.
 * */
#define SM_CUDA_PIECE ((size_t)64 << 30)

/* The number of bytes, size at most, up to the end of the piece that the address is in. */
static inline size_t sm_cuda_in_piece(const void *data, size_t size)
{
    const size_t left = SM_CUDA_PIECE - (uintptr_t)data % SM_CUDA_PIECE;
    return size < left ? size : left;
}

/* What a call of the runtime's changes for its thread and has to put back. */
struct before {
    int device;
    enum cudaStreamCaptureMode mode;
    bool relaxed; /* the mode was changed */
};

/* Makes the device current, and the mode relaxed where another was; and the mode relaxed in any case. */
synced_mem_status sm_cuda_go_to(int device, struct before *before);
synced_mem_status sm_cuda_enter(int device, struct before *before);
/* Puts back what was changed and returns the status given. */
synced_mem_status sm_cuda_leave(int device, const struct before *before, synced_mem_status status);

/* sm_device_resolve(), but sm_device_in_use() is as before. */
synced_mem_status sm_cuda_resolve(int wanted, int *device);

/* The device's pool, with the device current. NULL: it has none, or none yet and make is not set. */
synced_mem_status sm_cuda_pool(int device, bool make, cudaMemPool_t *pool);

/* What fails stays, for a later try; what was on a lost device went with it. */
static inline bool sm_cuda_remains(synced_mem_status status)
{
    return status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
}

/* Destroys the pools, and takes back what was allowed to peers. */
synced_mem_status sm_cuda_destroy_pools(void);
/* As before the first use of a device. */
void sm_cuda_forget_use(void);

/* Each call of the runtime is between these: hence the short names. */

static inline synced_mem_status check_with(synced_mem_status out_of_memory, cudaError_t code, const char *call,
                                           int device, size_t size)
{
    return sm_cuda_check(out_of_memory, code, call, device, size);
}

static inline synced_mem_status check(cudaError_t code, const char *call, int device, size_t size)
{
    return sm_cuda_check(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, code, call, device, size);
}

static inline synced_mem_status go_to(int device, struct before *before)
{
    return sm_cuda_go_to(device, before);
}

static inline synced_mem_status enter(int device, struct before *before)
{
    return sm_cuda_enter(device, before);
}

static inline synced_mem_status leave(int device, const struct before *before, synced_mem_status status)
{
    return sm_cuda_leave(device, before, status);
}

#endif
