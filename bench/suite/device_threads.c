/* Reuse of device memory by several threads at once, each with a stream and objects of its own. */
#include "bare.h"
#include "crowd.h"
#include "object.h"
#include "report.h"
#include "suite.h"

enum { MAX_THREADS = 16, LEAST = 20, FEW = 8 }; /* few: all of them fit into the device cache */

struct crowded {
    size_t size;
    int threads;
    synced_mem_stream streams[MAX_THREADS];
    synced_mem *mems[MAX_THREADS][FEW];
    struct bare_pool *pool;
    void *data[MAX_THREADS][FEW];
    void (*take)(struct crowded *on, int thread);
    void (*give_back)(struct crowded *on, int thread);
};

static void access_objects(struct crowded *on, int thread)
{
    for (int i = 0; i < FEW; i++)
        must_work(synced_mem_overwrite_gpu_data_on(on->mems[thread][i], on->streams[thread]) != NULL);
}

static void empty_objects(struct crowded *on, int thread)
{
    for (int i = 0; i < FEW; i++)
        must_work(synced_mem_release_data(on->mems[thread][i]) == SYNCED_MEM_OK);
}

static void take_from_pool(struct crowded *on, int thread)
{
    for (int i = 0; i < FEW; i++)
        on->data[thread][i] = bare_pool_alloc(on->pool, on->size, on->streams[thread]);
}

static void give_to_pool(struct crowded *on, int thread)
{
    for (int i = 0; i < FEW; i++)
        bare_pool_free(on->data[thread][i], on->streams[thread]);
}

/* Returns the time of taking memory alone. */
static double use_often(void *state, struct member *member)
{
    struct crowded *const on = state;
    const int thread = member->number;
    double took = 0;
    int times = 0;
    on->take(on, thread); /* allocates the memory */
    crowd_begin(member);
    for (double now = member->began; times < LEAST || now - member->began < suite.spell; times++) {
        on->give_back(on, thread);
        bare_wait(on->streams[thread]);
        const double begin = seconds_now();
        on->take(on, thread);
        now = seconds_now();
        took += now - begin;
    }
    crowd_end(member);
    on->give_back(on, thread);
    bare_wait(on->streams[thread]);
    return took / times / FEW;
}

static double by_objects(void *state)
{
    struct crowded *const on = state;
    on->take = access_objects;
    on->give_back = empty_objects;
    return crowd_run(on->threads, use_often, on).slowest;
}

static double by_pool(void *state)
{
    struct crowded *const on = state;
    on->take = take_from_pool;
    on->give_back = give_to_pool;
    return crowd_run(on->threads, use_often, on).slowest;
}

static double classic(void *state)
{
    const struct crowded *const on = state;
    void *data[FEW];
    const double begin = seconds_now();
    for (int i = 0; i < FEW; i++)
        data[i] = bare_device_alloc(on->size);
    const double took = seconds_now() - begin;
    for (int i = 0; i < FEW; i++)
        bare_device_free(data[i]);
    return took / FEW;
}

static void begin(struct crowded *on)
{
    on->pool = bare_pool_create();
    for (int thread = 0; thread < on->threads; thread++) {
        on->streams[thread] = bare_stream_create();
        for (int i = 0; i < FEW; i++)
            on->mems[thread][i] = make_object(on->size);
    }
}

static void end(struct crowded *on)
{
    for (int thread = 0; thread < on->threads; thread++) {
        for (int i = 0; i < FEW; i++)
            release_object(on->mems[thread][i]);
        must_work(synced_mem_forget_stream(on->streams[thread]) == SYNCED_MEM_OK);
        bare_stream_destroy(on->streams[thread]);
    }
    bare_pool_destroy(on->pool);
}

void measure_device_threads(void)
{
    static const struct table table = {
        "allocation",
        "device-again-threads",
        "Device memory used before, 64 KiB, by several threads at once, a stream each, the slowest one's",
        UNIT_US,
        "cudaMallocFromPoolAsync by as many threads, a stream each",
        "cudaMalloc, one thread"};
    static const struct way ways[] = {
        {"overwrite_gpu_data_on", by_objects}, {"cudaMallocFromPoolAsync", by_pool}, {"cudaMalloc", classic}};
    report_table(&table);
    for (int threads = 1; threads <= MAX_THREADS; threads *= 2) {
        struct summary results[3];
        struct crowded on = {.size = 64 * KIB, .threads = threads};
        struct row row = row_of_threads(&table, threads);
        if (!row_can_run(&row, true, on.size))
            continue;
        if (threads == MAX_THREADS && row_has_processors(&row, threads))
            row_target(&row, VALUE, AT_MOST, 1);
        begin(&on);
        compare(ways, 3, &on, results);
        report_times(&row, results, 0);
        end(&on);
    }
}
