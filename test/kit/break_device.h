/* Breaks a device of the emulated runtime. */
#ifndef BREAK_DEVICE_H
#define BREAK_DEVICE_H

#include "fixture.h"
#include "gpu.h"

#include "cudart_emu.h"

#include "check_kit.h"

/* Breaks the first device. From now on each call on it fails with the error of a kernel. */
static inline void break_device(void)
{
    emu_break_device(0, cudaErrorIllegalAddress);
    char *const victim = gpu_pinned_alloc(64);
    (void)cudaMemsetAsync(victim, 0, 64, NULL);
    ck_assert_int_ne(cudaStreamSynchronize(NULL), cudaSuccess);
    (void)cudaGetLastError();
}

/* Shuts the library down. Device memory went with the device, but the host's own memory must be given back. */
static inline void end_without_device(void)
{
    (void)synced_mem_shutdown();
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.objects, 0);
    ck_assert_uint_eq(stats.pageable_bytes, 0);
    ck_assert_uint_eq(stats.pinned_bytes, 0);
    ck_assert_uint_eq(stats.gpu_bytes, 0);
    ck_assert_uint_eq(stats.retired, 0);
    ck_assert_int_le(gpu_find_current_device(), 0);
    emu_reset(0);
}

#endif
