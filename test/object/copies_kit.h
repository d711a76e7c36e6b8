/* The functions that the suites of copies between objects share. */
#ifndef COPIES_KIT_H
#define COPIES_KIT_H

#include "fixture.h"

/* Creates an object with contents in page-locked host memory. */
static inline synced_mem *make_pinned(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_on(size, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), size, pattern);
    return mem;
}

/* Creates an object that is AT_GPU and has host memory. */
static inline synced_mem *make_on_device(size_t size, unsigned pattern, synced_mem_stream stream)
{
    synced_mem *const mem = make_on(size, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), size, 77);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), size, pattern, stream);
    return mem;
}

/* Creates an object that is AT_GPU on the second device. */
static inline synced_mem *make_there(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_on(size, 1);
    gpu_make_current(1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, NULL), size, pattern, NULL);
    gpu_make_current(0);
    return mem;
}

static inline void release_both(synced_mem *a, synced_mem *b)
{
    RELEASE_EACH(a, b);
}

enum { OF_FROM = 1, OF_TO = 9 };

/* Checks the transfers of a copy: to the device (up), to the host (down), or neither. */
static inline void check_moved(const synced_mem_stats *before, unsigned up, unsigned down, size_t size)
{
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_transfers - before->h2d_transfers, up);
    ck_assert_uint_eq(after.h2d_bytes - before->h2d_bytes, up * size);
    ck_assert_uint_eq(after.d2h_transfers - before->d2h_transfers, down);
    ck_assert_uint_eq(after.d2h_bytes - before->d2h_bytes, down * size);
}

#endif
