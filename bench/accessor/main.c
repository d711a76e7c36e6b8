/*
 * What an accessor costs when there is nothing to do: after transfers have happened, beside a function in this file and
 * calls into a shared library that do as little as can be done.
 *
 *     accessor              a table of nanoseconds per call: median and spread of repeated runs, taken in turn
 *     accessor NAME COUNT   one row's loop COUNT times, for an instruction counter
 */
#include "equal.h"
#include "synced_mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 15, CALLS = 20000000, BYTES = 4096 };

static struct equal equal;
static synced_mem *mem;
static synced_mem_stream stream; /* the legacy one: to the hot path it is a stream like any other */

static __attribute__((noinline)) const void *bare(const struct equal *object)
{
    return atomic_load_explicit(&object->ready, memory_order_relaxed);
}

/* Each loop adds up what it gets, so that no call can be left out. */
#define LOOP(name, call)                          \
    static uintptr_t name(uint64_t count)         \
    {                                             \
        uintptr_t sum = 0;                        \
        for (uint64_t i = 0; i < count; i++)      \
            sum += (uintptr_t)(call);             \
        return sum;                               \
    }
LOOP(loop_bare, bare(&equal))
LOOP(loop_load, equal_load(&equal))
LOOP(loop_equal, equal_access(&equal))
LOOP(loop_cpu, synced_mem_cpu_data(mem))
LOOP(loop_mutable_cpu, synced_mem_mutable_cpu_data(mem))
LOOP(loop_gpu, synced_mem_gpu_data(mem))
LOOP(loop_mutable_gpu, synced_mem_mutable_gpu_data(mem))
LOOP(loop_gpu_on, synced_mem_gpu_data_on(mem, stream))
LOOP(loop_mutable_gpu_on, synced_mem_mutable_gpu_data_on(mem, stream))

static const struct row {
    const char *name;
    const char *what;
    uintptr_t (*loop)(uint64_t count);
    synced_mem_state head; /* what the object is at for this row */
} rows[] = {
    {"bare", "a function in this file, one load", loop_bare, SYNCED_MEM_UNINITIALIZED},
    {"load", "shared library, one load", loop_load, SYNCED_MEM_UNINITIALIZED},
    {"equal", "shared library, acquire load and two branches", loop_equal, SYNCED_MEM_UNINITIALIZED},
    {"cpu_data", "synced_mem_cpu_data", loop_cpu, SYNCED_MEM_AT_CPU},
    {"mutable_cpu_data", "synced_mem_mutable_cpu_data", loop_mutable_cpu, SYNCED_MEM_AT_CPU},
    {"gpu_data", "synced_mem_gpu_data", loop_gpu, SYNCED_MEM_AT_GPU},
    {"mutable_gpu_data", "synced_mem_mutable_gpu_data", loop_mutable_gpu, SYNCED_MEM_AT_GPU},
    {"gpu_data_on", "synced_mem_gpu_data_on", loop_gpu_on, SYNCED_MEM_AT_GPU},
    {"mutable_gpu_data_on", "synced_mem_mutable_gpu_data_on", loop_mutable_gpu_on, SYNCED_MEM_AT_GPU},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool gpu_found;

static void must(bool ok)
{
    if (ok)
        return;
    fprintf(stderr, "accessor: %s\n", synced_mem_last_error_message());
    exit(1);
}

/* False: this machine can't do the row. Data goes to the device and back first, where there is one. */
static bool prepare(const struct row *row)
{
    if (row->head == SYNCED_MEM_AT_GPU && !gpu_found)
        return false;
    must(synced_mem_mutable_cpu_data(mem) != NULL);
    if (gpu_found)
        must(synced_mem_mutable_gpu_data(mem) != NULL);
    if (row->head == SYNCED_MEM_AT_CPU)
        must(synced_mem_mutable_cpu_data(mem) != NULL);
    return true;
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

static volatile uintptr_t sink;

static void measure_all(void)
{
    static double took[ROWS][RUNS];
    for (int run = -1; run < RUNS; run++) { /* the first warms up */
        for (size_t r = 0; r < ROWS; r++) {
            if (!prepare(&rows[r]))
                continue;
            const double start = seconds();
            sink = rows[r].loop(CALLS);
            if (run >= 0)
                took[r][run] = (seconds() - start) / CALLS * 1e9;
        }
    }
    double reference = 0;
    printf("%-48s %10s %16s %10s\n", "accessor with nothing to do", "ns/call", "fastest-slowest", "ratio");
    for (size_t r = 0; r < ROWS; r++) {
        if (!prepare(&rows[r])) {
            printf("%-48s skipped: no GPU\n", rows[r].what);
            continue;
        }
        qsort(took[r], RUNS, sizeof took[r][0], ascending);
        const double median = took[r][RUNS / 2];
        if (strcmp(rows[r].name, "equal") == 0)
            reference = median;
        char ratio[32] = "";
        if (rows[r].head != SYNCED_MEM_UNINITIALIZED)
            (void)snprintf(ratio, sizeof ratio, "%.2f", median / reference);
        printf("%-48s %10.2f %8.2f-%-7.2f %10s\n", rows[r].what, median, took[r][0], took[r][RUNS - 1], ratio);
    }
    printf("ratio: to the equal call through a shared library\n");
}

static int count_one(const char *name, const char *count)
{
    for (size_t r = 0; r < ROWS; r++) {
        if (strcmp(name, rows[r].name) == 0) {
            if (!prepare(&rows[r]))
                return 77;
            sink = rows[r].loop(strtoull(count, NULL, 10));
            return 0;
        }
    }
    fprintf(stderr, "accessor: no row '%s'\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    atomic_store(&equal.ready, &equal);
    gpu_found = synced_mem_device_count() > 0;
    must(synced_mem_create(&mem, BYTES, NULL) == SYNCED_MEM_OK);
    int result = 0;
    if (argc == 3)
        result = count_one(argv[1], argv[2]);
    else
        measure_all();
    must(synced_mem_release(mem) == SYNCED_MEM_OK);
    must(synced_mem_shutdown() == SYNCED_MEM_OK);
    return result;
}
