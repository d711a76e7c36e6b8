/* The way of the copies of one call. */
#include "copy/kernel_way.h"

#include "device/device.h"

#include <stdatomic.h>

/* Fewer copies are not worth the wait for multiprocessors that a kernel may have. */
enum { LEAST = 16 };

/*
 * The times of the copies, as measured on an H100 and an H200 (CUDA 13.0, PCIe 5.0 x16) from 2026-11-23 to 26 with
 * page-locked memory. An engine takes each nanoseconds for a copy, and moves engine bytes in a microsecond. The kernel
 * takes LAUNCH nanoseconds more than the first copy by engine, then EACH for a copy, and moves kernel bytes in a
 * microsecond, and at most warp bytes of one copy.
 */
static const struct costs {
    unsigned each;
    unsigned engine;
    unsigned kernel;
    unsigned warp;
} costs[] = {[SM_H2D] = {1300, 55000, 50000, 1300},
             [SM_D2H] = {500, 55000, 51000, 2500},
             [SM_D2D] = {1400, 1200000, 400000, 2500}};
enum { LAUNCH = 5000, EACH = 20 };

/* Nanoseconds. An idle device ends a probe in about 5,000. */
enum { PATIENCE_PART = 4, LEAST_PATIENCE = 20000 };

/* An eighth of the multiprocessors fills the link with copies of FULL bytes. Smaller ones leave each warp with less in
 * flight, so they take more blocks, up to half of the multiprocessors. */
enum { PART = 8, MOST_TIMES = 4, FULL = 2048, WARPS = 16 };

static atomic_int setting = SM_BLOCKS_BY_DEVICE;
static atomic_size_t least_set;

size_t sm_kernel_way_least(void)
{
    const size_t set = atomic_load_explicit(&least_set, memory_order_relaxed);
    return set > 0 ? set : LEAST;
}

bool sm_kernel_way_is_open(int device, size_t copies)
{
    return copies >= sm_kernel_way_least() && sm_kernel_way_get() != 0 && sm_device_list_processors(device) > 0;
}

static uint64_t get_time_by_engine(const struct costs *cost, size_t copies, uint64_t bytes)
{
    return copies * cost->each + bytes * 1000 / cost->engine;
}

static uint64_t get_time_by_kernel(const struct costs *cost, size_t copies, uint64_t bytes, size_t longest)
{
    const uint64_t by_all = copies * EACH + bytes * 1000 / cost->kernel;
    const uint64_t by_one = (uint64_t)longest * 1000 / cost->warp;
    return LAUNCH + (by_all > by_one ? by_all : by_one);
}

static unsigned choose_blocks(unsigned processors, size_t copies, uint64_t bytes)
{
    const uint64_t times = FULL * copies / (bytes + 1);
    const uint64_t base = processors / PART + (processors < PART);
    return (unsigned)(base * (times < 1 ? 1 : times > MOST_TIMES ? MOST_TIMES : times));
}

unsigned sm_kernel_way_useful_blocks(size_t copies)
{
    return (unsigned)((copies + WARPS - 1) / WARPS);
}

unsigned sm_kernel_way_blocks(int device, enum sm_direction direction, size_t copies, uint64_t bytes, size_t longest)
{
    const struct costs *const cost = &costs[direction];
    const int most = sm_kernel_way_get(); /* or SM_BLOCKS_BY_DEVICE */
    const bool forced = atomic_load_explicit(&least_set, memory_order_relaxed) > 0;
    const bool is_faster = get_time_by_kernel(cost, copies, bytes, longest) < get_time_by_engine(cost, copies, bytes);
    if (copies < sm_kernel_way_least() || most == 0 || (!forced && !is_faster))
        return 0;
    const unsigned blocks = most > 0 ? (unsigned)most : choose_blocks(sm_device_list_processors(device), copies, bytes);
    const unsigned useful = sm_kernel_way_useful_blocks(copies);
    return blocks < useful ? blocks : useful;
}

uint64_t sm_kernel_way_patience(enum sm_direction direction, size_t copies, uint64_t bytes)
{
    const uint64_t time = get_time_by_engine(&costs[direction], copies, bytes) / PATIENCE_PART;
    return time < LEAST_PATIENCE ? LEAST_PATIENCE : time > SM_KERNEL_MOST_PATIENCE ? SM_KERNEL_MOST_PATIENCE : time;
}

void sm_kernel_way_set(int blocks)
{
    atomic_store_explicit(&setting, blocks, memory_order_relaxed);
}

int sm_kernel_way_get(void)
{
    return atomic_load_explicit(&setting, memory_order_relaxed);
}

void sm_kernel_way_set_least(size_t copies)
{
    atomic_store_explicit(&least_set, copies, memory_order_relaxed);
}
