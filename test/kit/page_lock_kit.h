/* Shared by the suites of page-locking on request: memory of the test, and objects that page-lock it. */
#ifndef PAGE_LOCK_KIT_H
#define PAGE_LOCK_KIT_H

#include "fixture.h"

#include "cudart_emu.h"

#include <stdlib.h>

enum { PAGE = 4096, SMALL = 65536, LARGE = 4 << 20, LOCK = SYNCED_MEM_MEMORY_PAGE_LOCK };

static inline char *host_memory(size_t size, unsigned pattern)
{
    char *const data = aligned_alloc(PAGE, size);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, size, pattern);
    return data;
}

/* Returns whether any of the quarters begins with page-locked bytes. */
static inline bool is_page_locked(const char *data, size_t size)
{
    bool any = false;
    for (int i = 0; i < 4; i++) {
        struct cudaPointerAttributes attributes;
        ck_assert_int_eq(cudaPointerGetAttributes(&attributes, data + size / 4 * (size_t)i), cudaSuccess);
        any = any || attributes.type == cudaMemoryTypeHost;
    }
    return any;
}

static inline void use_a_device(void)
{
    synced_mem *const mem = make(64);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}

static inline synced_mem *page_lock(void *data, size_t size)
{
    synced_mem *const mem = make(size);
    OK(USE(mem, .cpu_data = data, .flags = LOCK));
    return mem;
}

#endif
