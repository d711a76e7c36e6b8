/* The runs that show whether waits are needed: random sequences, and scripts. Scripts cover cases that random sequences
 * reach too rarely, or not at all, because something must fail. */
#include "waits.h"
#include "waits_kit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 24, CALLS = 4000, MORE_SEQUENCES = 30, MORE_CALLS = 30000 };

/* ---- Scripts ---- */

static void push(struct things *it, synced_mem_stream stream, enum way way)
{
    synced_mem *const mems[] = {it->mem, it->mem};
    OK(way == ONE ? synced_mem_async_gpu_push(it->mem, stream) : synced_mem_async_gpu_push_n(mems, way, stream));
}

static void pull(struct things *it, synced_mem_stream stream, enum way way)
{
    synced_mem *const mems[] = {it->mem, it->mem};
    OK(way == ONE ? synced_mem_async_cpu_pull(it->mem, stream) : synced_mem_async_cpu_pull_n(mems, way, stream));
}

static void keep(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
}

/* Work queued behind a push must see contents that another transfer or stream brings. */
static void push_twice(enum way way)
{
    struct things it = begin();
    host_writes(it.host, 1);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device));
    host_writes(synced_mem_mutable_cpu_data(it.mem), 1);
    push(&it, it.one, way);
    push(&it, it.two, way);
    gpu_copy(it.seen, it.device, SIZE, it.two);
    end(&it);
}

static void push_what_callers_bring(enum way way)
{
    struct things it = begin();
    host_writes(it.host, 1);
    gpu_fill(it.device, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device, .stream = it.one));
    push(&it, it.two, way);
    gpu_copy(it.seen, it.device, SIZE, it.two);
    end(&it);
}

/* The same for a pull, and work that reads page-locked host memory. */
static void read_host(struct things *it, synced_mem_stream stream)
{
    MUST(cudaMemcpyAsync(it->seen, it->host, SIZE, cudaMemcpyHostToDevice, stream) == cudaSuccess);
}

static void pull_twice(enum way way)
{
    struct things it = begin();
    host_writes(it.host, 1);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 2, it.one);
    pull(&it, it.one, way);
    pull(&it, it.two, way);
    read_host(&it, it.two);
    end(&it);
}

static void pull_what_callers_bring(enum way way)
{
    struct things it = begin();
    gpu_fill_host(it.host, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device, .stream = it.one));
    pull(&it, it.two, way);
    read_host(&it, it.two);
    end(&it);
}

/* A transfer to memory that a caller's stream still fills. */
static void push_over_callers(enum way way)
{
    struct things it = begin();
    gpu_fill(it.device, SIZE, 1, it.one);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.one));
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2);
    push(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* A transfer to memory that another one still reads. */
static void pull_over_push(enum way way)
{
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    push(&it, it.one, way);
    gpu_fill(it.device, SIZE, 2, it.two);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* A transfer of zeros that are still being written. */
static void pull_zeros(enum way way)
{
    struct things it = begin();
    MUST(synced_mem_gpu_data_on(it.mem, it.one));
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 0);
    end(&it);
}

/* Memory that is released while it is still being filled. */
static void discard_zeros(enum way way)
{
    struct things it = begin();
    MUST(synced_mem_gpu_data_on(it.mem, it.one));
    OK(way == ONE ? synced_mem_resize_discard(it.mem, (size_t)2 * SIZE) : synced_mem_resize(it.mem, (size_t)2 * SIZE));
    end(&it);
}

static void pull_over_pull(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.one, way);
    gpu_fill(it.device, SIZE, 2, it.two);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

static void pull_over_callers(enum way way)
{
    struct things it = begin();
    gpu_fill_host(it.host, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .stream = it.one));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.two), SIZE, 2, it.two);
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* Transfers to memory that another stream still reads, or that another transfer still writes. */
static void push_over_readers(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.two), SIZE, 1, it.two);
    gpu_copy(it.seen, synced_mem_gpu_data_on(it.mem, it.one), SIZE, it.one);
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2);
    push(&it, it.two, way);
    end(&it);
}

static void push_over_push(enum way way)
{
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    push(&it, it.one, way);
    host_writes(it.host, 2);
    OK(synced_mem_set_cpu_data(it.mem, it.host));
    push(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

static void push_over_pull(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.two, way);
    host_writes(it.host, 2);
    OK(synced_mem_set_cpu_data(it.mem, it.host));
    push(&it, it.one, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
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

static void write_again(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    host_writes(data, 9);
}

/* The shutdown waits for adopted memory that is still in use, and for the buffer of a push from pageable memory. */
static void adopted_to_the_end(enum way way)
{
    static char pageable[SIZE];
    struct things it = begin();
    host_writes(way == ONE ? it.host : pageable, 1);
    if (way == ONE)
        OK(USE(it.mem, .cpu_data = it.host, .callback = write_again));
    else
        OK(USE(it.mem, .cpu_data = pageable, .gpu_data = it.device, .callback = keep));
    MUST(synced_mem_mutable_cpu_data(it.mem));
    push(&it, it.one, ONE);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    OK(synced_mem_shutdown());
    end(&it);
}

/* If no event can be recorded behind a transfer, the library waits for it. */
static void no_event(enum way way)
{
    (void)way;
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    push(&it, it.one, ONE);
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2);
    OK(synced_mem_release_data(it.mem));
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    MUST(synced_mem_overwrite_gpu_data(it.mem)); /* the order of its allocation is unknown */
    gpu_fill((void *)(uintptr_t)synced_mem_gpu_data_on(it.mem, it.two), SIZE, 4, it.two);
    end(&it);
}

/* The wait fails too. When the host memory has been read is then unknown until an event can be recorded. That event
 * must cover later readers as well. */
static void out_of_sight(enum way way)
{
    (void)way;
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    OK(synced_mem_wait(it.mem));
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    MUST(!synced_mem_gpu_data(it.mem));
    push(&it, it.one, ONE);
    OK(synced_mem_release(it.mem));
    it.mem = make(SIZE);
    for (int i = 0; i < 40; i++)
        OK(synced_mem_reap());
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2); /* the same memory, if it has come back */
    end(&it);
}

/* The same for device memory, which is written meanwhile. */
static void out_of_sight_on_device(enum way way)
{
    struct things it = begin();
    (void)way;
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false); /* the first record ends the open write */
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    MUST(!synced_mem_cpu_data(it.mem));
    gpu_stream_sync(it.one);
    gpu_sync_device(0);
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2);
    push(&it, it.two, ONE);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    end(&it);
}

/* Device memory is freed behind a transfer that reads it. */
static void adopt_over_pull(enum way way)
{
    struct things it = begin();
    (void)way;
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.two, ONE);
    host_writes(it.host, 2);
    gpu_fill(it.device, SIZE, 2, NULL);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device, .callback = keep));
    end(&it);
}

/* A writer continues after a failed read whose transfer is still running. */
static void failed_read(enum way way)
{
    (void)way;
    struct things it = begin();
    void *const data = synced_mem_overwrite_gpu_data_on(it.mem, it.one);
    gpu_fill(data, SIZE, 1, it.one);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    MUST(!synced_mem_cpu_data(it.mem));
    gpu_fill(data, SIZE, 2, it.one);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

static void without_pools(enum way way)
{
    (void)way;
    emu_set_pools_supported(0, false);
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    OK(synced_mem_release_data(it.mem));
    end(&it);
}

/* At the end, the buffer of a push of pageable memory is given back behind the push. */
static void shut_down_behind_push(enum way way)
{
    struct things it = begin();
    static unsigned char pageable[SIZE];
    synced_mem_stats stats = {.struct_size = sizeof stats};
    host_writes(pageable, 1);
    OK(synced_mem_set_cpu_data(it.mem, pageable));
    gpu_delay(it.one);
    push(&it, it.one, way);
    OK(synced_mem_release(it.mem));
    it.mem = NULL;
    OK(synced_mem_shutdown());
    OK(synced_mem_get_stats(&stats));
    MUST(stats.pinned_bytes == 0);
    end(&it);
}

static const struct {
    void (*play)(enum way way);
    int ways;
} scripts[] = {{push_twice, WAYS},         {push_what_callers_bring, WAYS},
               {pull_twice, WAYS},         {pull_what_callers_bring, WAYS},
               {push_over_callers, WAYS},  {pull_over_push, WAYS},
               {pull_zeros, WAYS},         {discard_zeros, 2},
               {pull_over_pull, WAYS},     {pull_over_callers, WAYS},
               {push_over_readers, WAYS},  {push_over_push, WAYS},
               {push_over_pull, WAYS},     {release_over_push, 2},
               {release_over_callers, 1},  {read_over, 2},
               {read_over_callers, 2},     {read_over_pull, 2},
               {grow_behind, 1},           {grow_behind_push, 1},
               {grow_behind_pull, 1},      {push_unready, WAYS},
               {access_unready, 2},        {no_event, 1},
               {out_of_sight, 1},          {out_of_sight_on_device, 1},
               {adopt_over_pull, 1},       {adopted_to_the_end, 2},
               {failed_read, 1},           {without_pools, 1},
               {shut_down_behind_push, 2}, {copy_to_another_device, WAYS}};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

/* ---- All ---- */

int waits_runs(void)
{
    return SCRIPTS * WAYS + SEQUENCES;
}

int waits_more_runs(void)
{
    return MORE_SEQUENCES;
}

/* Excludes calls that set how the library works, as waits of copy threads and ages of pool memory vary between runs.
 * Excludes objects that page-lock a part of another one's memory, as its transfers are staged then. Excludes
 * allocators, as they wait themselves. Excludes memory that both sides use: its prefetch is only a hint, so nothing
 * shows whether it comes in its turn. */
static void run_sequence(uint64_t seed, unsigned long calls)
{
    unsigned long excluded[2] = {0};
    struct generator generator;
    excluded[0] |= 1ul << OP_CREATE_ALLOCATED | 1ul << OP_CREATE_SHARED;
    excluded[OP_SHARE / 64] |= 1ul << (OP_SHARE % 64);
    for (int code = OP_STAGING; code <= OP_ALLOCATORS; code++)
        excluded[code / 64] |= 1ul << (code % 64);
    play(source_random(&generator, seed, calls, excluded, THREADS), (unsigned)seed % 5, false);
}

/* Runs a script on its own thread, as sequences do. So the call chains are the same on every path to it. */
static void *run_script(void *script)
{
    (void)gpu_start(0);
    scripts[(size_t)script / WAYS].play((enum way)((size_t)script % WAYS));
    return NULL;
}

void waits_run(int run)
{
    pthread_t thread;
    if (run < SCRIPTS * WAYS) {
        if (run % WAYS >= scripts[run / WAYS].ways)
            return;
        MUST(pthread_create(&thread, NULL, run_script, (void *)(uintptr_t)run) == 0);
        (void)pthread_join(thread, NULL);
    } else if (run < waits_runs()) {
        run_sequence(1000 + (uint64_t)(run - SCRIPTS * WAYS), CALLS);
    } else {
        run_sequence(2000 + (uint64_t)(run - waits_runs()), MORE_CALLS);
    }
}
