/*
 * What page-locked memory costs: the first time beside cudaMallocHost, and when it is used again, with one thread and
 * with several; and how much is held for what is in use. Medians of runs that are taken in turn.
 *
 * pool
 */
#include "reference.h"
#include "tensor_trace.h"

#include "device.h"
#include "host_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 7, THREADS = 16, TRACE_EVENTS = 100000 };

static const size_t KIB = 1024;
static const size_t MIB = 1024 * 1024;

static bool gpu_found;

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "pool: %s: %s\n", what, synced_mem_last_error_message());
    exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, RUNS, sizeof *values, ascending);
    return values[RUNS / 2];
}

static struct sm_pinned take(size_t size)
{
    struct sm_pinned memory;
    must(sm_host_pool_alloc(0, size, &memory) == SYNCED_MEM_OK, "allocation");
    return memory;
}

static void give(const struct sm_pinned *memory)
{
    sm_host_pool_free(memory->data, memory->bytes, memory->owner);
}

/* "256 MiB" */
static const char *name_of(size_t size, char text[16])
{
    if (size >= MIB)
        (void)snprintf(text, 16, "%zu MiB", size / MIB);
    else if (size >= KIB)
        (void)snprintf(text, 16, "%zu KiB", size / KIB);
    else
        (void)snprintf(text, 16, "%zu B", size);
    return text;
}

static bool is_too_large(size_t size, size_t most)
{
    return reference_is_emulated() && size > most;
}

/* Both sides of a comparison are skipped where there is nothing to compare. */
static bool skips(const char *name, size_t size)
{
    if (gpu_found && !is_too_large(size, 64 * MIB))
        return false;
    printf("%-10s %s\n", name, gpu_found ? "skipped: too large for the emulated runtime" : "skipped: no GPU");
    return true;
}

/* ---- The first time ---- */

static double first_of_reference(size_t size)
{
    const double start = seconds();
    void *const data = reference_alloc(size);
    const double took = seconds() - start;
    must(data != NULL, "cudaMallocHost");
    reference_free(data);
    return took;
}

static double first_of_pool(size_t size)
{
    const double start = seconds();
    const struct sm_pinned memory = take(size);
    const double took = seconds() - start;
    give(&memory);
    must(sm_host_pool_shutdown() == SYNCED_MEM_OK, "shutdown");
    return took;
}

static void measure_first(size_t size)
{
    char name[16];
    double reference[RUNS];
    double pool[RUNS];
    if (skips(name_of(size, name), size))
        return;
    for (int run = -1; run < RUNS; run++) { /* the first warms up */
        const int at = run < 0 ? 0 : run;
        reference[at] = first_of_reference(size);
        pool[at] = first_of_pool(size);
    }
    const double slow = median(reference);
    const double fast = median(pool);
    printf("%-10s %12.3f %12.3f %9.1f\n", name, 1e3 * slow, 1e3 * fast, slow / fast);
}

/* ---- Again ---- */

static size_t size_now;
static unsigned pairs_now;
static pthread_barrier_t together;
static double took[THREADS + 1];

/* Thread 0 is alone. */
static void *take_and_give(void *argument)
{
    const size_t thread = (size_t)argument;
    struct sm_pinned memory = take(size_now);
    give(&memory);
    if (thread > 0)
        (void)pthread_barrier_wait(&together);
    const double start = seconds();
    for (unsigned i = 0; i < pairs_now; i++) {
        memory = take(size_now);
        give(&memory);
    }
    took[thread] = seconds() - start;
    return NULL;
}

/* Of one call, in nanoseconds: the mean of a thread, the slowest thread's. */
static double again_by_threads(size_t size)
{
    pthread_t threads[THREADS];
    double slowest = 0;
    size_now = size;
    pairs_now = 20000;
    must(pthread_barrier_init(&together, NULL, THREADS) == 0, "barrier");
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1)) == 0, "thread");
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0, "join");
    (void)pthread_barrier_destroy(&together);
    for (int i = 1; i <= THREADS; i++)
        slowest = took[i] > slowest ? took[i] : slowest;
    return 1e9 * slowest / pairs_now / 2;
}

static double again_by_one(size_t size)
{
    size_now = size;
    pairs_now = 100000;
    (void)take_and_give(NULL);
    return 1e9 * took[0] / pairs_now / 2;
}

static double again_by_reference(size_t size)
{
    enum { PAIRS = 3 };
    const double start = seconds();
    for (int i = 0; i < PAIRS; i++) {
        void *const data = reference_alloc(size);
        must(data != NULL, "cudaMallocHost");
        reference_free(data);
    }
    return 1e9 * (seconds() - start) / PAIRS / 2;
}

/* Sixteen threads hold sixteen times as much. */
static void measure_again(size_t size)
{
    char name[16];
    double reference[RUNS];
    double one[RUNS];
    double all[RUNS];
    const bool with_threads = size <= 256 * MIB && !is_too_large(size, MIB);
    if (skips(name_of(size, name), size))
        return;
    for (int run = -1; run < RUNS; run++) {
        const int at = run < 0 ? 0 : run;
        reference[at] = again_by_reference(size);
        one[at] = again_by_one(size);
        all[at] = with_threads ? again_by_threads(size) : 0;
    }
    printf("%-10s %12.0f %12.1f ", name, median(reference), median(one));
    if (with_threads)
        printf("%12.1f\n", median(all));
    else
        printf("%12s\n", "-");
    must(sm_host_pool_shutdown() == SYNCED_MEM_OK, "shutdown");
}

/* ---- A mixed trace ---- */

static double time_in_pool;

static void *take_for_trace(size_t size, void **owner)
{
    const double start = seconds();
    const struct sm_pinned memory = take(size);
    time_in_pool += seconds() - start;
    *owner = memory.owner;
    return memory.data;
}

static void give_for_trace(void *data, size_t size, void *owner)
{
    const double start = seconds();
    sm_host_pool_free(data, size, owner);
    time_in_pool += seconds() - start;
}

static void measure_trace(enum trace_kind kind, const char *name)
{
    const struct trace_user user = {
        .alloc = take_for_trace, .free = give_for_trace, .shrink = reference_is_emulated() ? 32 : 1};
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    if (!gpu_found) {
        printf("%-10s skipped: no GPU\n", name);
        return;
    }
    time_in_pool = 0;
    must(synced_mem_host_pool_reset_peaks() == SYNCED_MEM_OK, "peaks");
    trace_play(kind, TRACE_EVENTS, &user);
    must(synced_mem_host_pool_get_stats(&stats) == SYNCED_MEM_OK, "numbers");
    printf("%-10s %12.1f %12.1f %9.3f %12.0f\n", name, 1e-6 * (double)stats.peak_requested_bytes,
           1e-6 * (double)stats.peak_held_bytes, (double)stats.peak_held_bytes / (double)stats.peak_requested_bytes,
           1e9 * time_in_pool / TRACE_EVENTS);
    must(sm_host_pool_shutdown() == SYNCED_MEM_OK, "shutdown");
}

int main(void)
{
    int device;
    gpu_found = reference_start() && sm_device_resolve(0, &device) == SYNCED_MEM_OK;
    printf("first allocation, ms\n%-10s %12s %12s %9s\n", "size", "cudaMallocHost", "pool", "times");
    for (size_t size = 64 * MIB; size <= 1024 * MIB; size *= 4)
        measure_first(size);
    printf("\nreused, ns a call (half an allocation and free)\n%-10s %12s %12s %12s\n", "size", "cudaMallocHost",
           "1 thread", "16 threads");
    for (size_t size = 256; size <= 1024 * MIB; size *= size < 16 * MIB ? 8 : 4)
        measure_again(size);
    printf("\n%d allocations and frees of tensors, MB\n%-10s %12s %12s %9s %12s\n", TRACE_EVENTS, "lives", "requested",
           "held", "ratio", "ns a call");
    measure_trace(TRACE_TRAINING, "nested");
    measure_trace(TRACE_MIXED, "mixed");
    return 0;
}
