/*
 * Prints how often threads with objects and streams of their own use cache lines that other threads use too, where one
 * of them writes the line. lines.py reads it. The library is built as for calls.c.
 */
#include "recorder.h"
#include "synced_mem.h"
#include "synced_mem/views.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, synced_mem_last_error_message());               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == SYNCED_MEM_OK)

enum { SIZE = 64 << 10, OBJECTS = 8, WARM = 20, ROUNDS = 100 };

struct thread {
    _Alignas(128) int number; /* on lines of its own */
    cudaStream_t stream;
    synced_mem *mems[OBJECTS];
};

static atomic_int arrivals;

/* ---- The works: a call or two on each object of the thread ---- */

static void read_on_host(struct thread *its, int i)
{
    CHECK(synced_mem_cpu_data(its->mems[i]));
}

static void overwrite_on_host(struct thread *its, int i)
{
    OK(synced_mem_release_data(its->mems[i]));
    CHECK(synced_mem_overwrite_cpu_data(its->mems[i]));
}

static void overwrite_on_device(struct thread *its, int i)
{
    OK(synced_mem_release_data(its->mems[i]));
    CHECK(synced_mem_overwrite_gpu_data_on(its->mems[i], its->stream));
}

static void use_on_device(struct thread *its, int i)
{
    CHECK(synced_mem_mutable_gpu_data_on(its->mems[i], its->stream));
    OK(synced_mem_end_use_on(its->mems[i], its->stream));
    if (i == OBJECTS - 1)
        CHECK(cudaStreamSynchronize(its->stream) == cudaSuccess);
}

static void live(struct thread *its, int i)
{
    OK(synced_mem_release(its->mems[i]));
    OK(synced_mem_create(&its->mems[i], SIZE, NULL));
}

static void live_on_host(struct thread *its, int i)
{
    live(its, i);
    CHECK(synced_mem_overwrite_cpu_data(its->mems[i]));
}

static void make_view(struct thread *its, int i)
{
    synced_mem *view;
    OK(synced_mem_view(&view, its->mems[i], 0, SIZE / 2, NULL));
    CHECK(synced_mem_mutable_cpu_data(view));
    OK(synced_mem_release(view));
}

static const struct work {
    const char *name;
    void (*run)(struct thread *its, int i);
} works[] = {
    {"cpu_data", read_on_host},
    {"release_data and overwrite_cpu_data", overwrite_on_host},
    {"release_data and overwrite_gpu_data_on", overwrite_on_device},
    {"mutable_gpu_data_on and end_use_on", use_on_device},
    {"create and release", live},
    {"create, overwrite_cpu_data, and release", live_on_host},
    {"view, mutable_cpu_data, and release", make_view},
};
enum { WORKS = sizeof works / sizeof *works };

/* ---- Threads ---- */

/* Waits until main and all threads have called this equally often. */
static void await_all(void)
{
    const int before = atomic_fetch_add(&arrivals, 1);
    const int all = (before / (RECORDED_THREADS + 1) + 1) * (RECORDED_THREADS + 1);
    while (atomic_load(&arrivals) < all)
        (void)sched_yield();
}

static void *work(void *state)
{
    struct thread *const its = state;
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_create(&its->mems[i], SIZE, NULL));
    for (int number = 0; number < WORKS; number++) {
        /* All threads have memory at once, so none takes another's afterwards. */
        for (int i = 0; i < OBJECTS; i++)
            works[number].run(its, i);
        await_all();
        for (int round = 0; round < WARM + ROUNDS; round++) {
            if (round == WARM) {
                await_all();
                recorder_begin(its->number);
            }
            for (int i = 0; i < OBJECTS; i++)
                works[number].run(its, i);
        }
        recorder_end();
        await_all(); /* then main prints, and forgets */
        await_all();
    }
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_release(its->mems[i]));
    return NULL;
}

static void print_place(const void *place, long times)
{
    printf("%zx %ld\n", (size_t)((uintptr_t)place - (uintptr_t)print_place - 1), times);
}

int main(void)
{
    static struct thread threads[RECORDED_THREADS];
    pthread_t ids[RECORDED_THREADS];
    for (int i = 0; i < RECORDED_THREADS; i++) {
        threads[i].number = i;
        CHECK(cudaStreamCreateWithFlags(&threads[i].stream, cudaStreamNonBlocking) == cudaSuccess);
    }
    for (int i = 0; i < RECORDED_THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, work, &threads[i]) == 0);
    for (int number = 0; number < WORKS; number++) {
        await_all();
        await_all();
        await_all();
        printf("work %s\n", works[number].name);
        printf("times %.3f\n", (double)recorder_count_shared(print_place) / (RECORDED_THREADS * ROUNDS * OBJECTS));
        recorder_clear();
        await_all();
    }
    for (int i = 0; i < RECORDED_THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    return 0;
}
