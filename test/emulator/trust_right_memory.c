/*
 * Right programs about memory, devices and threads.
 */
#include "trust.h"

#include <pthread.h>
#include <sys/mman.h>

/* ---- Freeing and pools ---- */

static void free_behind_work(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned(), *const back = new_pinned();

    host_fill(host, 30);
    for (int i = 0; i < 3; i++) {
        byte *const device = new_pool_memory(pool, stream);

        to_device(device, host, stream);
        to_host(back, device, stream);
        MUST(cudaFreeAsync(device, stream));
    }
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(back, 30));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaFreeHost(host));
    MUST(cudaFreeHost(back));
}

static void free_waits(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 31, SIZE, stream));
    to_host(host, device, stream);
    MUST(cudaFree(device));
    CHECK(host_finds(host, 31));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(host));
}

static void pool_across_streams(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t owner = new_stream(), user = new_stream();
    const cudaEvent_t event = new_event();
    byte *const host = new_pinned();

    for (int i = 0; i < 4; i++) {
        byte *const device = new_pool_memory(pool, owner);

        after(user, event, owner);
        MUST(cudaMemsetAsync(device, 60 + i, SIZE, user));
        to_host(host, device, user);
        if (i % 2) {
            after(owner, event, user);
            MUST(cudaFreeAsync(device, owner));
        } else {
            MUST(cudaFreeAsync(device, user));
        }
        MUST(cudaStreamSynchronize(user));
        CHECK(host_finds(host, 60 + i));
    }
    MUST(cudaStreamDestroy(owner));
    MUST(cudaStreamDestroy(user));
    MUST(cudaEventDestroy(event));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaFreeHost(host));
}

/* Memory that is freed on one stream may be given to another at once. The pool makes the order. */
static void pool_reuse(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t streams[] = {new_stream(), new_stream()};
    byte *const host[] = {new_pinned(), new_pinned()};

    for (int i = 0; i < 2; i++) {
        byte *const device = new_pool_memory(pool, streams[i]);

        MUST(cudaMemsetAsync(device, 80 + i, SIZE, streams[i]));
        to_host(host[i], device, streams[i]);
        MUST(cudaFreeAsync(device, streams[i]));
    }
    for (int i = 0; i < 2; i++) {
        MUST(cudaStreamSynchronize(streams[i]));
        CHECK(host_finds(host[i], 80 + i));
        MUST(cudaStreamDestroy(streams[i]));
        MUST(cudaFreeHost(host[i]));
    }
    MUST(cudaMemPoolTrimTo(pool, 0));
    MUST(cudaMemPoolDestroy(pool));
}

static void pool_outlived(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(pool, stream), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 33, SIZE, stream));
    MUST(cudaMemPoolTrimTo(pool, 0));
    MUST(cudaMemPoolDestroy(pool));
    to_host(host, device, stream);
    MUST(cudaFreeAsync(device, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 33));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(host));
}

static void default_pool(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned();
    void *device;

    MUST(cudaMallocAsync(&device, SIZE, stream));
    MUST(cudaMemsetAsync(device, 34, SIZE, stream));
    to_host(host, device, stream);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaFree(device));
    CHECK(host_finds(host, 34));
    byte *const plain = new_device_memory();
    MUST(cudaMemsetAsync(plain, 35, SIZE, stream));
    to_host(host, plain, stream);
    MUST(cudaFreeAsync(plain, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 35));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(host));
}

/* ---- Host memory ---- */

/* Two staging buffers, each filled again as soon as its copy is done. */
static void double_buffering(void)
{
    const cudaStream_t stream = new_stream();
    const cudaEvent_t copied[] = {new_event(), new_event()};
    byte *const staging[] = {new_pinned(), new_pinned()};
    byte *memory[6], back[SIZE];

    for (int i = 0; i < 6; i++) {
        MUST(cudaEventSynchronize(copied[i % 2]));
        host_fill(staging[i % 2], 100 + i);
        memory[i] = new_device_memory();
        to_device(memory[i], staging[i % 2], stream);
        MUST(cudaEventRecord(copied[i % 2], stream));
    }
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < 6; i++) {
        MUST(cudaMemcpy(back, memory[i], SIZE, cudaMemcpyDeviceToHost));
        CHECK(all_are(back, 100 + i));
        MUST(cudaFree(memory[i]));
    }
    for (int i = 0; i < 2; i++) {
        MUST(cudaEventDestroy(copied[i]));
        MUST(cudaFreeHost(staging[i]));
    }
    MUST(cudaStreamDestroy(stream));
}

static void pageable_overwritten(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), source[SIZE], back[SIZE];

    for (int i = 0; i < 4; i++) {
        memset(source, 110 + i, SIZE);
        MUST(cudaMemcpy(device, source, SIZE, cudaMemcpyHostToDevice)); /* has read the source when it returns */
        memset(source, 0, SIZE);
        MUST(cudaDeviceSynchronize());
        to_host(back, device, stream);
        MUST(cudaStreamSynchronize(stream));
        CHECK(all_are(back, 110 + i));
    }
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
}

static void registered(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();
    byte *const slab = mmap(NULL, 4 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(slab != MAP_FAILED);
    MUST(cudaHostRegister(slab + 100, SIZE, cudaHostRegisterDefault));
    MUST(cudaHostRegister(slab + 100 + SIZE, SIZE, cudaHostRegisterPortable));
    host_fill(slab + 100, 120);
    to_device(device, slab + 100, stream);
    to_host(slab + 100 + SIZE, device, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(slab + 100 + SIZE, 120));
    MUST(cudaHostUnregister(slab + 100));
    MUST(cudaHostUnregister(slab + 100 + SIZE));
    MUST(cudaHostRegister(slab, (size_t)4 * SIZE, cudaHostRegisterDefault));
    MUST(cudaHostUnregister(slab));
    munmap(slab, 4 * SIZE);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
}

static void mapped(void)
{
    const cudaStream_t stream = new_stream();
    void *host, *seen;

    MUST(cudaHostAlloc(&host, SIZE, cudaHostAllocMapped | cudaHostAllocPortable));
    MUST(cudaHostGetDevicePointer(&seen, host, 0));
    host_fill(host, 121);
    struct sum sum = {.to = seen, .from = seen, .plus = 2};
    launch(&sum, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 123));
    MUST(cudaFreeHost(host));
    MUST(cudaStreamDestroy(stream));
}

static void managed(void)
{
    const struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = 0};
    const cudaStream_t stream = new_stream();
    void *data;

    MUST(cudaMallocManaged(&data, SIZE, cudaMemAttachGlobal));
    host_fill(data, 124);
    MUST(cudaMemPrefetchAsync(data, SIZE, here, 0, stream));
    struct sum sum = {.to = data, .from = data, .plus = 3};
    launch(&sum, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(data, 127));
    MUST(cudaFree(data));
    MUST(cudaStreamDestroy(stream));
}

struct step {
    byte *from, *to;
};

static void host_step(void *argument)
{
    const struct step *const step = argument;

    CHECK(host_finds(step->from, 130));
    host_fill(step->to, 131);
}

static void host_functions(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), *const one = new_pinned(), *const two = new_pinned();
    struct step step = {.from = one, .to = two};

    MUST(cudaMemsetAsync(device, 130, SIZE, stream));
    to_host(one, device, stream);
    MUST(cudaLaunchHostFunc(stream, host_step, &step));
    to_device(device, two, stream);
    to_host(one, device, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(one, 131));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(one));
    MUST(cudaFreeHost(two));
}

static void chains_of_copies(void)
{
    const cudaStream_t stream = new_stream();
    byte *const one = new_device_memory(), *const two = new_device_memory(), *const host = new_pinned();

    for (int i = 0; i < 10; i++) {
        MUST(cudaMemsetAsync(one, 140 + i, SIZE, stream));
        MUST(cudaMemcpyAsync(two, one, SIZE / 2, cudaMemcpyDeviceToDevice, stream));
        MUST(cudaMemcpyAsync(two + SIZE / 2, two, SIZE / 2, cudaMemcpyDeviceToDevice, stream));
        MUST(cudaMemsetAsync(one, 0, SIZE, stream));
    }
    to_host(host, two, stream);
    MUST(cudaMemcpyAsync(host, host, 0, cudaMemcpyDefault, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 149));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(one));
    MUST(cudaFree(two));
    MUST(cudaFreeHost(host));
}

/* ---- Devices and threads ---- */

static void peer_copies(void)
{
    const cudaStream_t zero = new_stream();
    const cudaEvent_t event = new_event();
    byte *const here = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(here, 150, SIZE, zero));
    MUST(cudaSetDevice(1));
    const cudaStream_t one = new_stream();
    byte *const there = new_device_memory();
    after(one, event, zero);
    MUST(cudaMemcpyPeerAsync(there, 1, here, 0, SIZE, one));
    struct sum sum = {.to = there, .from = there, .plus = 1};
    launch(&sum, one);
    MUST(cudaMemcpyAsync(host, there, SIZE, cudaMemcpyDefault, one));
    MUST(cudaStreamSynchronize(one));
    CHECK(host_finds(host, 151));
    MUST(cudaFree(there));
    MUST(cudaFree(here));
    MUST(cudaStreamDestroy(one));
    MUST(cudaStreamDestroy(zero));
    MUST(cudaEventDestroy(event));
    MUST(cudaFreeHost(host));
    MUST(cudaSetDevice(0));
}

static void peer_access(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t zero = new_stream();
    const cudaEvent_t event = new_event();
    const struct cudaMemAccessDesc access = {
        .location = {.type = cudaMemLocationTypeDevice, .id = 1},
        .flags = cudaMemAccessFlagsProtReadWrite,
    };
    byte *const pooled = new_pool_memory(pool, zero), *const plain = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemPoolSetAccess(pool, &access, 1));
    MUST(cudaMemsetAsync(pooled, 160, SIZE, zero));
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    const cudaStream_t one = new_stream();
    after(one, event, zero);
    struct sum sum = {.to = plain, .from = pooled, .plus = 1};
    launch(&sum, one);
    to_host(host, plain, one);
    MUST(cudaFreeAsync(pooled, one));
    MUST(cudaStreamSynchronize(one));
    CHECK(host_finds(host, 161));
    MUST(cudaStreamDestroy(one));
    MUST(cudaSetDevice(0));
    MUST(cudaStreamDestroy(zero));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(plain));
    MUST(cudaFreeHost(host));
    MUST(cudaMemPoolDestroy(pool));
}

struct worker {
    pthread_t thread;
    int number;
    cudaEvent_t done;
    byte *host;
};

static void *work(void *argument)
{
    struct worker *const worker = argument;

    MUST(cudaSetDevice(worker->number % 2));
    const cudaStream_t stream = new_stream();
    const cudaMemPool_t pool = new_pool(worker->number % 2);
    byte *const device = new_pool_memory(pool, stream);
    worker->done = new_event();
    worker->host = new_pinned();
    MUST(cudaMemsetAsync(device, 170 + worker->number, SIZE, stream));
    to_host(worker->host, device, stream);
    MUST(cudaFreeAsync(device, stream));
    MUST(cudaEventRecord(worker->done, stream));
    if (worker->number % 2)
        MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaMemPoolDestroy(pool));
    return NULL;
}

/* Threads that queue work and end. The thread that started them waits for the work. */
static void threads(void)
{
    enum { THREADS = 4 };
    struct worker workers[THREADS];
    int device;

    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        MUST(cudaEventSynchronize(workers[i].done));
        CHECK(host_finds(workers[i].host, 170 + i));
        MUST(cudaEventDestroy(workers[i].done));
        MUST(cudaFreeHost(workers[i].host));
    }
    MUST(cudaGetDevice(&device));
    CHECK(device == 0);
}

const struct program right_memory_programs[] = {
    {"free behind work", free_behind_work},
    {"free waits", free_waits},
    {"pool across streams", pool_across_streams},
    {"pool reuse", pool_reuse},
    {"pool outlived", pool_outlived},
    {"default pool", default_pool},
    {"double buffering", double_buffering},
    {"pageable overwritten", pageable_overwritten},
    {"registered", registered},
    {"mapped", mapped},
    {"managed", managed},
    {"host functions", host_functions},
    {"chains of copies", chains_of_copies},
    {"peer copies", peer_copies},
    {"peer access", peer_access},
    {"threads", threads},
    {NULL, NULL},
};
