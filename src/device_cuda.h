/*
 * What the files of the seam on the CUDA runtime, device_cuda*.c, share. They are the only ones that include a header of
 * CUDA's; what differs between its versions is there.
 *
 * Every call that can fail goes through check(), which clears the runtime's last error and maps the code. Around each
 * call the device is made current, and the thread's capture mode relaxed, so that no capture of another thread's is
 * disturbed; enter() and leave() do both and put both back.
 */
#ifndef SM_DEVICE_CUDA_H
#define SM_DEVICE_CUDA_H

#include "device.h"

#include <cuda_runtime_api.h>

/* The one way from the runtime's answer to a status of ours. A size of 0 is left out of the detail. */
synced_mem_status sm_cuda_check(synced_mem_status out_of_memory, cudaError_t code, const char *call, int device,
                                size_t size);

/* What a call of the runtime's changes for its thread and has to put back. */
struct before {
    int device;
    enum cudaStreamCaptureMode mode;
};

/* Makes the device current and the capture mode relaxed. */
synced_mem_status sm_cuda_enter(int device, struct before *before);
/* Puts both back and returns the status given. */
synced_mem_status sm_cuda_leave(int device, const struct before *before, synced_mem_status status);

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

static inline synced_mem_status enter(int device, struct before *before)
{
    return sm_cuda_enter(device, before);
}

static inline synced_mem_status leave(int device, const struct before *before, synced_mem_status status)
{
    return sm_cuda_leave(device, before, status);
}

#endif
