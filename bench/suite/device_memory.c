/* Device memory: the first allocation, reuse, and release. */
#include "bare.h"
#include "object.h"
#include "report.h"
#include "suite.h"

enum { COUNT = 64, CLASSIC_COUNT = 8 };

struct device {
    size_t size;
    int count;
    synced_mem_stream stream;
    struct bare_pool *pool;
};

/* On the stream that used the memory last, where each release keeps it. */
static double device_again(void *state)
{
    const struct device *const on = state;
    synced_mem *mems[COUNT];
    for (int i = 0; i < on->count; i++)
        mems[i] = make_object(on->size);
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        must_work(synced_mem_overwrite_gpu_data_on(mems[i], on->stream) != NULL);
    const double took = seconds_now() - begin;
    for (int i = 0; i < on->count; i++)
        release_object(mems[i]);
    bare_wait(on->stream);
    return took / on->count;
}

static double device_by_pool(void *state)
{
    const struct device *const on = state;
    void *data[COUNT];
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        data[i] = bare_pool_alloc(on->pool, on->size, on->stream);
    const double took = seconds_now() - begin;
    for (int i = 0; i < on->count; i++)
        bare_pool_free(data[i], on->stream);
    bare_wait(on->stream);
    return took / on->count;
}

static double device_classic(void *state)
{
    const struct device *const on = state;
    const int count = on->count < CLASSIC_COUNT ? on->count : CLASSIC_COUNT;
    void *data[CLASSIC_COUNT];
    const double begin = seconds_now();
    for (int i = 0; i < count; i++)
        data[i] = bare_device_alloc(on->size);
    const double took = seconds_now() - begin;
    for (int i = 0; i < count; i++)
        bare_device_free(data[i]);
    return took / count;
}

/* Begins with an empty pool. */
static double device_first(void *state)
{
    const struct device *const on = state;
    bare_wait_all();
    must_work(synced_mem_gpu_pool_trim(0, 0) == SYNCED_MEM_OK);
    const struct device once = {.size = on->size, .count = 1, .stream = on->stream};
    return device_again((void *)&once);
}

static double device_first_classic(void *state)
{
    const struct device *const on = state;
    const struct device once = {.size = on->size, .count = 1};
    return device_classic((void *)&once);
}

static void measure_device(const struct table *table, const struct way *ways, struct device *on, bool again)
{
    static const size_t sizes[] = {4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, (size_t)256 * MIB};
    report_table(table);
    for (int i = 0; i < (again ? 4 : 5); i++) {
        struct summary results[3];
        struct row row = row_of(table, size_name(sizes[i]), (double)sizes[i]);
        on->size = sizes[i];
        /* All of them have to fit into the device cache. */
        on->count = suite.emulated && sizes[i] >= MIB ? 4 : COUNT;
        if (again) {
            row_target(&row, VALUE, AT_MOST, 1);
            row_target(&row, TO_LIMIT, AT_MOST, 1.3);
        }
        if (!row_can_run(&row, true, sizes[i]))
            continue;
        must_work(synced_mem_gpu_pool_trim(0, 0) == SYNCED_MEM_OK); /* frees cached memory of other sizes */
        compare(ways, 3, on, results);
        report_times(&row, results, 0);
    }
}

/* ---- Release ---- */

static double device_release(void *state)
{
    const struct device *const on = state;
    synced_mem *mems[COUNT];
    for (int i = 0; i < on->count; i++) {
        mems[i] = make_object(on->size);
        must_work(synced_mem_overwrite_gpu_data_on(mems[i], on->stream) != NULL);
    }
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        release_object(mems[i]);
    const double took = seconds_now() - begin;
    bare_wait(on->stream);
    return took / on->count;
}

static double device_free_by_pool(void *state)
{
    const struct device *const on = state;
    void *data[COUNT];
    for (int i = 0; i < on->count; i++)
        data[i] = bare_pool_alloc(on->pool, on->size, on->stream);
    const double begin = seconds_now();
    for (int i = 0; i < on->count; i++)
        bare_pool_free(data[i], on->stream);
    const double took = seconds_now() - begin;
    bare_wait(on->stream);
    return took / on->count;
}

static double device_free_classic(void *state)
{
    const struct device *const on = state;
    const int count = on->count < CLASSIC_COUNT ? on->count : CLASSIC_COUNT;
    void *data[CLASSIC_COUNT];
    for (int i = 0; i < count; i++)
        data[i] = bare_device_alloc(on->size);
    const double begin = seconds_now();
    for (int i = 0; i < count; i++)
        bare_device_free(data[i]);
    return (seconds_now() - begin) / count;
}

static void measure_device_releases(struct device *on)
{
    static const struct table table = {"allocation", "device-release", "release of an object with device memory",
                                       UNIT_US,      "cudaFreeAsync",  "cudaFree"};
    static const struct way ways[] = {
        {"release", device_release}, {"cudaFreeAsync", device_free_by_pool}, {"cudaFree", device_free_classic}};
    report_table(&table);
    struct summary results[3];
    struct row row = row_of(&table, "64 KiB", 64 * KIB);
    on->size = 64 * KIB;
    on->count = COUNT;
    if (!row_can_run(&row, true, on->size))
        return;
    compare(ways, 3, on, results);
    report_times(&row, results, 0);
}

/* ---- All tables ---- */

void measure_device_allocations(void)
{
    static const struct table again = {"allocation",
                                       "device-again",
                                       "Device memory used before, on the stream that used it: overwrite_gpu_data_on",
                                       UNIT_US,
                                       "cudaMallocFromPoolAsync from a pool that keeps what is freed",
                                       "cudaMalloc"};
    static const struct table first = {"allocation", "device-first", "Device memory, the first time",
                                       UNIT_US,      NULL,           "cudaMalloc"};
    static const struct way agains[] = {{"overwrite_gpu_data_on", device_again},
                                        {"cudaMallocFromPoolAsync", device_by_pool},
                                        {"cudaMalloc", device_classic}};
    static const struct way firsts[] = {
        {"overwrite_gpu_data_on", device_first}, {"", NULL}, {"cudaMalloc", device_first_classic}};
    struct device on = {.stream = suite.gpu ? bare_stream_create() : NULL,
                        .pool = suite.gpu ? bare_pool_create() : NULL};
    measure_device(&first, firsts, &on, false);
    measure_device(&again, agains, &on, true);
    measure_device_releases(&on);
    if (!suite.gpu)
        return;
    must_work(synced_mem_forget_stream(on.stream) == SYNCED_MEM_OK);
    bare_pool_destroy(on.pool);
    bare_stream_destroy(on.stream);
}
