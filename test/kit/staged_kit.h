/* Shared by the suites of staged transfers: objects whose host copy is pageable memory of the test. */
#ifndef STAGED_KIT_H
#define STAGED_KIT_H

#include "fixture.h"

#include <stdlib.h>

/* A push has six chunks, of which the first is smaller than a buffer, and a pull as many. */
enum { SIZE = 700001, BUFFER = STAGING_BUFFER, MOST_THREADS = 4 };

static inline void stage(unsigned threads)
{
    set_staging(threads, BUFFER);
}

/* Creates an object that is AT_CPU, in memory of the caller's. */
static inline synced_mem *make_in(void *mine, unsigned pattern)
{
    synced_mem *const mem = make_on(SIZE, 0);
    OK(synced_mem_set_cpu_data(mem, mine));
    pattern_write(mine, SIZE, pattern);
    return mem;
}

/* Creates an object that is AT_GPU, written by a kernel on the stream. The host copy is the caller's memory. */
static inline synced_mem *make_written_on(void *mine, unsigned pattern, synced_mem_stream stream)
{
    synced_mem *const mem = make_in(mine, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, pattern, stream);
    return mem;
}

/* Returns memory of an object's size. The test frees it. */
static inline void *memory(void)
{
    void *const data = malloc(SIZE);
    ck_assert_ptr_nonnull(data);
    return data;
}

static inline int is_pending(synced_mem *mem)
{
    int pending = -1;
    OK(synced_mem_query(mem, &pending));
    return pending;
}

#endif
