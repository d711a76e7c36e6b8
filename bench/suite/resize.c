/* Resizes of an object: within its capacity, and beyond it with the contents kept. */
#include "bare.h"
#include "classic.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

struct resize {
    size_t size;
    synced_mem *mem;
    char *contents;
    void *from, *to; /* for the bare copies; on the side of the row */
    synced_mem_stream stream;
};

/* ---- Within the capacity, as for a batch of another size ---- */

enum { TIMES = 1000 };

static double within_room(void *state)
{
    const struct resize *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < TIMES; i++) {
        must_work(synced_mem_resize_discard(on->mem, on->size / 2) == SYNCED_MEM_OK);
        must_work(synced_mem_overwrite_cpu_data(on->mem) != NULL);
        must_work(synced_mem_resize_discard(on->mem, on->size) == SYNCED_MEM_OK);
        must_work(synced_mem_overwrite_cpu_data(on->mem) != NULL);
    }
    return (seconds_now() - begin) / TIMES / 2;
}

static double by_realloc(void *state)
{
    (void)state;
    const double begin = seconds_now();
    void *volatile data = malloc(256);
    for (int i = 0; i < TIMES; i++) {
        must(data != NULL, "no memory");
        data = realloc(data, i % 2 ? 256 : 128);
    }
    free(data);
    return (seconds_now() - begin) / TIMES;
}

/* Replaces the object by another one. */
static double classic_within(void *state)
{
    const struct resize *const on = state;
    const double begin = seconds_now();
    struct classic *mem = classic_create(on->size / 2, false);
    (void)classic_mutable_cpu_data(mem);
    classic_destroy(mem);
    mem = classic_create(on->size, false);
    (void)classic_mutable_cpu_data(mem);
    classic_destroy(mem);
    return (seconds_now() - begin) / 2;
}

static void measure_within(void)
{
    static const struct table table = {
        "resize",
        "within",
        "Resize within the capacity, contents discarded, and the pointer again; without a GPU",
        UNIT_NS,
        "realloc of 128 to 256 bytes, in place",
        "another object in its place: free, malloc, zeros"};
    static const struct way ways[] = {
        {"resize_discard", within_room}, {"realloc", by_realloc}, {"classic", classic_within}};
    struct summary results[3];
    struct resize on = {.size = 16 * MIB};
    struct row row = row_of(&table, "16 MiB and 8 MiB in turn", (double)on.size);
    report_table(&table);
    report_progress(&row);
    must_work(synced_mem_create(&on.mem, on.size, NULL) == SYNCED_MEM_OK);
    must_work(synced_mem_overwrite_cpu_data(on.mem) != NULL);
    compare(ways, 3, &on, results);
    report_times(&row, results, 0);
    must_work(synced_mem_release(on.mem) == SYNCED_MEM_OK);
}

/* ---- To twice the size, contents kept, on the host ---- */

static double grow_host(void *state)
{
    const struct resize *const on = state;
    synced_mem *mem;
    must_work(synced_mem_create(&mem, on->size, NULL) == SYNCED_MEM_OK);
    char *data = synced_mem_overwrite_cpu_data(mem);
    must_work(data != NULL);
    memcpy(data, on->contents, on->size);
    const double begin = seconds_now();
    must_work(synced_mem_resize(mem, 2 * on->size) == SYNCED_MEM_OK);
    const double took = seconds_now() - begin;
    data = synced_mem_mutable_cpu_data(mem);
    must_work(data != NULL);
    must(memcmp(data, on->contents, on->size) == 0, "wrong result: a resize has changed the contents");
    must(data[on->size] == 0 && data[2 * on->size - 1] == 0, "wrong result: the new bytes are not zero");
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
    return took;
}

/* Any copy has to touch the new pages. */
static double copy_host(void *state)
{
    const struct resize *const on = state;
    const double begin = seconds_now();
    char *const to = calloc(1, 2 * on->size);
    must(to != NULL, "no memory");
    memcpy(to, on->contents, on->size);
    const double took = seconds_now() - begin;
    must(*(volatile char *)(to + on->size / 2) == on->contents[on->size / 2], "wrong result");
    free(to);
    return took;
}

static double classic_host(void *state)
{
    const struct resize *const on = state;
    struct classic *const old = classic_create(on->size, false);
    memcpy(classic_mutable_cpu_data(old), on->contents, on->size);
    const double begin = seconds_now();
    struct classic *const grown = classic_create(2 * on->size, false);
    memcpy(classic_mutable_cpu_data(grown), classic_cpu_data(old), on->size);
    classic_destroy(old);
    const double took = seconds_now() - begin;
    classic_destroy(grown);
    return took;
}

static const size_t sizes[] = {64 * KIB, 1 * MIB, 16 * MIB, 64 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void grow_size(struct row *row, struct resize *on, const struct way *ways)
{
    struct summary results[3];
    on->contents = malloc(on->size);
    must(on->contents != NULL, "no memory");
    pattern_fill(on->contents, on->size, 5);
    compare(ways, 3, on, results);
    report_times(row, results, 0);
    free(on->contents);
}

void measure_host_resizes(void)
{
    static const struct table table = {"resize",
                                       "grow-host",
                                       "Resize to twice the size, contents kept on the host, without a GPU",
                                       UNIT_US,
                                       "calloc of twice the size, and memcpy of the contents",
                                       "another object: malloc, zeros, memcpy, free of the old one"};
    static const struct way ways[] = {{"resize", grow_host}, {"memcpy", copy_host}, {"classic", classic_host}};
    measure_within();
    report_table(&table);
    for (int i = 0; i < SIZES; i++) {
        struct resize on = {.size = sizes[i]};
        struct row row = row_of(&table, size_name(on.size), (double)on.size);
        if (row_can_run(&row, false, suite.quick ? on.size : 0))
            grow_size(&row, &on, ways);
    }
}

/* ---- The same on the device ---- */

static double grow_device(void *state)
{
    const struct resize *const on = state;
    synced_mem *mem;
    must_work(synced_mem_create(&mem, on->size, NULL) == SYNCED_MEM_OK);
    void *const data = synced_mem_overwrite_cpu_data(mem);
    must_work(data != NULL);
    memcpy(data, on->contents, on->size);
    must_work(synced_mem_mutable_gpu_data_on(mem, on->stream) != NULL);
    bare_wait(on->stream);
    const double begin = seconds_now();
    must_work(synced_mem_resize(mem, 2 * on->size) == SYNCED_MEM_OK);
    must_work(synced_mem_wait(mem) == SYNCED_MEM_OK);
    const double took = seconds_now() - begin;
    const char *const back = synced_mem_cpu_data(mem);
    must_work(back != NULL);
    must(memcmp(back, on->contents, on->size) == 0, "wrong result: a resize has changed the contents");
    must(back[on->size] == 0 && back[2 * on->size - 1] == 0, "wrong result: the new bytes are not zero");
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
    return took;
}

static double copy_device(void *state)
{
    const struct resize *const on = state;
    const double begin = seconds_now();
    bare_queue_across(on->to, on->from, on->size, on->stream);
    bare_queue_fill((char *)on->to + on->size, 0, on->size, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double classic_device(void *state)
{
    const struct resize *const on = state;
    struct classic *const old = classic_create(on->size, true);
    (void)classic_mutable_gpu_data(old);
    bare_wait_all();
    const double begin = seconds_now();
    struct classic *const grown = classic_create(2 * on->size, true);
    bare_queue_across(classic_mutable_gpu_data(grown), classic_gpu_data(old), on->size, NULL);
    bare_wait_all();
    classic_destroy(old);
    const double took = seconds_now() - begin;
    classic_destroy(grown);
    return took;
}

void measure_device_resizes(void)
{
    static const struct table table = {"resize",
                                       "grow-device",
                                       "Resize to twice the size, contents kept on the device, and the wait for it",
                                       UNIT_US,
                                       "a copy on the device and a fill with zeros, memory not included",
                                       "another object: cudaMalloc, zeros, a copy, cudaFree of the old one"};
    static const struct way ways[] = {{"resize", grow_device}, {"copy", copy_device}, {"classic", classic_device}};
    report_table(&table);
    for (int i = 0; i < SIZES; i++) {
        struct resize on = {.size = sizes[i]};
        struct row row = row_of(&table, size_name(on.size), (double)on.size);
        if (!row_can_run(&row, true, on.size))
            continue;
        on.stream = bare_stream_create();
        on.from = bare_device_alloc(on.size);
        on.to = bare_device_alloc(2 * on.size);
        bare_queue_fill(on.from, 0x5a, on.size, on.stream);
        grow_size(&row, &on, ways);
        must_work(synced_mem_forget_stream(on.stream) == SYNCED_MEM_OK);
        bare_wait(on.stream);
        bare_device_free(on.from);
        bare_device_free(on.to);
        bare_stream_destroy(on.stream);
    }
}
