/* Several threads create and release objects at once. */
#include "classic.h"
#include "crowd.h"
#include "object.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>

enum { MAX_THREADS = 16, FEW = 64, LEAST = 20, DATA = 4096 };

/* Creates and releases some objects. */
struct lives {
    int threads;
    void (*live)(void *objects[FEW]);
};

static void live_by_library(void *objects[FEW])
{
    for (int i = 0; i < FEW; i++) {
        synced_mem *mem;
        must_work(synced_mem_create(&mem, DATA, NULL) == SYNCED_MEM_OK);
        objects[i] = mem;
    }
    for (int i = 0; i < FEW; i++)
        release_object(objects[i]);
}

static void live_by_malloc(void *objects[FEW])
{
    enum { BYTES = 128 };
    for (int i = 0; i < FEW; i++) {
        objects[i] = malloc(BYTES);
        must(objects[i] != NULL, "no memory");
        *(volatile char *)objects[i] = 1;
    }
    for (int i = 0; i < FEW; i++)
        free(objects[i]);
}

static void live_classic(void *objects[FEW])
{
    for (int i = 0; i < FEW; i++)
        objects[i] = classic_create(DATA, false);
    for (int i = 0; i < FEW; i++)
        classic_destroy(objects[i]);
}

static double live_often(void *state, struct member *member)
{
    const struct lives *const on = state;
    void *objects[FEW];
    int times = 0;
    on->live(objects);
    crowd_begin(member);
    for (double now = member->began; times < LEAST || now - member->began < suite.spell; now = seconds_now(), times++)
        on->live(objects);
    crowd_end(member);
    return (member->ended - member->began) / times / FEW;
}

static double by(void *state, void (*live)(void *objects[FEW]))
{
    struct lives *const on = state;
    on->live = live;
    return crowd_run(on->threads, live_often, on).slowest;
}

static double by_library(void *state)
{
    return by(state, live_by_library);
}

static double by_malloc(void *state)
{
    return by(state, live_by_malloc);
}

static double as_classic(void *state)
{
    return by(state, live_classic);
}

void measure_life_threads(void)
{
    static const struct table table = {"scale",
                                       "life-threads",
                                       "Create and release an object, by several threads at once, the slowest one's",
                                       UNIT_NS,
                                       "malloc and free of 128 bytes, by as many threads",
                                       "malloc and free of Caffe's object, by as many threads"};
    static const struct way ways[] = {{"synced_mem", by_library}, {"malloc", by_malloc}, {"classic", as_classic}};
    report_table(&table);
    for (int threads = 1; threads <= MAX_THREADS; threads *= 2) {
        struct summary results[3];
        struct lives on = {.threads = threads};
        struct row row = row_of_threads(&table, threads);
        report_progress(&row);
        compare(ways, 3, &on, results);
        report_times(&row, results, 0);
    }
}
