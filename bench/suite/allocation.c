/* Where memory comes from: page-locked and device memory, the first time and again, by one thread and by many. */
#include "bare.h"
#include "report.h"
#include "suite.h"

#include "host_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* An object whose host memory is page-locked from the start. */
static synced_mem *make_object(size_t size)
{
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.device = 0;
    must_work(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

static void release(synced_mem *mem)
{
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
}

/* ---- Page-locked, the first time ---- */

static double first_of_library(void *state)
{
    synced_mem *const mem = make_object(*(const size_t *)state);
    const double begin = seconds_now();
    must_work(synced_mem_overwrite_cpu_data(mem) != NULL);
    const double took = seconds_now() - begin;
    must(synced_mem_cpu_is_pinned(mem), "the library's host memory is not page-locked");
    release(mem);
    must_work(synced_mem_host_pool_trim(0) == SYNCED_MEM_OK);
    return took;
}

/* Memory that is there and was touched: what is left is what the driver does. */
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
                                       "cudaHostRegister of memory that is there",
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

/* ---- Page-locked, again ---- */

enum { TIMES = 500, POOL_TIMES = 100000, FEW = 4, MAX_THREADS = 16 };

struct again {
    size_t size;
    int threads;
    double (*use)(size_t size); /* takes and gives back, often; the seconds of a call */
};

/* The time of an allocation by an access. A few at a time, so that the clock costs little beside them. */
static double use_objects(size_t size)
{
    synced_mem *mems[FEW];
    const int few = size > 16 * MIB ? 1 : FEW;
    double took = 0;
    for (int i = 0; i < few; i++)
        mems[i] = make_object(size);
    for (int time = -1; time < TIMES; time++) { /* the first brings the memory */
        const double begin = seconds_now();
        for (int i = 0; i < few; i++)
            must_work(synced_mem_overwrite_cpu_data(mems[i]) != NULL);
        took += time < 0 ? 0 : seconds_now() - begin;
        for (int i = 0; i < few; i++)
            must_work(synced_mem_release_data(mems[i]) == SYNCED_MEM_OK);
    }
    for (int i = 0; i < few; i++)
        release(mems[i]);
    return took / TIMES / few;
}

static void take_from_pool(size_t size)
{
    struct sm_pinned memory;
    must_work(sm_host_pool_alloc(0, size, &memory) == SYNCED_MEM_OK);
    sm_host_pool_free(memory.data, memory.bytes, memory.owner);
}

/* The pool alone: half of an allocation and a free. No public function gives just that. So often that threads that begin
 * one after the other are at it together for most of the time. */
static double use_pool(size_t size)
{
    take_from_pool(size);
    const double begin = seconds_now();
    for (int time = 0; time < POOL_TIMES; time++)
        take_from_pool(size);
    return (seconds_now() - begin) / POOL_TIMES / 2;
}

static struct {
    const struct again *on;
    pthread_barrier_t start;
    double took[MAX_THREADS];
} crowd;

static void *use_often(void *argument)
{
    (void)pthread_barrier_wait(&crowd.start);
    crowd.took[(size_t)argument] = crowd.on->use(crowd.on->size);
    return NULL;
}

/* The mean of a thread, the slowest thread's. */
static double again_by_threads(void *state)
{
    const struct again *const on = state;
    pthread_t threads[MAX_THREADS];
    double slowest = 0;
    crowd.on = on;
    must(pthread_barrier_init(&crowd.start, NULL, (unsigned)on->threads) == 0, "no barrier");
    for (int i = 0; i < on->threads; i++)
        must(pthread_create(&threads[i], NULL, use_often, (void *)(size_t)i) == 0, "no thread");
    for (int i = 0; i < on->threads; i++) {
        must(pthread_join(threads[i], NULL) == 0, "a thread can't be joined");
        slowest = crowd.took[i] > slowest ? crowd.took[i] : slowest;
    }
    (void)pthread_barrier_destroy(&crowd.start);
    return slowest;
}

static double again_by_malloc(void *state)
{
    enum { BYTES = 256 };
    (void)state;
    const double begin = seconds_now();
    for (int time = 0; time < TIMES; time++) {
        char *volatile data = malloc(BYTES);
        must(data != NULL, "no memory");
        data[0] = 1;
        free(data);
    }
    return (seconds_now() - begin) / TIMES / 2;
}

static double again_classic(void *state)
{
    const struct again *const on = state;
    const double begin = seconds_now();
    bare_host_free(bare_host_alloc(on->size));
    return (seconds_now() - begin) / 2;
}

/* Threads that share a processor wait for one another, whatever they do. */
static void again_target(struct row *row, int threads)
{
    if (threads <= suite.cores)
        row_target(row, VALUE, AT_MOST, threads == 1 ? 0.2 : 0.5);
    else
        (void)snprintf(row->note, sizeof row->note, "only %d processors: no target", suite.cores);
}

static void report_again(struct row *row, struct again on)
{
    static const struct way ways[] = {
        {"synced_mem", again_by_threads}, {"malloc", again_by_malloc}, {"cudaMallocHost", again_classic}};
    struct summary results[3];
    const size_t all = on.size * (size_t)on.threads;
    if (!row_can_run(row, true, on.size))
        return;
    if ((double)all * FEW > suite.memory / 4) {
        report_skip(row, "this machine has too little memory");
        return;
    }
    compare(ways, 3, &on, results);
    report_times(row, results, 0);
    must_work(synced_mem_host_pool_trim(0) == SYNCED_MEM_OK);
}

static void measure_again(const struct table *table, double (*use)(size_t size), int threads)
{
    static const size_t sizes[] = {256, 4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, 64 * MIB, (size_t)256 * MIB, GIB};
    report_table(table);
    for (int i = 0; i < (threads > 1 ? 7 : 8); i++) { /* 16 times a gigabyte is more than many machines have */
        struct row row = row_of(table, size_name(sizes[i]), (double)sizes[i]);
        if (use == use_pool)
            again_target(&row, threads);
        report_again(&row, (struct again){sizes[i], threads, use});
    }
}

void measure_reused_allocations(void)
{
    static const char limit[] = "half of malloc and free of 256 bytes";
    static const char classic[] = "half of cudaMallocHost and cudaFreeHost, one thread";
    static const struct table one = {
        "allocation", "pool", "Page-locked memory again, the pool alone: half of taking and giving back",
        UNIT_US,      limit,  classic};
    static const struct table all = {"allocation", "pool-16", "... by 16 threads at once, the slowest one's",
                                     UNIT_US,      limit,     classic};
    static const struct table access = {"allocation", "pinned-again", "Page-locked memory again, by overwrite_cpu_data",
                                        UNIT_US,      limit,          classic};
    static const struct table threads = {"allocation",
                                         "pinned-again-threads",
                                         "... of 64 KiB, by several threads at once, the slowest one's",
                                         UNIT_US,
                                         limit,
                                         classic};
    if (suite.gpu) /* the library knows of its device then, as it does wherever a program uses the pool */
        (void)use_objects(KIB);
    measure_again(&one, use_pool, 1);
    measure_again(&all, use_pool, 16);
    measure_again(&access, use_objects, 1);
    report_table(&threads);
    for (int count = 1; count <= MAX_THREADS; count *= 2) {
        char name[32];
        (void)snprintf(name, sizeof name, "%d thread%s", count, count == 1 ? "" : "s");
        struct row row = row_of(&threads, name, count);
        report_again(&row, (struct again){64 * KIB, count, use_objects});
    }
}

/* ---- Device memory ---- */

enum { COUNT = 64, CLASSIC_COUNT = 8 };

struct device {
    size_t size;
    int count;
    synced_mem_stream stream;
    struct bare_pool *pool;
};

/* On the stream that used it last, as each release leaves it there. */
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
        release(mems[i]);
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
        release(mems[i]);
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

/* Nothing of the pool is left from before. */
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
        /* All of them have to fit into what the library keeps ready. */
        on->count = suite.emulated && sizes[i] >= MIB ? 4 : COUNT;
        if (again) {
            row_target(&row, VALUE, AT_MOST, 1);
            row_target(&row, TO_LIMIT, AT_MOST, 1.3);
        }
        if (!row_can_run(&row, true, sizes[i]))
            continue;
        must_work(synced_mem_gpu_pool_trim(0, 0) == SYNCED_MEM_OK); /* what is kept ready of other sizes */
        compare(ways, 3, on, results);
        report_times(&row, results, 0);
    }
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
    must_work(synced_mem_stream_done(on.stream) == SYNCED_MEM_OK);
    bare_pool_destroy(on.pool);
    bare_stream_destroy(on.stream);
}
