/* The life of an object: create, fill on the host, access on the device, destroy; also without a GPU. */
#include "bare.h"
#include "classic.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

struct life {
    size_t size;
    char *contents;
    void *device; /* for the bare copy */
    char *pinned;
    synced_mem_stream stream;
};

/* The time without the fill. */
static double by_library(void *state)
{
    const struct life *const on = state;
    synced_mem *mem;
    const double begin = seconds_now();
    must_work(synced_mem_create(&mem, on->size, NULL) == SYNCED_MEM_OK);
    void *const host = synced_mem_overwrite_cpu_data(mem);
    const double filling = seconds_now();
    must_work(host != NULL);
    memcpy(host, on->contents, on->size);
    const double filled = seconds_now();
    must_work(synced_mem_gpu_data(mem) != NULL);
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
    return seconds_now() - filled + (filling - begin);
}

static double as_classic(void *state)
{
    const struct life *const on = state;
    const double begin = seconds_now();
    struct classic *const mem = classic_create(on->size, true);
    void *const host = classic_mutable_cpu_data(mem);
    const double filling = seconds_now();
    memcpy(host, on->contents, on->size);
    const double filled = seconds_now();
    (void)classic_gpu_data(mem);
    classic_destroy(mem);
    return seconds_now() - filled + (filling - begin);
}

static double bare_copy(void *state)
{
    const struct life *const on = state;
    memcpy(on->pinned, on->contents, on->size);
    const double begin = seconds_now();
    bare_queue_up(on->device, on->pinned, on->size, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double seconds_of_call(const struct life *on)
{
    const double begin = seconds_now();
    bare_queue_up(on->device, on->pinned, on->size, on->stream);
    const double took = seconds_now() - begin;
    bare_wait(on->stream);
    return took;
}

static double call_after_fill(void *state)
{
    const struct life *const on = state;
    memcpy(on->pinned, on->contents, on->size);
    return seconds_of_call(on);
}

static double call_alone(void *state)
{
    return seconds_of_call(state);
}

/* Checks the contents that reach the device. */
static void check_life(const struct life *on)
{
    synced_mem *mem;
    must_work(synced_mem_create(&mem, on->size, NULL) == SYNCED_MEM_OK);
    void *const host = synced_mem_overwrite_cpu_data(mem);
    must_work(host != NULL);
    memcpy(host, on->contents, on->size);
    must_work(synced_mem_mutable_gpu_data(mem) != NULL);
    const void *const back = synced_mem_cpu_data(mem);
    must_work(back != NULL);
    pattern_check(back, on->size, 3);
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
}

static struct life make_life(size_t size)
{
    const struct life on = {.size = size,
                            .contents = malloc(size),
                            .device = bare_device_alloc(size),
                            .pinned = bare_host_alloc(size),
                            .stream = bare_stream_create()};
    must(on.contents != NULL, "no memory");
    pattern_fill(on.contents, size, 3);
    return on;
}

static void end_life(const struct life *on)
{
    bare_stream_destroy(on->stream);
    bare_host_free(on->pinned);
    bare_device_free(on->device);
    free(on->contents);
}

static void measure_size(struct row *row, size_t size)
{
    static const struct way ways[] = {
        {"synced_mem", by_library}, {"the copy alone", bare_copy}, {"classic", as_classic}};
    struct summary results[3];
    struct life on = make_life(size);
    check_life(&on); /* also puts the device in use, so that host memory is page-locked */
    check_life(&on);
    compare(ways, 3, &on, results);
    report_times(row, results, 0);
    end_life(&on);
}

/* The first call after a fill finds the processor's caches full of the fill's data. */
static void measure_calls(const size_t *sizes, int count)
{
    static const struct table table = {
        "life",  "call-after-fill",         "The call of cudaMemcpyAsync after such a fill, without the library",
        UNIT_US, "the same without a fill", NULL};
    static const struct way ways[] = {{"after a fill", call_after_fill}, {"alone", call_alone}};
    report_table(&table);
    for (int i = 0; i < count; i++) {
        struct row row = row_of(&table, size_name(sizes[i]), (double)sizes[i]);
        struct summary results[3] = {unmeasured, unmeasured, unmeasured};
        if (!row_can_run(&row, true, sizes[i]))
            continue;
        struct life on = make_life(sizes[i]);
        compare(ways, 2, &on, results);
        report_times(&row, results, 0);
        end_life(&on);
    }
}

void measure_lives(void)
{
    static const struct table table = {"life",
                                       "device",
                                       "Create, overwrite on the host, gpu_data, destroy; the fill taken out",
                                       UNIT_US,
                                       "the copy alone: cudaMemcpyAsync and cudaStreamSynchronize",
                                       "cudaMallocHost, zeros, cudaMalloc, cudaMemcpy, cudaFreeHost, cudaFree"};
    static const size_t sizes[] = {4 * KIB, 64 * KIB, 256 * KIB, 1 * MIB,
                                   4 * MIB, 16 * MIB, 64 * MIB,  (size_t)256 * MIB};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    report_table(&table);
    for (int i = 0; i < SIZES; i++) {
        struct row row = row_of(&table, size_name(sizes[i]), (double)sizes[i]);
        if (sizes[i] == 4 * KIB || sizes[i] == MIB || sizes[i] == 16 * MIB || sizes[i] == (size_t)256 * MIB) {
            row_target(&row, FASTER, AT_LEAST, 20);
            row_target(&row, OVER_LIMIT, AT_MOST, 15);
        }
        if (row_can_run(&row, true, sizes[i]))
            measure_size(&row, sizes[i]);
    }
    measure_calls(sizes, SIZES);
}

/* ---- A net ---- */

/* The objects of a small net that is made, used once and thrown away. Their sizes go from 16 bytes to 64 KiB. */
enum { NET = 40, LEAST_OF_NET = 16, DOUBLINGS = 12 };

static size_t size_in_net(size_t which)
{
    return (size_t)LEAST_OF_NET << which * DOUBLINGS / (NET - 1);
}

static double net_by_library(void *state)
{
    synced_mem *mems[NET];
    (void)state;
    const double begin = seconds_now();
    for (size_t i = 0; i < NET; i++)
        must_work(synced_mem_create(&mems[i], size_in_net(i), NULL) == SYNCED_MEM_OK);
    for (size_t i = 0; i < NET; i++) {
        char *const host = synced_mem_mutable_cpu_data(mems[i]);
        must_work(host != NULL);
        *host = 1;
    }
    for (size_t i = 0; i < NET; i++)
        must_work(synced_mem_gpu_data(mems[i]) != NULL);
    for (size_t i = 0; i < NET; i++)
        must_work(synced_mem_release(mems[i]) == SYNCED_MEM_OK);
    return seconds_now() - begin;
}

static double net_as_classic(void *state)
{
    struct classic *mems[NET];
    (void)state;
    const double begin = seconds_now();
    for (size_t i = 0; i < NET; i++)
        mems[i] = classic_create(size_in_net(i), true);
    for (size_t i = 0; i < NET; i++)
        *(char *)classic_mutable_cpu_data(mems[i]) = 1;
    for (size_t i = 0; i < NET; i++)
        must(classic_gpu_data(mems[i]) != NULL, "no device memory");
    for (size_t i = 0; i < NET; i++)
        classic_destroy(mems[i]);
    return seconds_now() - begin;
}

void measure_nets(void)
{
    static const struct table table = {
        "life",  "net", "A net that is thrown away: create, mutable_cpu_data, gpu_data, release",
        UNIT_US, NULL,  "cudaMallocHost, zeros, cudaMalloc, cudaMemcpy, cudaFreeHost, cudaFree"};
    static const struct way ways[] = {{"synced_mem", net_by_library}, {"classic", net_as_classic}};
    struct summary results[2];
    struct row row = row_of(&table, "40 objects of 16 B to 64 KiB", NET);
    row_target(&row, FASTER, AT_LEAST, 1);
    report_table(&table);
    if (!row_can_run(&row, true, 0))
        return;
    compare(ways, 2, NULL, results);
    report_times(&row, (const struct summary[]){results[0], unmeasured, results[1]}, 0);
}

/* ---- Without a GPU ---- */

enum touch { NOTHING, READ, WRITTEN };

struct host_life {
    size_t size;
    enum touch touch;
    int times; /* repetitions: a life without an access takes as long as reading the clock */
};

enum { PAGE = 4096 };

static void touch(const struct host_life *on, unsigned char *data)
{
    unsigned sum = 0;
    if (on->touch == READ)
        for (size_t i = 0; i < on->size; i += PAGE)
            sum += *(const volatile unsigned char *)(data + i);
    if (on->touch == WRITTEN)
        memset(data, 0x5a, on->size);
    must(sum == 0, "wrong result: a first read saw no zeros");
}

static void live_by_library(const struct host_life *on)
{
    synced_mem *mem;
    must_work(synced_mem_create(&mem, on->size, NULL) == SYNCED_MEM_OK);
    void *const data =
        on->touch == WRITTEN ? synced_mem_mutable_cpu_data(mem) : (void *)(size_t)synced_mem_cpu_data(mem);
    must_work(data != NULL);
    touch(on, data);
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
}

static void live_by_calloc(const struct host_life *on)
{
    unsigned char *volatile data = calloc(1, on->size);
    must(data != NULL, "no memory");
    touch(on, data);
    free(data);
}

static void live_classic(const struct host_life *on)
{
    struct classic *const mem = classic_create(on->size, false);
    touch(on, classic_mutable_cpu_data(mem));
    classic_destroy(mem);
}

static double seconds_of(void (*live)(const struct host_life *on), const struct host_life *on, int times)
{
    const double begin = seconds_now();
    for (int i = 0; i < times; i++)
        live(on);
    return (seconds_now() - begin) / times;
}

static double host_by_library(void *state)
{
    return seconds_of(live_by_library, state, ((const struct host_life *)state)->times);
}

static double host_by_calloc(void *state)
{
    return seconds_of(live_by_calloc, state, ((const struct host_life *)state)->times);
}

static double host_classic(void *state)
{
    return seconds_of(live_classic, state, 1);
}

/* The time of page faults varies from round to round: only a median of many rounds is good to a hundredth. */
static void measure_by_many_rounds(void)
{
    struct plan plan = measure_plan();
    plan.seconds = 3;
    plan.fewest = 31;
    measure_by(&plan);
}

void measure_first_reads(void)
{
    static const struct table table = {
        "host",  "first-read",       "An object of 64 MiB in a process without a GPU: create, first access, destroy",
        UNIT_US, "calloc, and free", "malloc, zeros, and free"};
    static const struct way ways[] = {
        {"synced_mem", host_by_library}, {"calloc", host_by_calloc}, {"classic", host_classic}};
    static const struct {
        const char *name;
        enum touch touch;
        double most;
    } rows[] = {{"cpu_data, nothing read", NOTHING, 1.05},
                {"cpu_data, each page read", READ, 1.05},
                {"mutable_cpu_data, all written", WRITTEN, 1.02}};
    report_table(&table);
    for (int i = 0; i < 3; i++) {
        struct host_life on = {64 * MIB, rows[i].touch, rows[i].touch == NOTHING ? 100 : 1};
        struct summary results[3];
        struct row row = row_of(&table, rows[i].name, i);
        row_target(&row, TO_LIMIT, AT_MOST, rows[i].most);
        report_progress(&row);
        if (on.touch != NOTHING && !suite.quick)
            measure_by_many_rounds();
        compare(ways, 3, &on, results);
        report_times(&row, results, 0);
    }
}
