/* Shared by the suites of holds and budgets. */
#ifndef HOLD_KIT_H
#define HOLD_KIT_H

#include "fixture.h"

enum { HOLD_BYTES = 1 << 20 };

static inline synced_mem *make_evictable(const char *name, size_t size)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = name;
    options.device = 0;
    options.evictable = 1;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

/* Makes evictable objects whose host copies have the patterns from first on. */
static inline void make_many(synced_mem **mems, unsigned count, unsigned first)
{
    for (unsigned i = 0; i < count; i++) {
        mems[i] = make_evictable("many", HOLD_BYTES);
        host_fill(given(synced_mem_overwrite_cpu_data(mems[i])), HOLD_BYTES, first + i);
    }
}

static inline synced_mem_status hold_one(synced_mem *mem, synced_mem_mode mode, synced_mem_stream stream)
{
    return synced_mem_hold(mem, SYNCED_MEM_SIDE_GPU, mode, stream);
}

static inline synced_mem_status unhold_one(synced_mem *mem)
{
    return synced_mem_unhold(mem, SYNCED_MEM_SIDE_GPU);
}

static inline void set_budget(uint64_t bytes)
{
    OK(synced_mem_gpu_set_budget(0, bytes, NULL));
}

/* Returns whether the object's contents are on its device. */
static inline bool is_on_device(const synced_mem *mem)
{
    return (synced_mem_head(mem) & SYNCED_MEM_AT_GPU) != 0;
}

#endif
