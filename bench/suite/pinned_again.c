/* Reuse of page-locked memory: by the pool alone and by an access, in one thread and in many. */
#include "bare.h"
#include "crowd.h"
#include "object.h"
#include "report.h"
#include "suite.h"

#include "memory/pinned/host_pool.h"

#include <stdlib.h>

enum { TIMES = 500, POOL_TIMES = 1000, FEW = 4, LEAST = 100, MAX_THREADS = 16 };

struct again {
    size_t size;
    int threads;
    double (*use)(size_t size, struct member *member); /* takes and gives back, often; returns the seconds of a call */
};

/* Returns the time of an allocation by an access. Times a few at once, so that the clock adds little. Repeats them for
 * a while, so that all threads work at the same time. */
static double use_objects(size_t size, struct member *member)
{
    synced_mem *mems[FEW];
    double took = 0;
    int times = 0;
    for (int i = 0; i < FEW; i++) {
        mems[i] = make_object(size);
        must_work(synced_mem_overwrite_cpu_data(mems[i]) != NULL); /* allocates the memory */
    }
    crowd_begin(member);
    for (double now = member->began; times < LEAST || now - member->began < suite.spell; times++) {
        for (int i = 0; i < FEW; i++)
            must_work(synced_mem_release_data(mems[i]) == SYNCED_MEM_OK);
        const double begin = seconds_now();
        for (int i = 0; i < FEW; i++)
            must_work(synced_mem_overwrite_cpu_data(mems[i]) != NULL);
        now = seconds_now();
        took += now - begin;
    }
    crowd_end(member);
    for (int i = 0; i < FEW; i++)
        release_object(mems[i]);
    return took / times / FEW;
}

static void take_from_pool(size_t size)
{
    struct sm_pinned memory;
    must_work(sm_host_pool_alloc(0, size, &memory) == SYNCED_MEM_OK);
    sm_host_pool_free(memory.data, memory.bytes, memory.block);
}

/* The pool alone: half of an allocation and a free. No public function does only this. */
static double use_pool(size_t size, struct member *member)
{
    int times = 0;
    take_from_pool(size);
    crowd_begin(member);
    for (double now = member->began; now - member->began < suite.spell; now = seconds_now(), times += POOL_TIMES)
        for (int time = 0; time < POOL_TIMES; time++)
            take_from_pool(size);
    crowd_end(member);
    return (member->ended - member->began) / times / 2;
}

static double use_again(void *state, struct member *member)
{
    const struct again *const on = state;
    return on->use(on->size, member);
}

/* Returns the mean of the slowest thread. */
static double again_by_threads(void *state)
{
    return crowd_run(((const struct again *)state)->threads, use_again, state).slowest;
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

static void again_target(struct row *row, int threads)
{
    if (row_has_processors(row, threads))
        row_target(row, VALUE, AT_MOST, threads == 1 ? 0.2 : 0.5);
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

static void measure_again(const struct table *table, double (*use)(size_t size, struct member *member), int threads)
{
    static const size_t sizes[] = {256, 4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, 64 * MIB, (size_t)256 * MIB, GIB};
    report_table(table);
    for (int i = 0; i < (threads > 1 ? 7 : 8); i++) { /* many machines lack memory for 16 threads with 1 GiB each */
        struct row row = row_of(table, size_name(sizes[i]), (double)sizes[i]);
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
    if (suite.gpu) /* the library then knows its device, as in any program that uses the pool */
        (void)again_by_threads(&(struct again){KIB, 1, use_objects});
    measure_again(&one, use_pool, 1);
    measure_again(&all, use_pool, 16);
    measure_again(&access, use_objects, 1);
    report_table(&threads);
    for (int count = 1; count <= MAX_THREADS; count *= 2) {
        struct row row = row_of_threads(&threads, count);
        again_target(&row, count);
        report_again(&row, (struct again){64 * KIB, count, use_objects});
    }
}
