/* Scripts in which a call of the runtime fails. */
#include "waits_scripts.h"

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

/* The writer cannot be made to wait for that transfer either. The next call that fails makes it wait. */
static void failed_read_and_wait(enum way way)
{
    (void)way;
    struct things it = begin();
    void *const data = synced_mem_overwrite_gpu_data_on(it.mem, it.one);
    gpu_fill(data, SIZE, 1, it.one);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamWaitEvent", 2, cudaErrorUnknown, false); /* the transfer's stream comes first */
    MUST(!synced_mem_cpu_data(it.mem));
    emu_fail("cudaStreamWaitEvent", 1, cudaErrorUnknown, false);
    MUST(!synced_mem_mutable_gpu_data_on(it.mem, it.two));
    gpu_fill(data, SIZE, 2, it.one);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* A staged push waits for its buffer in vain, and then for the stream. Another push uses the buffer at once. */
static void failed_wait_for_a_buffer(enum way way)
{
    static unsigned char first[SIZE], second[SIZE];
    const synced_mem_staging staged = {.struct_size = sizeof staged, .buffer_bytes = 65536, .minimum_bytes = 1};
    (void)way;
    OK(synced_mem_set_staging(&staged));
    struct things it = begin();
    synced_mem *const other = make(SIZE);
    pattern_write(first, SIZE, 1);
    pattern_write(second, SIZE, 2);
    OK(synced_mem_set_cpu_data(it.mem, first));
    OK(synced_mem_set_cpu_data(other, second));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    MUST(synced_mem_mutable_gpu_data_on(it.mem, it.one));
    MUST(synced_mem_gpu_data_on(other, it.two));
    host_reads(synced_mem_cpu_data(it.mem), 1);
    OK(synced_mem_release(other));
    end(&it);
}

static const struct script scripts[] = {{no_event, 1},    {out_of_sight, 1},         {out_of_sight_on_device, 1},
                                        {failed_read, 1}, {failed_read_and_wait, 1}, {failed_wait_for_a_buffer, 1}};
const struct scripts failure_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
