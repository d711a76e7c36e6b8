/* Scripts of accesses, of releases of one side, of growth, and of pageable memory that is still being filled. */
#include "waits_scripts.h"

#include <stdlib.h>

/* Releasing a side moves its contents to memory that is still in use. */
static void release_over_push(enum way way)
{
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    push(&it, it.one, ONE);
    if (way == ONE) {
        host_writes(it.host, 2);
        OK(synced_mem_set_cpu_data(it.mem, it.host));
        OK(synced_mem_release_cpu_data(it.mem));
    } else {
        gpu_fill(it.device, SIZE, 2, it.two);
        OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
        OK(synced_mem_release_gpu_data(it.mem));
    }
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* The same with memory that a caller's stream still fills. */
static void release_over_callers(enum way way)
{
    struct things it = begin();
    (void)way;
    gpu_fill_host(it.host, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .stream = it.one));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.two), SIZE, 2, it.two);
    OK(synced_mem_release_gpu_data(it.mem));
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* The host requests contents. Their target is memory that a push still reads, or a caller's stream still writes. */
static void read_over(enum way way)
{
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    push(&it, it.one, ONE);
    gpu_fill(it.device, SIZE, 2, it.two);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
    host_reads(way == ONE ? synced_mem_cpu_data(it.mem) : synced_mem_mutable_cpu_data(it.mem), 2);
    end(&it);
}

static void read_over_callers(enum way way)
{
    struct things it = begin();
    gpu_fill_host(it.host, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .stream = it.one));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.two), SIZE, 2, it.two);
    host_reads(way == ONE ? synced_mem_cpu_data(it.mem) : synced_mem_mutable_cpu_data(it.mem), 2);
    end(&it);
}

static void read_over_pull(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.one, ONE);
    gpu_fill(it.device, SIZE, 2, it.two);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
    host_reads(way == ONE ? synced_mem_cpu_data(it.mem) : synced_mem_mutable_cpu_data(it.mem), 2);
    end(&it);
}

/* Zeros behind contents that are arriving, in existing room. A wait for the zeros must cover both. */
static void grow_behind(enum way way)
{
    struct things it = begin();
    MUST(synced_mem_overwrite_cpu_data(it.mem) && synced_mem_overwrite_gpu_data(it.mem));
    OK(synced_mem_resize(it.mem, SIZE / 2));
    (void)way;
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE / 2, 1, it.one);
    OK(synced_mem_resize(it.mem, SIZE));
    gpu_copy(it.seen, synced_mem_gpu_data_on(it.mem, it.two), SIZE, it.two);
    end(&it);
}

/* The same behind a transfer that reads. The next writer must wait for it too. */
static void grow_behind_pull(enum way way)
{
    struct things it = begin();
    (void)way;
    MUST(synced_mem_overwrite_gpu_data(it.mem));
    OK(synced_mem_resize_discard(it.mem, SIZE / 2));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE / 2, 1, it.one);
    pull(&it, it.two, ONE);
    OK(synced_mem_resize(it.mem, SIZE));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 2, it.one);
    end(&it);
}

static void grow_behind_push(enum way way)
{
    struct things it = begin();
    (void)way;
    host_writes(it.host, 1);
    MUST(synced_mem_overwrite_gpu_data(it.mem));
    OK(synced_mem_resize_discard(it.mem, SIZE / 2));
    OK(USE(it.mem, .cpu_data = it.host, .callback = keep));
    push(&it, it.one, ONE);
    OK(synced_mem_resize(it.mem, SIZE)); /* the host's memory is too small for that, and is released */
    gpu_copy(it.seen, synced_mem_gpu_data_on(it.mem, it.two), SIZE, it.two);
    end(&it);
}

static void CUDART_CB write_pageable(void *data)
{
    pattern_write(data, SIZE, 1);
}

/* The runtime may read pageable memory at the call that copies it, before the stream's earlier work. */
static void push_unready(enum way way)
{
    struct things it = begin();
    void *const pageable = calloc(1, SIZE);
    MUST(cudaLaunchHostFunc(it.one, write_pageable, pageable) == cudaSuccess);
    OK(USE(it.mem, .cpu_data = pageable, .stream = it.one));
    push(&it, it.two, way);
    OK(synced_mem_wait(it.mem));
    MUST(synced_mem_mutable_gpu_data_on(it.mem, it.two));
    host_reads(synced_mem_cpu_data(it.mem), 1);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    free(pageable);
    end(&it);
}

/* The same for an access on a stream. */
static void access_unready(enum way way)
{
    struct things it = begin();
    void *const pageable = calloc(1, SIZE);
    MUST(cudaLaunchHostFunc(it.one, write_pageable, pageable) == cudaSuccess);
    OK(USE(it.mem, .cpu_data = pageable, .stream = it.one));
    const void *const data =
        way == ONE ? synced_mem_gpu_data_on(it.mem, it.two) : synced_mem_mutable_gpu_data_on(it.mem, it.two);
    gpu_copy(it.seen, data, SIZE, it.two);
    OK(synced_mem_release_cpu_data(it.mem));
    host_reads(synced_mem_cpu_data(it.mem), 1);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    free(pageable);
    end(&it);
}

static const struct script scripts[] = {{release_over_push, 2}, {release_over_callers, 1}, {read_over, 2},
                                        {read_over_callers, 2}, {read_over_pull, 2},       {grow_behind, 1},
                                        {grow_behind_push, 1},  {grow_behind_pull, 1},     {push_unready, WAYS},
                                        {access_unready, 2}};
const struct scripts access_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
