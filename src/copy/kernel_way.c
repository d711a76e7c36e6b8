/* The way of the copies of one call. */
#include "copy/kernel_way.h"

#include "device/device.h"

#include <stdatomic.h>

/* Fewer copies are not worth the wait for multiprocessors that a kernel may have. */
enum { LEAST = 16 };

/*
 * What the copies take, as measured on an H100 and an H200 (CUDA 13.0, PCIe 5.0 x16) from 2026-11-23 to 26 with
 * page-locked memory. An engine takes each nanoseconds for a copy, and moves engine bytes in a microsecond. The kernel
 * takes LAUNCH nanoseconds more than the first copy by engine, then EACH for a copy, and moves kernel bytes in a
 * microsecond.
 */
static const struct costs {
    unsigned each;
    unsigned engine;
    unsigned kernel;
} costs[] = {[SM_H2D] = {1300, 55000, 50000}, [SM_D2H] = {500, 55000, 51000}, [SM_D2D] = {1400, 1200000, 400000}};
enum { LAUNCH = 5000, EACH = 20 };

/* An eighth of the multiprocessors fills the link with copies of FULL bytes. Smaller ones leave each warp with less in
 * flight, so they take more blocks, up to half of the multiprocessors. */
enum { PART = 8, MOST_TIMES = 4, FULL = 2048, WARPS = 16 };

static atomic_int setting = SM_BLOCKS_BY_DEVICE;
static atomic_size_t least_set;
static atomic_bool closed[SM_MAX_DEVICES];

static size_t get_least(void)
{
    const size_t set = atomic_load_explicit(&least_set, memory_order_relaxed);
    return set > 0 ? set : LEAST;
}

bool sm_kernel_way_is_open(int device, size_t copies)
{
    return copies >= get_least() && sm_kernel_way_get() != 0 &&
           !atomic_load_explicit(&closed[device], memory_order_relaxed) && sm_device_list_processors(device) > 0;
}

static bool is_faster(const struct costs *cost, size_t copies, uint64_t bytes)
{
    const uint64_t by_engine = copies * cost->each + bytes * 1000 / cost->engine;
    const uint64_t by_kernel = LAUNCH + copies * EACH + bytes * 1000 / cost->kernel;
    return by_kernel < by_engine;
}

static unsigned choose_blocks(unsigned processors, size_t copies, uint64_t bytes)
{
    const uint64_t times = FULL * copies / (bytes + 1);
    const uint64_t base = processors / PART + (processors < PART);
    return (unsigned)(base * (times < 1 ? 1 : times > MOST_TIMES ? MOST_TIMES : times));
}

unsigned sm_kernel_way_blocks(int device, enum sm_direction direction, size_t copies, uint64_t bytes)
{
    const int most = sm_kernel_way_get(); /* or SM_BLOCKS_BY_DEVICE */
    const bool forced = atomic_load_explicit(&least_set, memory_order_relaxed) > 0;
    if (copies < get_least() || most == 0 || (!forced && !is_faster(&costs[direction], copies, bytes)))
        return 0;
    const unsigned blocks = most > 0 ? (unsigned)most : choose_blocks(sm_device_list_processors(device), copies, bytes);
    const size_t useful = (copies + WARPS - 1) / WARPS;
    return blocks < useful ? blocks : (unsigned)useful;
}

void sm_kernel_way_close(int device)
{
    atomic_store_explicit(&closed[device], true, memory_order_relaxed);
}

void sm_kernel_way_set(int blocks)
{
    atomic_store_explicit(&setting, blocks, memory_order_relaxed);
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        atomic_store_explicit(&closed[device], false, memory_order_relaxed);
}

int sm_kernel_way_get(void)
{
    return atomic_load_explicit(&setting, memory_order_relaxed);
}

void sm_kernel_way_set_least(size_t copies)
{
    atomic_store_explicit(&least_set, copies, memory_order_relaxed);
}
