/*
 * The first use of a pool, beside the program. The runtime's first allocation from any pool of a process takes 6 to 12
 * ms, where cudaMalloc() takes 0.1 and is not held up by it. So a thread makes it, and until then device memory comes
 * from cudaMalloc().
 */
#ifndef SM_DEVICE_CUDA_WARM_H
#define SM_DEVICE_CUDA_WARM_H

#include "device/cuda/runtime.h"

/* Starts a thread that allocates memory from the device's pool and frees it, and then calls warmed(), whether that
 * succeeded or not. Returns false, and does nothing, if the system refuses a thread or tests have forbidden it. */
bool sm_cuda_warm_begin(int device, cudaMemPool_t pool, void (*warmed)(int device));

/* Waits until no such thread is at work. */
void sm_cuda_warm_await(void);

#endif
