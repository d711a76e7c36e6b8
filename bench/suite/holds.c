/* Holds of objects that are on the device. */
#include "bare.h"
#include "report.h"
#include "suite.h"
#include "synced_mem/budget.h"

#include <pthread.h>

enum { MOST_OBJECTS = 64, OBJECT = 64 * KIB, TIMES = 200 };

struct holds {
    synced_mem *mems[MOST_OBJECTS];
    size_t count;
    synced_mem_stream stream;
};

static void hold_all(const struct holds *on)
{
    must_work(synced_mem_hold_n(on->mems, on->count, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, on->stream) ==
              SYNCED_MEM_OK);
}

static void unhold_all(const struct holds *on)
{
    must_work(synced_mem_unhold_n(on->mems, on->count, SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
}

static double hold_and_unhold(void *state)
{
    const double begin = seconds_now();
    for (int i = 0; i < TIMES; i++) {
        hold_all(state);
        unhold_all(state);
    }
    return (seconds_now() - begin) / TIMES;
}

static double hold_and_use(void *state)
{
    const struct holds *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < TIMES; i++) {
        hold_all(on);
        for (size_t j = 0; j < on->count; j++)
            must_work(synced_mem_gpu_data_on(on->mems[j], on->stream) != NULL);
        unhold_all(on);
    }
    return (seconds_now() - begin) / TIMES;
}

/* Objects that can't be evicted need no hold. */
static double use_alone(void *state)
{
    const struct holds *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < TIMES; i++)
        for (size_t j = 0; j < on->count; j++) {
            must_work(synced_mem_gpu_data_on(on->mems[j], on->stream) != NULL);
            must_work(synced_mem_end_use_on(on->mems[j], on->stream) == SYNCED_MEM_OK);
        }
    return (seconds_now() - begin) / TIMES;
}

/* Both calls lock something for each object. */
static double lock_each(void *state)
{
    static pthread_mutex_t locks[MOST_OBJECTS];
    const struct holds *const on = state;
    for (size_t j = 0; j < on->count; j++)
        must(pthread_mutex_init(&locks[j], NULL) == 0, "no lock");
    const double begin = seconds_now();
    for (int i = 0; i < 2 * TIMES; i++)
        for (size_t j = 0; j < on->count; j++) {
            (void)pthread_mutex_lock(&locks[j]);
            (void)pthread_mutex_unlock(&locks[j]);
        }
    return (seconds_now() - begin) / TIMES;
}

static void make_held(struct holds *on, size_t count, bool evictable)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0;
    options.evictable = evictable;
    on->count = count;
    for (size_t i = 0; i < count; i++) {
        must_work(synced_mem_create(&on->mems[i], OBJECT, &options) == SYNCED_MEM_OK);
        must_work(synced_mem_overwrite_cpu_data(on->mems[i]) != NULL);
        must_work(synced_mem_async_gpu_push(on->mems[i], on->stream) == SYNCED_MEM_OK);
    }
    bare_wait(on->stream);
}

static void release_held(const struct holds *on)
{
    for (size_t i = 0; i < on->count; i++)
        must_work(synced_mem_release(on->mems[i]) == SYNCED_MEM_OK);
}

/* The way without holds has objects of its own. */
struct uses {
    struct holds held, free;
};

static double use_held(void *state)
{
    struct uses *const on = state;
    return hold_and_use(&on->held);
}

static double use_free(void *state)
{
    struct uses *const on = state;
    return use_alone(&on->free);
}

static void measure_uses(void)
{
    static const struct table table = {"budget",
                                       "hold-use",
                                       "The same, with the use of each on a stream between",
                                       UNIT_US,
                                       "gpu_data_on and end_use_on of each, of objects that can't be evicted",
                                       NULL};
    static const struct way ways[] = {{"held", use_held}, {"free", use_free}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(&table, "64 objects", MOST_OBJECTS);
    report_table(&table);
    if (!row_can_run(&row, true, OBJECT))
        return;
    const synced_mem_stream stream = bare_stream_create();
    struct uses on = {.held = {.stream = stream}, .free = {.stream = stream}};
    make_held(&on.held, MOST_OBJECTS, true);
    make_held(&on.free, MOST_OBJECTS, false);
    compare(ways, 2, &on, results);
    report_times(&row, results, 0);
    release_held(&on.held);
    release_held(&on.free);
    must_work(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    bare_stream_destroy(stream);
}

static void measure_count(const struct table *table, size_t count)
{
    static const struct way ways[] = {{"hold, unhold", hold_and_unhold}, {"locks", lock_each}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    char name[64];
    (void)snprintf(name, sizeof name, "%zu object%s", count, count == 1 ? "" : "s");
    struct row row = row_of(table, name, (double)count);
    if (count == MOST_OBJECTS)
        row_target(&row, VALUE, AT_MOST, 5); /* us */
    if (!row_can_run(&row, true, OBJECT))
        return;
    struct holds on = {.stream = bare_stream_create()};
    make_held(&on, count, true);
    compare(ways, 2, &on, results);
    report_times(&row, results, 0);
    release_held(&on);
    must_work(synced_mem_forget_stream(on.stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on.stream);
}

void measure_holds(void)
{
    static const struct table table = {"budget",
                                       "hold",
                                       "Hold objects that are on the device, and unhold them",
                                       UNIT_US,
                                       "a lock and an unlock of a mutex for each object, twice",
                                       NULL};
    report_table(&table);
    measure_count(&table, 1);
    measure_count(&table, 8);
    measure_count(&table, MOST_OBJECTS);
    measure_uses();
}
