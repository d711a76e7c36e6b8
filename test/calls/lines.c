/*
 * Prints how often cache lines move between threads that have objects and streams of their own, or read objects
 * together. Their calls take turns. lines.py reads it. The library is built as for calls.c.
 */
#include "check_call.h"
#include "recorder.h"
#include "synced_mem/views.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 64 << 10, OBJECTS = 8, WARM = 20, ROUNDS = 100 };

struct thread {
    _Alignas(128) int number; /* on lines of its own */
    cudaStream_t stream;
    synced_mem *mems[OBJECTS];
};

static atomic_int arrivals;
static atomic_int turns;

/* The library's functions call these; some C libraries have none. */
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)function, (void)caller;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function, (void)caller;
}

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

static synced_mem *of_all;
static synced_mem *read_by_all[OBJECTS];

static void read_what_all_read(struct thread *its, int i)
{
    CHECK(synced_mem_cpu_data(read_by_all[i]));
    CHECK(synced_mem_gpu_data_on(read_by_all[i], its->stream));
}

/* The control: its line moves to each thread at its turn, and the test must see that. */
static void retain_what_all_have(struct thread *its, int i)
{
    (void)its, (void)i;
    OK(synced_mem_retain(of_all));
    OK(synced_mem_release(of_all));
}

static const struct work {
    const char *name;
    void (*run)(struct thread *its, int i);
} works[] = {
    {"retain and release of a common object", retain_what_all_have},
    {"cpu_data", read_on_host},
    {"cpu_data and gpu_data_on of what all threads read", read_what_all_read},
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

/* Runs the work on one object at this thread's turn. */
static void take_turn(struct thread *its, const struct work *work, int i, bool is_recorded)
{
    while (atomic_load(&turns) % RECORDED_THREADS != its->number)
        (void)sched_yield();
    if (is_recorded)
        recorder_begin(its->number);
    work->run(its, i);
    recorder_end();
    atomic_fetch_add(&turns, 1);
}

static void *run_works(void *state)
{
    struct thread *const its = state;
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_create(&its->mems[i], SIZE, NULL));
    for (const struct work *work = works; work < works + WORKS; work++) {
        for (int round = 0; round < WARM + ROUNDS; round++)
            for (int i = 0; i < OBJECTS; i++)
                take_turn(its, work, i, round >= WARM);
        await_all(); /* then main prints, and forgets */
        await_all();
    }
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_release(its->mems[i]));
    return NULL;
}

static void print_place(const void *place, long moves)
{
    printf("%zx %ld\n", (size_t)((uintptr_t)place - (uintptr_t)print_place - 1), moves);
}

int main(void)
{
    static struct thread threads[RECORDED_THREADS];
    pthread_t ids[RECORDED_THREADS];
    for (int i = 0; i < RECORDED_THREADS; i++) {
        threads[i].number = i;
        CHECK(cudaStreamCreateWithFlags(&threads[i].stream, cudaStreamNonBlocking) == cudaSuccess);
    }
    OK(synced_mem_create(&of_all, SIZE, NULL));
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_create(&read_by_all[i], SIZE, NULL));
    for (int i = 0; i < RECORDED_THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, run_works, &threads[i]) == 0);
    for (int number = 0; number < WORKS; number++) {
        await_all();
        printf("work %s\n", works[number].name);
        printf("moves %.3f\n", (double)recorder_visit_moves(print_place) / (RECORDED_THREADS * ROUNDS * OBJECTS));
        recorder_clear();
        await_all();
    }
    for (int i = 0; i < RECORDED_THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    OK(synced_mem_release(of_all));
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_release(read_by_all[i]));
    return 0;
}
