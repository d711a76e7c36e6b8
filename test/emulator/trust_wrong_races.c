/*
 * Programs with two unordered accesses to the same bytes. Each must be reported on every seed, as the report follows
 * from the calls alone. Most programs run all work first, so that no byte is wrong.
 */
#include "trust.h"

#include <pthread.h>

/* ---- The host and a stream ---- */

static void host_reads_before_synchronization(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    to_host(host, device, stream);
    emu_run_all();
    CHECK(host_finds(host, 1));
}

static void host_source_rewritten(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream();

    host_fill(host, 1);
    to_device(device, host, stream);
    emu_run_all();
    host_fill(host, 2);
}

static void query_not_heeded(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();

    to_host(host, device, stream);
    MUST(cudaEventRecord(event, stream));
    MUST(cudaMemsetAsync(host, 0, SIZE, stream)); /* not covered by the event */
    while (cudaEventQuery(event) == cudaErrorNotReady)
        continue;
    host_finds(host, 0);
}

static void query_that_said_not_ready(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();
    cudaError_t code = cudaSuccess;

    /* Eager schedules return success at some time. The test needs the other result. */
    for (int i = 0; i < 1000 && code != cudaErrorNotReady; i++) {
        to_host(host, device, stream);
        MUST(cudaEventRecord(event, stream));
        code = cudaEventQuery(event);
    }
    emu_run_all();
    if (code == cudaSuccess)
        to_host(host, device, stream);
    host_finds(host, 0);
}

static void managed_memory_touched(void)
{
    const cudaStream_t stream = new_stream();
    void *data;

    MUST(cudaMallocManaged(&data, SIZE, cudaMemAttachGlobal));
    struct sum sum = {.to = data, .from = data, .plus = 1};
    launch(&sum, stream);
    emu_run_all();
    emu_host_write((byte *)data + SIZE / 2, 1);
}

static void registered_memory_touched(void)
{
    static byte slab[3 * SIZE];
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();

    MUST(cudaHostRegister(slab + SIZE, SIZE, cudaHostRegisterDefault));
    to_host(slab + SIZE, device, stream);
    emu_run_all();
    emu_host_read(slab, sizeof slab);
}

static void host_function_not_waited_for(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned();

    MUST(cudaMemsetAsync(host, 1, SIZE, stream));
    MUST(cudaLaunchHostFunc(stream, run_host_fill, host));
    emu_run_all();
    host_finds(host, 2);
}

static void another_device_synchronized(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();

    to_host(host, device, new_stream());
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceSynchronize());
    emu_run_all();
    host_finds(host, 1);
}

/* ---- Two streams ---- */

static void two_kernels_write(void)
{
    byte *const from = new_device_memory(), *const to = new_device_memory();
    struct sum one = {to, from, 1}, two = {to, from, 1};

    launch(&one, new_stream());
    emu_run_all();
    launch(&two, new_stream());
}

static void reader_and_writer(void)
{
    byte *const from = new_device_memory(), *const to = new_device_memory();
    struct sum sum = {to, from, 1};

    launch(&sum, new_stream());
    emu_run_all();
    MUST(cudaMemsetAsync(from + SIZE - 1, 0, 1, new_stream()));
}

static void copied_while_a_kernel_writes(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {device, device, 1};

    launch(&sum, new_stream());
    emu_run_all();
    to_host(host, device, new_stream());
}

static void legacy_and_non_blocking(void)
{
    byte *const device = new_device_memory();

    MUST(cudaMemsetAsync(device, 1, SIZE, NULL));
    emu_run_all();
    MUST(cudaMemsetAsync(device, 2, SIZE, new_stream()));
}

static void recorded_too_early(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaEventRecord(event, stream));
    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    MUST(cudaStreamWaitEvent(other, event, 0));
    emu_run_all();
    to_host(host, device, other);
}

static void never_recorded(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    MUST(cudaStreamWaitEvent(other, event, 0));
    MUST(cudaEventRecord(event, stream));
    emu_run_all();
    to_host(host, device, other);
}

static void old_record_waited_for(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    after(other, event, stream);
    MUST(cudaMemsetAsync(device, 2, SIZE, stream));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaEventSynchronize(event));
    MUST(cudaMemsetAsync(device, 3, SIZE, stream));
    emu_run_all();
    to_host(host, device, other);
}

static void wait_dropped(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();

    emu_drop_wait("cudaStreamWaitEvent", 1);
    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    emu_run_all();
    after(other, new_event(), stream);
    to_host(host, device, other);
}

static void copied_between_devices(void)
{
    byte *const here = new_device_memory();
    const cudaStream_t stream = new_stream();

    MUST(cudaSetDevice(1));
    byte *const there = new_device_memory();
    const cudaStream_t other = new_stream();
    MUST(cudaMemcpyPeerAsync(there, 1, here, 0, SIZE, other));
    emu_run_all();
    MUST(cudaMemsetAsync(here, 1, SIZE, stream));
}

/* ---- Allocation and free ---- */

static void pool_memory_on_another_stream(void)
{
    byte *const device = new_pool_memory(new_pool(0), new_stream());

    emu_run_all();
    MUST(cudaMemsetAsync(device, 1, SIZE, new_stream()));
}

static void freed_beside_a_reader(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream), *const host = new_pinned();

    after(other, new_event(), stream);
    to_host(host, device, other);
    emu_run_all();
    cudaFreeAsync(device, stream);
}

static void pool_memory_freed_unsynchronized(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream);

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    emu_run_all();
    cudaFree(device);
}

static void unregistered_unsynchronized(void)
{
    static byte slab[SIZE];
    byte *const device = new_device_memory();

    MUST(cudaHostRegister(slab, SIZE, cudaHostRegisterDefault));
    to_device(device, slab, new_stream());
    emu_run_all();
    cudaHostUnregister(slab);
}

/* ---- Host threads ---- */

static void *fill_on_thread(void *data)
{
    host_fill(data, 5);
    return NULL;
}

static void threads_not_joined(void)
{
    byte *const host = new_pinned();
    pthread_t thread;

    emu_set_host_threads(EMU_HOST_THREADS_SEPARATE);
    CHECK(pthread_create(&thread, NULL, fill_on_thread, host) == 0);
    CHECK(pthread_join(thread, NULL) == 0); /* but it is not announced */
    host_finds(host, 5);
}

static void *release_wrong_lock(void *data)
{
    emu_host_acquire(data);
    host_fill(data, 6);
    emu_host_release((byte *)data + 1);
    return NULL;
}

static void wrong_lock(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream();
    pthread_t thread;

    emu_set_host_threads(EMU_HOST_THREADS_SEPARATE);
    emu_host_release(host);
    CHECK(pthread_create(&thread, NULL, release_wrong_lock, host) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    emu_host_acquire(host);
    to_device(device, host, stream);
}

const struct racing_program wrong_race_programs[] = {
    {{"host reads before synchronization", host_reads_before_synchronization}, {"emu_host_read in", "cudaMemcpyAsync"}},
    {{"host source rewritten", host_source_rewritten}, {"emu_host_write in", "cudaMemcpyAsync in"}},
    {{"query not heeded", query_not_heeded}, {"emu_host_read in", "cudaMemsetAsync in"}},
    {{"query that said not ready", query_that_said_not_ready}, {"emu_host_read in", "cudaMemcpyAsync in"}},
    {{"managed memory touched", managed_memory_touched}, {"emu_host_write in", "emu_launch in"}},
    {{"registered memory touched", registered_memory_touched}, {"emu_host_read in", "cudaMemcpyAsync in"}},
    {{"host function not waited for", host_function_not_waited_for}, {"emu_host_read in", "emu_host_write in"}},
    {{"another device synchronized", another_device_synchronized}, {"emu_host_read in", "cudaMemcpyAsync in"}},
    {{"two kernels write", two_kernels_write}, {"emu_launch in", "are not ordered"}},
    {{"reader and writer", reader_and_writer}, {"cudaMemsetAsync in", "emu_launch in"}},
    {{"copied while a kernel writes", copied_while_a_kernel_writes}, {"cudaMemcpyAsync in", "emu_launch in"}},
    {{"legacy and non-blocking", legacy_and_non_blocking}, {"cudaMemsetAsync in", "stream 1 of device 0"}},
    {{"recorded too early", recorded_too_early}, {"cudaMemcpyAsync in", "cudaMemsetAsync in"}},
    {{"never recorded", never_recorded}, {"cudaMemcpyAsync in", "cudaMemsetAsync in"}},
    {{"old record waited for", old_record_waited_for}, {"cudaMemcpyAsync in", "cudaMemsetAsync in"}},
    {{"stream wait dropped", wait_dropped}, {"cudaMemcpyAsync in", "cudaMemsetAsync in"}},
    {{"copied between devices", copied_between_devices}, {"cudaMemsetAsync in", "cudaMemcpyPeerAsync in"}},
    {{"pool memory on another stream", pool_memory_on_another_stream},
     {"cudaMemsetAsync in", "cudaMallocFromPoolAsync in"}},
    {{"freed beside a reader", freed_beside_a_reader}, {"cudaFreeAsync in", "cudaMemcpyAsync in"}},
    {{"pool memory freed unsynchronized", pool_memory_freed_unsynchronized}, {"cudaFree in", "cudaMemsetAsync in"}},
    {{"unregistered unsynchronized", unregistered_unsynchronized}, {"cudaHostUnregister in", "cudaMemcpyAsync in"}},
    {{"threads not joined", threads_not_joined}, {"emu_host_read in", "emu_host_write in"}},
    {{"wrong lock", wrong_lock}, {"cudaMemcpyAsync in", "emu_host_write in"}},
    {{NULL, NULL}, {NULL, NULL}},
};
