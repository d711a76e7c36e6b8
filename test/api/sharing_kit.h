/* Shareable objects, for suites with one process and with several. */
#ifndef SHARING_KIT_H
#define SHARING_KIT_H

#include "fixture.h"
#include "leftovers.h"
#include "peer.h"

enum { BYTES = 10000, LONG_MS = 100000 };

#define CPU SYNCED_MEM_SIDE_CPU
#define GPU SYNCED_MEM_SIDE_GPU
#define READ SYNCED_MEM_TURN_READ
#define WRITE SYNCED_MEM_TURN_WRITE

#define HEAD_IS(mem, head) ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_##head)

static inline synced_mem *make_shareable_of(size_t size, int device, unsigned policy)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.device = device;
    options.shareable = policy;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

/* On a GPU runtime it has device memory. */
static inline synced_mem *make_shareable(size_t size)
{
    return make_shareable_of(size, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_SAME_USER);
}

/* Returns another object of this process with the same memory. The first one must have a turn. */
static inline synced_mem *share_with_myself(synced_mem *mem)
{
    int ends[2];
    synced_mem *other = NULL;
    ck_assert(open_pair(SOCK_STREAM, ends));
    OK(synced_mem_share(mem, ends[0], LONG_MS));
    OK(synced_mem_receive(&other, ends[1], LONG_MS));
    close_pair(ends);
    return other;
}

#endif
