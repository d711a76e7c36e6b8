/* Views of one object: accesses with nothing to do, few views and many, and the memory of a view. */
#include "bare.h"
#include "object.h"
#include "report.h"
#include "resident.h"
#include "suite.h"

#include <stdint.h>
#include <stdlib.h>

enum { PART = 1024 };

static synced_mem *make_view(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *view;
    must_work(synced_mem_view(&view, of, offset, size, NULL) == SYNCED_MEM_OK);
    return view;
}

/* ---- Accesses with nothing to do ---- */

struct idle {
    const struct call *call;
    synced_mem *view, *object;
    synced_mem_stream stream;
};

static volatile uintptr_t sink;

/* Each loop adds up the results, so that the compiler keeps every call. */
#define LOOP(name, call)                                                                                               \
    static __attribute__((noinline)) uintptr_t loop_##name(synced_mem *mem, synced_mem_stream stream, int count)       \
    {                                                                                                                  \
        uintptr_t sum = 0;                                                                                             \
        (void)stream;                                                                                                  \
        for (int i = 0; i < count; i++)                                                                                \
            sum += (uintptr_t)(call);                                                                                  \
        return sum;                                                                                                    \
    }
LOOP(cpu_data, synced_mem_cpu_data(mem))
LOOP(mutable_cpu_data, synced_mem_mutable_cpu_data(mem))
LOOP(gpu_data_on, synced_mem_gpu_data_on(mem, stream))
LOOP(mutable_gpu_data_on, synced_mem_mutable_gpu_data_on(mem, stream))

static const struct call {
    const char *name;
    uintptr_t (*loop)(synced_mem *mem, synced_mem_stream stream, int count);
    bool for_gpu;
} calls[] = {{"cpu_data", loop_cpu_data, false},
             {"mutable_cpu_data", loop_mutable_cpu_data, false},
             {"gpu_data_on", loop_gpu_data_on, true},
             {"mutable_gpu_data_on", loop_mutable_gpu_data_on, true}};

/* The first call may have work: it comes before the clock is read. */
static double call_often(const struct idle *on, synced_mem *mem)
{
    enum { CALLS = 200000 };
    must_work(on->call->loop(mem, on->stream, 1) != 0);
    const double begin = seconds_now();
    sink = on->call->loop(mem, on->stream, CALLS);
    return (seconds_now() - begin) / CALLS;
}

static double call_view(void *state)
{
    const struct idle *const on = state;
    return call_often(on, on->view);
}

static double call_object(void *state)
{
    const struct idle *const on = state;
    return call_often(on, on->object);
}

/* Leaves the contents on the side of the call alone. */
static void place(synced_mem *mem, const struct idle *on)
{
    must_work(synced_mem_mutable_cpu_data(mem) != NULL);
    if (on->call->for_gpu)
        must_work(synced_mem_mutable_gpu_data_on(mem, on->stream) != NULL);
}

static void measure_call(const struct table *table, const struct call *call)
{
    static const struct way ways[] = {{"a view", call_view}, {"an object", call_object}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, call->name, 0);
    row_target(&row, TO_LIMIT, AT_MOST, 1.05);
    if (!row_can_run(&row, call->for_gpu, 0))
        return;
    synced_mem *const whole = make_object(3 * (size_t)PART);
    synced_mem *const before = make_view(whole, 0, PART);
    struct idle on = {.call = call, .view = make_view(whole, PART, PART), .object = make_object(PART)};
    if (call->for_gpu)
        on.stream = bare_stream_create();
    place(on.view, &on);
    place(on.object, &on);
    compare(ways, 2, &on, results);
    report_times(&row, results, 0);
    if (call->for_gpu) {
        must_work(synced_mem_forget_stream(on.stream) == SYNCED_MEM_OK);
        bare_stream_destroy(on.stream);
    }
    release_object(on.object);
    release_object(on.view);
    release_object(before);
    release_object(whole);
}

void measure_view_accesses(void)
{
    static const struct table table = {"parts",
                                       "view-time",
                                       "An accessor of a view with nothing to do, loop included",
                                       UNIT_NS,
                                       "the same call on an object without views",
                                       NULL};
    report_table(&table);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        measure_call(&table, &calls[i]);
}

/* ---- The life of many views ---- */

enum { FEW = 100 };
enum stage { CREATE, ACCESS, RELEASE, STAGES };

struct lives {
    size_t count;
    size_t times; /* repetitions, so that few views take long enough to be timed */
    enum stage timed;
    synced_mem *whole; /* AT_CPU */
    synced_mem **mems;
    size_t *order[STAGES];
};

static void do_stage(const struct lives *on, enum stage stage, size_t place, bool views)
{
    synced_mem **const mem = &on->mems[place];
    if (stage == RELEASE)
        must_work(synced_mem_release(*mem) == SYNCED_MEM_OK);
    else if (stage == ACCESS)
        must_work((views ? synced_mem_cpu_data(*mem) : synced_mem_overwrite_cpu_data(*mem)) != NULL);
    else
        must_work((views ? synced_mem_view(mem, on->whole, place * PART, PART, NULL)
                         : synced_mem_create(mem, PART, NULL)) == SYNCED_MEM_OK);
}

static double live(const struct lives *on, bool views)
{
    double took = 0;
    for (size_t time = 0; time < on->times; time++)
        for (int stage = CREATE; stage < STAGES; stage++) {
            const double begin = seconds_now();
            for (size_t i = 0; i < on->count; i++)
                do_stage(on, (enum stage)stage, on->order[stage][i], views);
            took += stage == (int)on->timed ? seconds_now() - begin : 0;
        }
    return took / (double)(on->times * on->count);
}

static double live_as_views(void *state)
{
    return live(state, true);
}

static double live_as_objects(void *state)
{
    return live(state, false);
}

/* Returns the numbers below count, in order or shuffled. */
static size_t *make_order(size_t count, bool at_random, uint64_t seed)
{
    size_t *const order = calloc(count, sizeof *order);
    must(order != NULL, "no memory");
    for (size_t i = 0; i < count; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const size_t other = at_random ? (size_t)(seed >> 33) % (i + 1) : i;
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

static void measure_lives_of(struct row *row, enum stage stage, size_t count, bool at_random, struct summary results[3])
{
    static const struct way ways[] = {{"views", live_as_views}, {"objects", live_as_objects}};
    enum { LEAST = 10000 };
    struct summary both[2];
    struct lives on = {.count = count,
                       .times = count < LEAST ? LEAST / count : 1,
                       .timed = stage,
                       .mems = calloc(count, sizeof *on.mems)};
    must(on.mems != NULL, "no memory");
    must_work(synced_mem_create(&on.whole, count * PART, NULL) == SYNCED_MEM_OK);
    must_work(synced_mem_overwrite_cpu_data(on.whole) != NULL);
    for (int i = 0; i < STAGES; i++)
        on.order[i] = make_order(count, at_random, (uint64_t)i);
    report_progress(row);
    compare(ways, 2, &on, both);
    results[0] = both[0];
    results[1] = unmeasured;
    results[2] = both[1];
    report_times(row, results, 0);
    for (int i = 0; i < STAGES; i++)
        free(on.order[i]);
    release_object(on.whole);
    free(on.mems);
}

static const char *const orders[] = {"in order", "at random"};

/* ---- Records that are only touched ---- */

/* A used view takes about so many bytes. */
enum { RECORD = 384, CACHE_LINE = 64 };

struct records {
    size_t count;
    size_t times;
    size_t *order;
    volatile char *bytes;
};

static double touch_records(void *state)
{
    const struct records *const on = state;
    const double begin = seconds_now();
    for (size_t time = 0; time < on->times; time++)
        for (size_t i = 0; i < on->count; i++)
            for (size_t line = 0; line < RECORD; line += CACHE_LINE)
                on->bytes[on->order[i] * RECORD + line]++;
    return (seconds_now() - begin) / (double)(on->times * on->count);
}

static double touch_so_many(size_t count, bool at_random)
{
    static const struct way ways[] = {{"a byte of each cache line", touch_records}};
    enum { LEAST = 100000 };
    struct summary result;
    char *const bytes = calloc(count, RECORD);
    struct records on = {.count = count,
                         .times = count < LEAST ? LEAST / count : 1,
                         .order = make_order(count, at_random, CREATE),
                         .bytes = bytes};
    must(bytes != NULL, "no memory");
    compare(ways, 1, &on, &result);
    free(on.order);
    free(bytes);
    return result.median;
}

static size_t count_many(void)
{
    return suite.quick ? 1000 : 100000;
}

/* Keeps the medians of few views and of many, of views and of objects. */
static void measure_stage(const struct table *table, enum stage stage, double medians[2][2][2])
{
    const size_t counts[] = {FEW, count_many()};
    report_table(table);
    for (int at_random = 0; at_random < 2; at_random++)
        for (int many = 0; many < 2; many++) {
            char name[64];
            struct summary results[3];
            (void)snprintf(name, sizeof name, "%zu views, %s", counts[many], orders[at_random]);
            struct row row = row_of(table, name, (double)counts[many]);
            if (many)
                row_target(&row, VALUE, AT_MOST, 1);
            measure_lives_of(&row, stage, counts[many], at_random, results);
            medians[at_random][many][0] = results[0].median;
            medians[at_random][many][1] = results[2].median;
        }
}

void measure_many_views(void)
{
    static const char objects[] = "an object for each part";
    static const char accesses[] = "an object for each part; its first access obtains memory";
    static const struct table tables[STAGES] = {
        [CREATE] = {"parts", "view-create", "Create views of one object, side by side; a view's time", UNIT_US, NULL,
                    objects},
        [ACCESS] = {"parts", "view-access", "Their first read on the host, the head AT_CPU; a view's time", UNIT_US,
                    NULL, accesses},
        [RELEASE] = {"parts", "view-release", "Release them; a view's time", UNIT_US, NULL, objects}};
    static const struct table flat = {"parts",
                                      "view-flat",
                                      "The time with many views divided by the time with few",
                                      UNIT_RATIO,
                                      "the same of adding 1 to a byte of each cache line of 384 bytes a view",
                                      "the same of objects"};
    static const char *const stages[STAGES] = {"create", "first read", "release"};
    double medians[STAGES][2][2][2];
    double growth[2];
    for (int stage = CREATE; stage < STAGES; stage++)
        measure_stage(&tables[stage], (enum stage)stage, medians[stage]);
    for (int at_random = 0; at_random < 2; at_random++)
        growth[at_random] = touch_so_many(count_many(), at_random) / touch_so_many(FEW, at_random);
    report_table(&flat);
    for (int stage = CREATE; stage < STAGES; stage++)
        for (int at_random = 0; at_random < 2; at_random++) {
            char name[64];
            double(*const of)[2] = medians[stage][at_random];
            (void)snprintf(name, sizeof name, "%s, %s", stages[stage], orders[at_random]);
            struct row row = row_of(&flat, name, 0);
            row_target(&row, VALUE, AT_MOST, 2.5);
            report_values(&row, (const struct summary[]){summary_of_one(of[1][0] / of[0][0]),
                                                         summary_of_one(growth[at_random]),
                                                         summary_of_one(of[1][1] / of[0][1])});
        }
}

/* ---- Memory ---- */

/* Neither counts the first view, with which the library starts, nor the object's data: page-locked memory is resident
 * from the start, pageable memory is not touched. */
static void use_views(synced_mem *whole, void (*use)(synced_mem *view))
{
    const size_t count = resident_count();
    synced_mem **const views = resident_array(count + 1, sizeof *views);
    size_t before = 0;
    for (size_t i = 0; i <= count; i++) {
        views[i] = make_view(whole, i * PART, PART);
        use(views[i]);
        before = i > 0 ? before : resident_now();
    }
    resident_end(before);
}

static void read_here(synced_mem *mem)
{
    must_work(synced_mem_cpu_data(mem) != NULL);
}

static void read_views(void)
{
    synced_mem *whole;
    must_work(synced_mem_create(&whole, (resident_count() + 1) * PART, NULL) == SYNCED_MEM_OK);
    must_work(synced_mem_overwrite_cpu_data(whole) != NULL);
    use_views(whole, read_here);
}

static void go_and_return(synced_mem *mem)
{
    must_work(synced_mem_mutable_cpu_data(mem) != NULL);
    must_work(synced_mem_mutable_gpu_data(mem) != NULL);
    must_work(synced_mem_cpu_data(mem) != NULL);
}

static void use_views_on_both(void)
{
    synced_mem *const whole = make_object((resident_count() + 1) * PART);
    go_and_return(whole);
    use_views(whole, go_and_return);
}

static void report_memory(const struct table *table, const char *what, size_t count, bool needs_gpu, void (*fill)(void))
{
    char name[64];
    (void)snprintf(name, sizeof name, "%zu views %s", count, what);
    struct row row = row_of(table, name, (double)count);
    row_target(&row, VALUE, AT_MOST, 512);
    if (row_can_run(&row, needs_gpu, 0))
        report_values(&row,
                      (const struct summary[]){summary_of_one(resident_each(fill, count)), unmeasured, unmeasured});
}

void measure_view_memory(void)
{
    enum { MOST = 100000 };
    static const struct table table = {
        "parts", "view-memory", "Resident memory of a used view, beside its object's data", UNIT_BYTES, NULL, NULL};
    const size_t on_host = suite.quick ? 10000 : MOST;
    const size_t on_both = suite.gpu_objects < MOST ? suite.gpu_objects : MOST;
    report_table(&table);
    report_memory(&table, "read on the host", on_host, false, read_views);
    report_memory(&table, "after a round trip", on_both, true, use_views_on_both);
}
