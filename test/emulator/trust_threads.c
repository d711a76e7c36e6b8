/*
 * Programs of two threads that hand plain memory from one to the other around calls of the emulated runtime.
 * ThreadSanitizer must be silent if CUDA orders the two. It must report a race if only the emulator's lock orders them.
 * Only builds with ThreadSanitizer have this test.
 *
 * Usage: trust_threads [program]
 */
#include "trust.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { EXIT_REPORTED = 66 /* ThreadSanitizer's, after a report */, SEEDS = 4 };

static struct {
    int data;          /* written by the giver, then read by the taker */
    atomic_bool given; /* tells the taker when to start, and orders nothing */
    cudaStream_t one, two, blocking;
    cudaEvent_t event, later;
    byte *device, *pinned, *again;
    byte *pageable;
    atomic_bool ran;
} it;

/* ---- Parts ---- */

static void nothing(void)
{
}

static void any_call(void)
{
    int device;
    MUST(cudaGetDevice(&device));
    MUST(cudaSetDevice(device));
    (void)emu_calls("cudaMalloc");
}

static void work_on(cudaStream_t stream)
{
    MUST(cudaMemsetAsync(it.device, 1, SIZE, stream));
}

static void work_on_one(void)
{
    work_on(it.one);
}

static void work_on_two(void)
{
    MUST(cudaMemsetAsync(it.pinned, 1, SIZE, it.two));
    MUST(cudaStreamSynchronize(it.two));
}

static void record_one(void)
{
    work_on(it.one);
    MUST(cudaEventRecord(it.event, it.one));
}

static void record_blocking(void)
{
    work_on(it.blocking);
    MUST(cudaEventRecord(it.event, it.blocking));
}

static void record_legacy(void)
{
    work_on(NULL);
    MUST(cudaEventRecord(it.event, NULL));
}

static void destroy_one_after_record(void)
{
    record_one();
    MUST(cudaStreamDestroy(it.one));
}

static void wait_for_event(void)
{
    MUST(cudaEventSynchronize(it.event));
}

static void query_event(void)
{
    while (cudaEventQuery(it.event) == cudaErrorNotReady)
        continue;
}

static void wait_for_one(void)
{
    MUST(cudaStreamSynchronize(it.one));
}

static void query_one(void)
{
    while (cudaStreamQuery(it.one) == cudaErrorNotReady)
        continue;
}

static void query_legacy(void)
{
    while (cudaStreamQuery(NULL) == cudaErrorNotReady)
        continue;
}

static void wait_for_blocking(void)
{
    work_on(it.blocking);
    MUST(cudaStreamSynchronize(it.blocking));
}

static void wait_for_legacy(void)
{
    MUST(cudaStreamSynchronize(NULL));
}

static void wait_for_device(void)
{
    MUST(cudaDeviceSynchronize());
}

/* Only the stream waits. */
static void two_after_event(void)
{
    MUST(cudaStreamWaitEvent(it.two, it.event, 0));
}

static void wait_for_two_after_event(void)
{
    two_after_event();
    MUST(cudaStreamSynchronize(it.two));
}

/* A finished event orders as well as a pending one. */
static void wait_for_two_after_a_done_event(void)
{
    emu_run_all();
    wait_for_two_after_event();
}

/* The wait orders only what is queued on the stream after it. */
static void wait_for_two_before_event(void)
{
    work_on_two();
    MUST(cudaEventRecord(it.later, it.two));
    emu_run_all();
    two_after_event();
    MUST(cudaEventSynchronize(it.later));
}

static void free_device_memory(void)
{
    MUST(cudaFree(it.device));
}

static void fill_pinned(void)
{
    MUST(cudaMemsetAsync(it.pinned, 3, SIZE, it.one));
}

static void free_pinned_memory(void)
{
    MUST(cudaFreeHost(it.pinned));
}

static void run_all(void)
{
    emu_run_all();
}

/* ---- Code on streams ---- */

static void set_data(void *unused)
{
    (void)unused;
    it.data++;
    atomic_store_explicit(&it.ran, true, memory_order_relaxed);
}

static void host_function_on_one(void)
{
    MUST(cudaLaunchHostFunc(it.one, set_data, NULL));
}

static void host_function_and_record(void)
{
    host_function_on_one();
    record_one();
}

static void wait_until_it_ran(void)
{
    emu_run_all();
    while (!atomic_load_explicit(&it.ran, memory_order_relaxed))
        sched_yield();
}

static void free_sum(void *argument)
{
    run_sum(argument);
    free(argument);
}

/* One thread allocates the argument, and any may free it. */
static void kernel_on_one(void)
{
    struct sum *const sum = malloc(sizeof *sum);
    const struct emu_range range = {it.device, SIZE, true};

    CHECK(sum != NULL);
    *sum = (struct sum){it.device, it.device, 1};
    MUST(emu_launch(it.one, free_sum, sum, &range, 1));
}

/* ---- Memory ---- */

static void give_pinned_back(void)
{
    memset(it.pinned, 1, SIZE);
    MUST(cudaFreeHost(it.pinned));
}

static void take_the_same_memory(void)
{
    byte *const again = new_pinned();

    CHECK(again == it.pinned);
    memset(again, 2, SIZE);
}

static void write_pageable(void)
{
    memset(it.pageable, 1, SIZE);
}

/* The runtime reads and writes pageable memory during the call. */
static void push_pageable(void)
{
    to_device(it.device, it.pageable, it.two);
}

static void pull_to_pageable(void)
{
    to_host(it.pageable, it.device, it.two);
}

/* ---- Programs ---- */

struct hand_over {
    const char *name;
    void (*give)(void); /* after the data were written */
    void (*take)(void); /* before they are read */
    bool without_data;  /* the parts access memory of their own */
};

static const struct hand_over unordered[] = {
    {"nothing", nothing, nothing, false},
    {"any call", any_call, any_call, false},
    {"a stream each", work_on_one, work_on_two, false},
    {"one stream, not waited for", work_on_one, fill_pinned, false},
    {"work that the taker runs", kernel_on_one, run_all, false},
    {"an event that only a stream waits for", record_one, two_after_event, false},
    {"an earlier event of the stream that waits", record_one, wait_for_two_before_event, false},
    {"a host function that nobody waits for", host_function_on_one, wait_until_it_ran, false},
    {"legacy work and a stream beside it", record_legacy, work_on_two, false},
    {"a push of what is written", write_pageable, push_pageable, true},
    {"a pull to what is written", write_pageable, pull_to_pageable, true},
};

static const struct hand_over ordered[] = {
    {"event synchronized", record_one, wait_for_event, false},
    {"event done", record_one, query_event, false},
    {"event of a destroyed stream", destroy_one_after_record, wait_for_event, false},
    {"stream synchronized", work_on_one, wait_for_one, false},
    {"stream idle", work_on_one, query_one, false},
    {"device synchronized", work_on_one, wait_for_device, false},
    {"through another stream", record_one, wait_for_two_after_event, false},
    {"through another stream, done before", record_one, wait_for_two_after_a_done_event, false},
    {"legacy stream after a blocking one", record_blocking, wait_for_legacy, false},
    {"legacy stream idle after a blocking one", record_blocking, query_legacy, false},
    {"blocking stream after the legacy one", record_legacy, wait_for_blocking, false},
    {"device memory freed", work_on_one, free_device_memory, false},
    {"page-locked memory freed", fill_pinned, free_pinned_memory, false},
    {"host function", host_function_on_one, wait_for_one, false},
    {"event after a host function", host_function_and_record, wait_for_event, false},
    {"a kernel's argument", kernel_on_one, wait_for_one, false},
    {"page-locked memory handed on", give_pinned_back, take_the_same_memory, true},
};

static void *give(void *argument)
{
    const struct hand_over *const program = argument;

    if (!program->without_data)
        it.data = 1;
    program->give();
    atomic_store_explicit(&it.given, true, memory_order_relaxed);
    return NULL;
}

static void run(const struct hand_over *program)
{
    pthread_t giver;

    it.one = new_stream();
    it.two = new_stream();
    it.blocking = new_blocking_stream();
    it.event = new_event();
    it.later = new_event();
    it.device = new_device_memory();
    it.pinned = new_pinned();
    it.pageable = malloc(SIZE);
    CHECK(it.pageable != NULL);
    CHECK(pthread_create(&giver, NULL, give, (void *)(uintptr_t)program) == 0);
    while (!atomic_load_explicit(&it.given, memory_order_relaxed))
        sched_yield();
    program->take();
    if (!program->without_data)
        it.data++;
    CHECK(pthread_join(giver, NULL) == 0);
}

/* ---- Runs ---- */

/* Reads all of the child's report, and keeps the part that fits. */
static void read_report(int from, char *report, size_t size)
{
    char rest[512];
    size_t length = 0;
    ssize_t got;

    while ((got = read(from, rest, sizeof rest)) > 0) {
        const size_t part = (size_t)got < size - 1 - length ? (size_t)got : size - 1 - length;

        memcpy(report + length, rest, part);
        length += part;
    }
    report[length] = '\0';
}

static bool ends_as_it_should(const struct hand_over *program, bool races, uint64_t seed)
{
    static char report[1 << 14];
    int ends[2], status;

    fflush(NULL);
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
        close(ends[0]);
        close(ends[1]);
        emu_reset(seed);
        run(program);
        exit(0);
    }
    close(ends[1]);
    read_report(ends[0], report, sizeof report);
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == (races ? EXIT_REPORTED : 0) &&
        (strstr(report, "data race") != NULL) == races)
        return true;
    printf("FAIL %s, seed %d: status %#x, report: %s\n", program->name, (int)seed, (unsigned)status,
           report[0] != '\0' ? report : "none");
    return false;
}

static int wrong_of(const struct hand_over *programs, size_t count, bool races, const char *only, int *ran)
{
    int wrong = 0;

    for (size_t i = 0; i < count; i++) {
        bool right = true;

        if (only != NULL && strcmp(only, programs[i].name) != 0)
            continue;
        ++*ran;
        for (uint64_t seed = 0; seed < SEEDS && right; seed++)
            right = ends_as_it_should(&programs[i], races, seed);
        wrong += !right;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 ? argv[1] : NULL;
    int ran = 0, wrong = 0;

    wrong += wrong_of(unordered, sizeof unordered / sizeof *unordered, true, only, &ran);
    wrong += wrong_of(ordered, sizeof ordered / sizeof *ordered, false, only, &ran);
    printf("%d programs, %d wrong\n", ran, wrong);
    return wrong > 0 || ran == 0;
}
