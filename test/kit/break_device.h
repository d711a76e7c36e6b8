/* Breaks a device of the emulated runtime. */
#ifndef BREAK_DEVICE_H
#define BREAK_DEVICE_H

#include "gpu.h"

#include "cudart_emu.h"

#include <check.h>

/* Breaks the first device. From now on each call on it fails with the error of a kernel. */
static inline void break_device(void)
{
    emu_break_device(0, cudaErrorIllegalAddress);
    char *const victim = gpu_pinned_alloc(64);
    (void)cudaMemsetAsync(victim, 0, 64, NULL);
    ck_assert_int_ne(cudaStreamSynchronize(NULL), cudaSuccess);
    (void)cudaGetLastError();
}

#endif
