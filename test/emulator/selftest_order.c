/*
 * The time at which queued work runs, and its thread.
 */
#include "selftest.h"

#include <pthread.h>
#include <stdatomic.h>

static void test_late(void)
{
    unsigned char *from = pinned(1), *to = pinned(0);
    unsigned char *memory = device_memory();
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    struct increment work = {memory, SIZE, 4};
    CHECK(peek(memory) == 0xCD);
    OK(cudaMemcpyAsync(memory, from, SIZE, cudaMemcpyHostToDevice, stream));
    launch_increment(stream, &work);
    OK(cudaMemcpyAsync(to, memory, SIZE, cudaMemcpyDeviceToHost, stream));
    if (seed == 0)
        CHECK(emu_pending() == 3 && to[0] == 0 && peek(memory) == 0xCD);
    OK(cudaStreamSynchronize(stream));
    CHECK(to[0] == 5 && to[SIZE - 1] == 5 && emu_pending() == 0);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
    OK(cudaFreeHost(from));
    OK(cudaFreeHost(to));
}

static void test_pageable(void)
{
    unsigned char from[SIZE], to[SIZE];
    unsigned char *memory = device_memory();
    cudaStream_t stream = stream_of(cudaStreamDefault);
    memset(from, 7, SIZE);
    memset(to, 0, SIZE);
    OK(cudaMemcpyAsync(memory, from, SIZE, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(to, memory, SIZE, cudaMemcpyDeviceToHost, stream));
    if (seed == 0)
        CHECK(emu_pending() == 2 && to[0] == 0);
    OK(cudaStreamSynchronize(stream));
    CHECK(to[0] == 7 && to[SIZE - 1] == 7);
    memset(from, 8, SIZE);
    OK(cudaMemcpy(memory, from, SIZE, cudaMemcpyDefault));
    OK(cudaMemcpy(to, memory, SIZE, cudaMemcpyDefault));
    CHECK(to[0] == 8);
    OK(cudaMemset(memory, 9, SIZE));
    OK(cudaMemcpy(to, memory, SIZE, cudaMemcpyDefault));
    CHECK(to[0] == 9);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
}

enum { IN_BATCH = 4 };

static cudaError_t copy_batch(unsigned char *device, unsigned char *const *sources, cudaStream_t stream)
{
    void *to[IN_BATCH];
    const void *from[IN_BATCH];
    size_t sizes[IN_BATCH];
    size_t first = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    for (int i = 0; i < IN_BATCH; i++) {
        to[i] = device + 16 * i;
        from[i] = sources[i];
        sizes[i] = 16;
    }
    return cudaMemcpyBatchAsync(to, from, sizes, IN_BATCH, &attributes, &first, 1, stream);
}

/* Over all seeds each copy of a batch comes first, and last. A wait for the stream waits for all copies. */
static void test_batch(void)
{
    static bool first[IN_BATCH], last[IN_BATCH];
    unsigned char *sources[IN_BATCH], *memory = device_memory();
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    int done = 0, seen[IN_BATCH] = {0};
    for (int i = 0; i < IN_BATCH; i++)
        sources[i] = pinned((unsigned char)(i + 1));
    OK(copy_batch(memory, sources, stream));
    for (int tries = 0; tries < 100 && done < IN_BATCH; tries++) {
        for (int i = 0; i < IN_BATCH; i++)
            done += !seen[i] && (seen[i] = peek(memory + 16 * i) == i + 1);
        for (int i = 0; i < IN_BATCH; i++) {
            first[i] = first[i] || (done == 1 && seen[i]);
            last[i] = last[i] || (done == IN_BATCH - 1 && !seen[i]);
        }
        (void)cudaStreamQuery(stream);
    }
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < IN_BATCH; i++) {
        CHECK(peek(memory + 16 * i) == i + 1 && peek(memory + 16 * i + 15) == i + 1);
        CHECK(seed < 150 || (first[i] && last[i]));
        OK(cudaFreeHost(sources[i]));
    }
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
}

/* Two blocking streams around a legacy operation, and a stream that is not ordered with them. */
static void test_legacy(void)
{
    unsigned char *memory = device_memory(), *apart = device_memory();
    cudaStream_t first = stream_of(cudaStreamDefault), second = stream_of(cudaStreamDefault);
    cudaStream_t other = stream_of(cudaStreamNonBlocking);
    OK(cudaMemsetAsync(memory, 1, SIZE, first));
    OK(cudaMemsetAsync(apart, 1, SIZE, other));
    OK(cudaMemsetAsync(memory, 2, SIZE, NULL));
    OK(cudaMemsetAsync(memory, 3, SIZE, second));
    OK(cudaStreamSynchronize(second));
    CHECK(peek(memory) == 3);
    if (seed == 0)
        CHECK(peek(apart) == 0xCD && emu_pending() == 1);
    OK(cudaDeviceSynchronize());
    CHECK(peek(memory) == 3 && peek(apart) == 1);
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaStreamDestroy(other));
    OK(cudaFree(memory));
    OK(cudaFree(apart));
}

static void test_events(void)
{
    unsigned char *memory = device_memory();
    cudaStream_t first = stream_of(cudaStreamNonBlocking), second = stream_of(cudaStreamNonBlocking);
    cudaEvent_t event = new_event(), never = new_event();
    int polls = 0;
    OK(cudaMemsetAsync(memory, 1, SIZE, first));
    OK(cudaEventRecord(event, first));
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaStreamWaitEvent(second, never, 0));
    /* The wait refers to the earlier record. Neither of these calls changes it. */
    OK(cudaMemsetAsync(memory + SIZE / 2, 5, SIZE / 2, first));
    OK(cudaEventRecord(event, first));
    OK(cudaMemsetAsync(memory, 2, SIZE / 2, second));
    OK(cudaStreamSynchronize(second));
    CHECK(peek(memory) == 2);
    while (cudaEventQuery(event) == cudaErrorNotReady)
        CHECK(++polls < 100);
    CHECK(cudaGetLastError() == cudaSuccess && peek(memory + SIZE / 2) == 5);
    OK(cudaEventQuery(never));
    OK(cudaEventRecord(never, second));
    OK(cudaEventDestroy(never));
    OK(cudaEventDestroy(event));
    OK(cudaMemsetAsync(memory, 6, SIZE, second));
    /* A busy stream may be destroyed. Its handle is reused at once, and its work still runs. */
    OK(cudaStreamDestroy(second));
    cudaStream_t third = stream_of(cudaStreamNonBlocking);
    CHECK(third == second);
    OK(cudaDeviceSynchronize());
    CHECK(peek(memory) == 6);
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(third));
    OK(cudaFree(memory));
}

static void call_inside(void *argument)
{
    void *memory;
    *(cudaError_t *)argument = cudaMalloc(&memory, 1);
}

static void test_host_function(void)
{
    cudaError_t inside = cudaSuccess;
    OK(cudaLaunchHostFunc(NULL, call_inside, &inside));
    OK(cudaStreamSynchronize(cudaStreamLegacy));
    CHECK(inside == cudaErrorNotPermitted && cudaGetLastError() == cudaSuccess);
}

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open;
};

static void wait_at_gate(void *argument)
{
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->moved, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

/* A host function may wait for the thread that queued it. Queries and queueing must not block then. */
static void test_held_stream(void)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    unsigned char *memory = device_memory(), pageable[8] = {1};
    cudaStream_t stream = stream_of(cudaStreamDefault);
    cudaEvent_t event = new_event();
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &gate));
    OK(cudaMemcpyAsync(memory, pageable, sizeof pageable, cudaMemcpyDefault, stream));
    OK(cudaEventRecord(event, stream));
    for (int i = 0; i < 30; i++) {
        GIVES(cudaEventQuery(event), cudaErrorNotReady);
        GIVES(cudaStreamQuery(stream), cudaErrorNotReady);
        GIVES(cudaStreamQuery(NULL), cudaErrorNotReady);
    }
    CHECK(peek(memory) == 0xCD);
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_signal(&gate.moved);
    pthread_mutex_unlock(&gate.lock);
    OK(cudaStreamSynchronize(NULL));
    CHECK(peek(memory) == 1);
    OK(cudaEventQuery(event));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
}

/* ---- Threads ---- */

#define THREADS 4
#define ROUNDS 300

static void *hammer(void *argument)
{
    const int device = *(const int *)argument % 2;
    OK(cudaSetDevice(device));
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    unsigned char *host = pinned(0);
    for (int i = 0; i < ROUNDS; i++) {
        void *memory;
        memset(host, i & 0xff, SIZE);
        OK(cudaMallocAsync(&memory, SIZE, stream));
        struct increment work = {memory, SIZE, 1};
        OK(cudaMemcpyAsync(memory, host, SIZE, cudaMemcpyDefault, stream));
        launch_increment(stream, &work);
        OK(cudaMemcpyAsync(host, memory, SIZE, cudaMemcpyDefault, stream));
        OK(cudaFreeAsync(memory, stream));
        OK(cudaStreamSynchronize(stream));
        CHECK(host[0] == ((i + 1) & 0xff) && host[SIZE - 1] == host[0]);
    }
    OK(cudaFreeHost(host));
    OK(cudaStreamDestroy(stream));
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, hammer, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(emu_live(EMU_DEVICE_MEMORY) == 0);
}

/* ---- Frees without end ---- */

struct chain {
    cudaStream_t stream;
    atomic_int left;
    atomic_int done;
};

static void free_another(void *argument);

static void *queue_free(void *argument)
{
    const struct chain *chain = argument;
    void *memory;
    OK(cudaMallocAsync(&memory, SIZE, chain->stream));
    OK(cudaLaunchHostFunc(chain->stream, free_another, argument));
    OK(cudaFreeAsync(memory, chain->stream));
    return NULL;
}

static void free_another(void *argument)
{
    struct chain *chain = argument;
    pthread_t thread;
    atomic_fetch_add(&chain->done, 1);
    if (atomic_fetch_sub(&chain->left, 1) > 0)
        CHECK(pthread_create(&thread, NULL, queue_free, argument) == 0 && pthread_join(thread, NULL) == 0);
}

/* An allocation in vain runs the frees that it finds. It runs no frees that another thread queues meanwhile. */
static void test_frees_without_end(void)
{
    enum { MOST = 200 };
    void *memory;
    struct chain chain = {stream_of(cudaStreamNonBlocking), MOST, 0};
    cudaStream_t other = stream_of(cudaStreamNonBlocking);
    queue_free(&chain);
    GIVES(cudaMallocAsync(&memory, SIZE_MAX / 8, other), cudaErrorMemoryAllocation);
    CHECK(atomic_load(&chain.done) < MOST / 2);
    atomic_store(&chain.left, 0);
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(other));
    OK(cudaStreamDestroy(chain.stream));
}

void (*const order_tests[])(void) = {test_late,          test_pageable, test_legacy, test_events,
                                     test_host_function, test_batch,    NULL};
void (*const order_tests_once[])(void) = {test_held_stream, test_threads, test_frees_without_end, NULL};
