/*
 * Programs that order their accesses in each possible way, as counterparts to those of trust_wrong_races.c. None may be
 * flagged, on any seed.
 */
#include "trust.h"

#include <pthread.h>

/* ---- The host and streams ---- */

static void host_waits_its_turn(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();
    cudaError_t code;

    host_fill(host, 1);
    to_device(device, host, stream);
    MUST(cudaEventRecord(event, stream));
    MUST(cudaEventSynchronize(event));
    host_fill(host, 2);
    to_host(host, device, stream);
    while ((code = cudaStreamQuery(stream)) == cudaErrorNotReady)
        continue;
    MUST(code);
    CHECK(host_finds(host, 1));
    host_fill(host, 3);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* The host orders one stream's work before another's. */
static void through_the_host(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    const cudaStream_t stream = new_stream(), other = new_stream(), third = new_blocking_stream();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemsetAsync(device, 2, SIZE, other));
    MUST(cudaStreamSynchronize(other));
    MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost));
    CHECK(host_finds(host, 2));
    MUST(cudaMemsetAsync(host, 3, SIZE, third));
    MUST(cudaStreamSynchronize(NULL));
    CHECK(host_finds(host, 3));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaStreamDestroy(third));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void free_synchronizes(void)
{
    byte *const device = new_device_memory(), *const another = new_device_memory();
    byte *const host = new_pinned(), *const used = new_pinned();
    const cudaStream_t stream = new_stream(), other = new_stream();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    to_host(host, device, stream);
    MUST(cudaMemsetAsync(another, 2, SIZE, other));
    MUST(cudaFree(another)); /* waits for the whole device */
    CHECK(host_finds(host, 1));
    to_device(device, used, other);
    to_host(host, device, other);
    MUST(cudaFreeHost(used)); /* waits for the work that uses it */
    MUST(cudaFree(device));
    CHECK(host_finds(host, 0xCD));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaFreeHost(host));
}

static void managed_and_registered(void)
{
    static byte slab[3 * SIZE];
    const cudaStream_t stream = new_stream();
    struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = 0};
    void *data;

    MUST(cudaMallocManaged(&data, SIZE, cudaMemAttachGlobal));
    MUST(cudaHostRegister(slab + SIZE, SIZE, cudaHostRegisterDefault));
    MUST(cudaMemPrefetchAsync(data, SIZE, here, 0, stream));
    host_fill(data, 1); /* pages may move meanwhile */
    MUST(cudaMemcpyAsync(slab + SIZE, data, SIZE, cudaMemcpyDefault, stream));
    emu_host_write(slab, SIZE);
    emu_host_write(slab + 2 * SIZE, SIZE);
    MUST(cudaStreamSynchronize(stream));
    emu_host_read(slab, sizeof slab);
    CHECK(all_are(slab + SIZE, 1));
    MUST(cudaHostUnregister(slab + SIZE));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(data));
}

/* ---- Streams ---- */

static void completed_events(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    MUST(cudaEventRecord(event, stream));
    emu_run_all();
    MUST(cudaStreamWaitEvent(other, event, 0));
    to_host(host, device, other);
    MUST(cudaEventRecord(event, other));
    emu_run_all();
    MUST(cudaEventSynchronize(event));
    CHECK(host_finds(host, 1));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void through_a_third_stream(void)
{
    const cudaStream_t first = new_stream(), second = new_stream(), third = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE, first));
    after(second, event, first);
    after(third, event, second);
    MUST(cudaStreamDestroy(second));
    to_host(host, device, third);
    after(first, event, third);
    MUST(cudaMemsetAsync(device, 2, SIZE, first));
    MUST(cudaStreamSynchronize(first));
    CHECK(host_finds(host, 1));
    MUST(cudaStreamDestroy(first));
    MUST(cudaStreamDestroy(third));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void wait_keeps_its_record(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream(), idle = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE, stream));
    after(other, event, stream);
    MUST(cudaEventRecord(event, idle));
    MUST(cudaEventSynchronize(event));
    MUST(cudaEventDestroy(event));
    to_host(host, device, other);
    MUST(cudaStreamSynchronize(other));
    CHECK(host_finds(host, 1));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaStreamDestroy(idle));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* The legacy stream comes after all blocking streams and before their next work. That also holds for a destroyed stream
 * and for finished work. */
static void around_the_legacy_stream(void)
{
    const cudaStream_t one = new_blocking_stream(), two = new_blocking_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE, one));
    MUST(cudaStreamDestroy(one));
    emu_run_all();
    struct sum sum = {device, device, 1};
    launch(&sum, NULL);
    emu_run_all();
    to_host(host, device, two);
    MUST(cudaMemsetAsync(device, 3, SIZE, cudaStreamLegacy));
    MUST(cudaStreamSynchronize(two));
    CHECK(host_finds(host, 2));
    MUST(cudaStreamDestroy(two));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void halves(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 1, SIZE / 2, stream));
    MUST(cudaMemsetAsync(device + SIZE / 2, 2, SIZE / 2, other));
    after(stream, event, other);
    to_host(host, device, stream);
    MUST(cudaStreamSynchronize(stream));
    emu_host_read(host, SIZE);
    CHECK(host[SIZE / 2 - 1] == 1 && host[SIZE / 2] == 2);
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void two_readers(void)
{
    const cudaStream_t writer = new_stream(), readers[] = {new_stream(), new_stream()};
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const hosts[] = {new_pinned(), new_pinned()};

    MUST(cudaMemsetAsync(device, 4, SIZE, writer));
    for (int i = 0; i < 2; i++) {
        after(readers[i], event, writer);
        to_host(hosts[i], device, readers[i]);
    }
    for (int i = 0; i < 2; i++)
        after(writer, event, readers[i]);
    MUST(cudaMemsetAsync(device, 5, SIZE, writer));
    MUST(cudaStreamSynchronize(writer));
    for (int i = 0; i < 2; i++) {
        CHECK(host_finds(hosts[i], 4));
        MUST(cudaFreeHost(hosts[i]));
        MUST(cudaStreamDestroy(readers[i]));
    }
    MUST(cudaStreamDestroy(writer));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
}

static void between_devices(void)
{
    const cudaEvent_t event = new_event();
    const cudaStream_t stream = new_stream();
    byte *const here = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(here, 6, SIZE, stream));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaSetDevice(1));
    const cudaStream_t other = new_stream();
    const cudaEvent_t copied = new_event();
    byte *const there = new_device_memory();
    MUST(cudaStreamWaitEvent(other, event, 0));
    MUST(cudaMemcpyPeerAsync(there, 1, here, 0, SIZE, other));
    after(stream, copied, other);
    MUST(cudaMemsetAsync(here, 7, SIZE, stream));
    to_host(host, there, other);
    MUST(cudaDeviceSynchronize());
    CHECK(host_finds(host, 6));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaEventDestroy(event));
    MUST(cudaEventDestroy(copied));
    MUST(cudaFree(here));
    MUST(cudaFree(there));
    MUST(cudaFreeHost(host));
}

/* Streams are created and destroyed. Each takes over the lane of the one before. */
static void many_streams(void)
{
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    for (int i = 0; i < 30; i++) {
        const cudaStream_t stream = i % 3 ? new_stream() : new_blocking_stream();

        MUST(cudaStreamWaitEvent(stream, event, 0));
        MUST(cudaMemsetAsync(device, i, SIZE, stream));
        MUST(cudaEventRecord(event, stream));
        if (i % 7 == 6)
            MUST(cudaStreamSynchronize(stream));
        MUST(cudaStreamDestroy(stream));
    }
    MUST(cudaEventSynchronize(event));
    MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost));
    CHECK(host_finds(host, 29));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* ---- Pools ---- */

static void pool_memory_handed_on(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();

    for (int i = 0; i < 4; i++) {
        byte *const device = new_pool_memory(pool, stream);
        after(other, event, stream);
        MUST(cudaMemsetAsync(device, i, SIZE, other));
        MUST(cudaFreeAsync(device, other));
    }
    byte *const last = new_pool_memory(pool, other);
    MUST(cudaMemsetAsync(last, 1, SIZE, other));
    MUST(cudaStreamSynchronize(other));
    MUST(cudaFree(last));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaEventDestroy(event));
}

/* With little memory each allocation gets memory that another stream has freed. The runtime makes the order. */
static void pool_memory_used_again(void)
{
    const cudaMemPool_t pool = new_pool(0);
    cudaStream_t streams[3];

    emu_set_device_memory(0, SIZE);
    for (int i = 0; i < 3; i++)
        streams[i] = new_stream();
    for (int i = 0; i < 12; i++) {
        byte *const device = new_pool_memory(pool, streams[i % 3]);

        MUST(cudaMemsetAsync(device, i, SIZE, streams[i % 3]));
        if (i % 4 == 3)
            emu_run_all();
        MUST(cudaFreeAsync(device, streams[i % 3]));
    }
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < 3; i++)
        MUST(cudaStreamDestroy(streams[i]));
    MUST(cudaMemPoolDestroy(pool));
}

/* ---- Host threads and host functions ---- */

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    byte *data, *device;
    cudaStream_t stream;
    int turns;
    bool announce;
};

static void take(struct shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    if (shared->announce)
        emu_host_acquire(shared);
}

static void give(struct shared *shared)
{
    if (shared->announce)
        emu_host_release(shared);
    pthread_mutex_unlock(&shared->lock);
}

static void *take_turns(void *argument)
{
    struct shared *const shared = argument;

    for (int i = 0; i < 5; i++) {
        take(shared);
        host_fill(shared->data, i);
        to_device(shared->device, shared->data, shared->stream);
        MUST(cudaStreamSynchronize(shared->stream));
        shared->turns++;
        give(shared);
    }
    return NULL;
}

static void run_turns(bool announce)
{
    struct shared shared = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .data = new_pinned(),
                            .device = new_device_memory(),
                            .stream = new_stream(),
                            .announce = announce};
    pthread_t threads[2];

    emu_set_host_threads(announce ? EMU_HOST_THREADS_SEPARATE : EMU_HOST_THREADS_ORDERED);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, take_turns, &shared) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    take(&shared);
    CHECK(host_finds(shared.data, 4) && shared.turns == 10);
    give(&shared);
    MUST(cudaStreamDestroy(shared.stream));
    MUST(cudaFree(shared.device));
    MUST(cudaFreeHost(shared.data));
}

static void announced_threads(void)
{
    run_turns(true);
}

static void ordered_threads(void)
{
    run_turns(false);
}

static void tell(void *argument)
{
    struct shared *const shared = argument;

    host_fill(shared->data, 2);
    pthread_mutex_lock(&shared->lock);
    shared->turns = 1;
    emu_host_release(shared);
    pthread_cond_signal(&shared->moved);
    pthread_mutex_unlock(&shared->lock);
}

/* A host function signals the host without a call of the runtime. */
static void told_by_a_host_function(void)
{
    struct shared shared = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .moved = PTHREAD_COND_INITIALIZER,
                            .data = new_pinned(),
                            .stream = new_stream()};

    MUST(cudaMemsetAsync(shared.data, 1, SIZE, shared.stream));
    MUST(cudaLaunchHostFunc(shared.stream, tell, &shared));
    emu_run_all();
    pthread_mutex_lock(&shared.lock);
    while (shared.turns == 0)
        pthread_cond_wait(&shared.moved, &shared.lock);
    pthread_mutex_unlock(&shared.lock);
    emu_host_acquire(&shared);
    CHECK(host_finds(shared.data, 2));
    MUST(cudaStreamSynchronize(shared.stream));
    MUST(cudaStreamDestroy(shared.stream));
    MUST(cudaFreeHost(shared.data));
}

const struct program right_race_programs[] = {
    {"host waits its turn", host_waits_its_turn},
    {"through the host", through_the_host},
    {"free synchronizes", free_synchronizes},
    {"managed and registered memory", managed_and_registered},
    {"completed events", completed_events},
    {"through a third stream", through_a_third_stream},
    {"wait keeps its record", wait_keeps_its_record},
    {"around the legacy stream", around_the_legacy_stream},
    {"halves", halves},
    {"two readers", two_readers},
    {"between devices", between_devices},
    {"many streams", many_streams},
    {"pool memory handed on", pool_memory_handed_on},
    {"pool memory used again", pool_memory_used_again},
    {"announced threads", announced_threads},
    {"ordered threads", ordered_threads},
    {"told by a host function", told_by_a_host_function},
    {NULL, NULL},
};
