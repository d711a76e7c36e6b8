/* Page-locked memory: its first allocation, which calls the driver, and its release. */
#include "bare.h"
#include "object.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- First allocation ---- */

static double first_of_library(void *state)
{
    synced_mem *const mem = make_object(*(const size_t *)state);
    const double begin = seconds_now();
    must_work(synced_mem_overwrite_cpu_data(mem) != NULL);
    const double took = seconds_now() - begin;
    must(synced_mem_cpu_is_pinned(mem), "the library's host memory is not page-locked");
    release_object(mem);
    must_work(synced_mem_host_pool_trim(0) == SYNCED_MEM_OK);
    return took;
}

/* The memory is allocated and touched before: only the driver's part is timed. */
static double register_alone(void *state)
{
    const size_t size = *(const size_t *)state;
    const size_t huge = 2 * MIB;
    char *const wide = mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(wide != MAP_FAILED, "no memory");
    char *const data = wide + (0 - (uintptr_t)wide) % huge;
    (void)madvise(data, size, MADV_HUGEPAGE);
    memset(data, 1, size);
    const double begin = seconds_now();
    bare_register(data, size);
    const double took = seconds_now() - begin;
    bare_unregister(data);
    (void)munmap(wide, size + huge);
    return took;
}

static double first_classic(void *state)
{
    const double begin = seconds_now();
    void *const data = bare_host_alloc(*(const size_t *)state);
    const double took = seconds_now() - begin;
    bare_host_free(data);
    return took;
}

void measure_first_allocations(void)
{
    static const struct table table = {"allocation",
                                       "pinned-first",
                                       "Page-locked memory, the first time",
                                       UNIT_MS,
                                       "cudaHostRegister of touched memory",
                                       "cudaMallocHost"};
    static const struct way ways[] = {{"overwrite_cpu_data", first_of_library},
                                      {"cudaHostRegister", register_alone},
                                      {"cudaMallocHost", first_classic}};
    static const size_t sizes[] = {4 * KIB, 256 * KIB, 1 * MIB, 16 * MIB, 64 * MIB, (size_t)256 * MIB, GIB};
    report_table(&table);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        struct summary results[3];
        struct row row = row_of(&table, size_name(size), (double)size);
        if (size >= 64 * MIB)
            row_target(&row, FASTER, AT_LEAST, 5);
        if (!row_can_run(&row, true, size))
            continue;
        compare(ways, 3, &size, results);
        report_times(&row, results, 0);
    }
}

/* ---- Release ---- */

enum { MOST_GIVEN_UP = 64 };

struct given_up {
    size_t size;
    int count;
    bool whole; /* releases the object; else its host copy alone */
    synced_mem *mems[MOST_GIVEN_UP];
};

/* The objects have page-locked memory only. */
static double release_objects(struct given_up *on)
{
    for (int i = 0; i < on->count; i++) {
        on->mems[i] = make_object(on->size);
        must_work(synced_mem_overwrite_cpu_data(on->mems[i]) != NULL);
    }
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        must_work(synced_mem_release(on->mems[i]) == SYNCED_MEM_OK);
    return seconds_now() - begin;
}

/* The device has the contents, so that no transfer is needed. */
static double release_copies(struct given_up *on)
{
    for (int i = 0; i < on->count; i++) {
        on->mems[i] = make_object(on->size);
        must_work(synced_mem_overwrite_cpu_data(on->mems[i]) != NULL);
        must_work(synced_mem_gpu_data(on->mems[i]) != NULL);
    }
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        must_work(synced_mem_release_cpu_data(on->mems[i]) == SYNCED_MEM_OK);
    const double took = seconds_now() - begin;
    for (int i = 0; i < on->count; i++)
        release_object(on->mems[i]);
    return took;
}

static double give_up(void *state)
{
    struct given_up *const on = state;
    return (on->whole ? release_objects(on) : release_copies(on)) / on->count;
}

static double give_up_by_free(void *state)
{
    enum { BYTES = 256 };
    const struct given_up *const on = state;
    char *data[MOST_GIVEN_UP];
    for (int i = 0; i < on->count; i++) {
        data[i] = malloc(BYTES);
        must(data[i] != NULL, "no memory");
        *(volatile char *)data[i] = 1;
    }
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        free(data[i]);
    return (seconds_now() - begin) / on->count;
}

static double give_up_classic(void *state)
{
    const struct given_up *const on = state;
    void *const data = bare_host_alloc(on->size);
    const double begin = seconds_now();
    bare_host_free(data);
    return seconds_now() - begin;
}

void measure_pinned_releases(void)
{
    static const struct table table = {"allocation", "pinned-release",    "Release of idle page-locked memory",
                                       UNIT_US,      "free of 256 bytes", "cudaFreeHost"};
    static const struct way ways[] = {
        {"release", give_up}, {"free", give_up_by_free}, {"cudaFreeHost", give_up_classic}};
    static const size_t sizes[] = {4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, (size_t)256 * MIB};
    report_table(&table);
    for (size_t i = 0; i < 2 * (sizeof sizes / sizeof *sizes); i++) {
        char name[64];
        struct summary results[3];
        struct given_up on = {.size = sizes[i / 2], .whole = i % 2 == 0};
        const size_t many = 64 * MIB / on.size;
        on.count = many > MOST_GIVEN_UP ? MOST_GIVEN_UP : many > 0 ? (int)many : 1;
        (void)snprintf(name, sizeof name, "%s, %s", on.whole ? "release" : "release_cpu_data", size_name(on.size));
        struct row row = row_of(&table, name, (double)on.size);
        if (!row_can_run(&row, true, on.size))
            continue;
        compare(ways, 3, &on, results);
        report_times(&row, results, 0);
        must_work(synced_mem_host_pool_trim(0) == SYNCED_MEM_OK);
        must_work(synced_mem_gpu_pool_trim(0, 0) == SYNCED_MEM_OK);
    }
}
