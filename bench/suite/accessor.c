/*
 * Measures accessors that have nothing to do, after transfers. This is a program of its own because it is built twice:
 * with the library linked shared, and static. The references are linked in the same way.
 *
 *     accessor times SECONDS                 prints for each row: name, median, least, most, quartiles in seconds,
 *                                            rounds
 *     accessor threads SECONDS COUNT SPELL   prints the same for COUNT threads at once: seconds divided by the calls of
 *                                            all threads; a run lasts at least SPELL seconds
 *     accessor count COUNT                   runs each row's loop COUNT times, in functions named loop_*
 */
#include "classic.h"
#include "crowd.h"
#include "equal.h"
#include "measure.h"
#include "synced_mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096, CALLS = 200000 };

static struct equal *equal;
static struct classic *classic;
static synced_mem *mem;
static synced_mem_stream stream; /* the legacy stream: the hot path treats it as any stream */
static bool gpu_found;
static volatile uintptr_t sink;

static __attribute__((noinline)) const void *bare(const struct equal *object)
{
    return atomic_load_explicit(&object->ready, memory_order_relaxed);
}

/* First transfers the data to the device, if there is one, and back. */
static void prepare(bool for_gpu)
{
    must_work(synced_mem_mutable_cpu_data(mem) != NULL);
    if (gpu_found)
        must_work(synced_mem_mutable_gpu_data(mem) != NULL);
    if (!for_gpu)
        must_work(synced_mem_mutable_cpu_data(mem) != NULL);
}

/* Each loop adds up the results, so that the compiler keeps every call. The first call may have work: it comes before
 * the loop. */
#define ROW(name, for_gpu, call)                                                                                       \
    static void once_##name(void)                                                                                      \
    {                                                                                                                  \
        sink = (uintptr_t)(call);                                                                                      \
    }                                                                                                                  \
    static __attribute__((noinline)) uintptr_t loop_##name(uint64_t count)                                             \
    {                                                                                                                  \
        uintptr_t sum = 0;                                                                                             \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            sum += (uintptr_t)(call);                                                                                  \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static double time_##name(void *state)                                                                             \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        prepare(for_gpu);                                                                                              \
        once_##name();                                                                                                 \
        const double begin = seconds_now();                                                                            \
        sink = loop_##name(CALLS);                                                                                     \
        return (seconds_now() - begin) / CALLS;                                                                        \
    }
ROW(bare, false, bare(equal))
ROW(load, false, equal_load(equal))
ROW(equal, false, equal_access(equal))
ROW(classic, false, classic_cpu_data(classic))
ROW(cpu_data, false, synced_mem_cpu_data(mem))
ROW(mutable_cpu_data, false, synced_mem_mutable_cpu_data(mem))
ROW(gpu_data, true, synced_mem_gpu_data(mem))
ROW(mutable_gpu_data, true, synced_mem_mutable_gpu_data(mem))
ROW(gpu_data_on, true, synced_mem_gpu_data_on(mem, stream))
ROW(mutable_gpu_data_on, true, synced_mem_mutable_gpu_data_on(mem, stream))

static const struct row {
    struct way way;
    void (*once)(void);
    uintptr_t (*loop)(uint64_t count);
    bool for_gpu;
} rows[] = {
    {{"bare", time_bare}, once_bare, loop_bare, false},
    {{"load", time_load}, once_load, loop_load, false},
    {{"equal", time_equal}, once_equal, loop_equal, false},
    {{"classic", time_classic}, once_classic, loop_classic, false},
    {{"cpu_data", time_cpu_data}, once_cpu_data, loop_cpu_data, false},
    {{"mutable_cpu_data", time_mutable_cpu_data}, once_mutable_cpu_data, loop_mutable_cpu_data, false},
    {{"gpu_data", time_gpu_data}, once_gpu_data, loop_gpu_data, true},
    {{"mutable_gpu_data", time_mutable_gpu_data}, once_mutable_gpu_data, loop_mutable_gpu_data, true},
    {{"gpu_data_on", time_gpu_data_on}, once_gpu_data_on, loop_gpu_data_on, true},
    {{"mutable_gpu_data_on", time_mutable_gpu_data_on}, once_mutable_gpu_data_on, loop_mutable_gpu_data_on, true},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void print_results(const struct way *ways, int count, const struct summary *results)
{
    for (int i = 0; i < count; i++)
        if (results[i].rounds > 0)
            (void)printf("%s %.9g %.9g %.9g %.9g %.9g %d\n", ways[i].name, results[i].median, results[i].least,
                         results[i].most, results[i].lower, results[i].upper, results[i].rounds);
}

static void take_times(void)
{
    struct way ways[ROWS];
    struct summary results[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        ways[i] = rows[i].way;
        if (rows[i].for_gpu && !gpu_found)
            ways[i].run = NULL;
    }
    compare(ways, ROWS, NULL, results);
    print_results(ways, ROWS, results);
}

static void count_all(uint64_t count)
{
    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].for_gpu || gpu_found) {
            prepare(rows[i].for_gpu);
            rows[i].once();
            sink = rows[i].loop(count);
        }
}

/* ---- Threads ---- */

static struct {
    int threads;
    uint64_t calls; /* of each thread */
    uintptr_t (*loop)(int thread);
    synced_mem *mems[CROWD_MOST];
    struct equal *equals[CROWD_MOST];
    struct classic *classics[CROWD_MOST];
    bool apart; /* each thread has an object of its own */
} crowd;

#define CROWD_ROW(name, things, call)                                                                                  \
    static uintptr_t crowd_##name(int thread)                                                                          \
    {                                                                                                                  \
        uintptr_t sum = 0;                                                                                             \
        const uint64_t calls = crowd.calls;                                                                            \
        for (uint64_t i = 0; i < calls; i++)                                                                           \
            sum += (uintptr_t)call(crowd.things[crowd.apart ? thread : 0]);                                            \
        return sum;                                                                                                    \
    }
CROWD_ROW(ours, mems, synced_mem_cpu_data)
CROWD_ROW(equal, equals, equal_access)
CROWD_ROW(classic, classics, classic_cpu_data)

/* The sum of the loops' results, so that the compiler keeps every loop. */
static uintptr_t kept[CROWD_MOST];

static double call_often(void *state, struct member *member)
{
    (void)state;
    crowd_begin(member);
    kept[member->number] = crowd.loop(member->number);
    crowd_end(member);
    return 0;
}

/* Returns the time from the first thread's begin to the last one's end, divided by the calls of all threads. */
static double time_crowd(uintptr_t (*loop)(int thread), bool apart)
{
    crowd.loop = loop;
    crowd.apart = apart;
    return crowd_run(crowd.threads, call_often, NULL).together / (double)crowd.calls / crowd.threads;
}

#define CROWD_WAY(name, loop, apart)                                                                                   \
    static double name(void *state)                                                                                    \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        return time_crowd(loop, apart);                                                                                \
    }
CROWD_WAY(ours_one, crowd_ours, false)
CROWD_WAY(equal_one, crowd_equal, false)
CROWD_WAY(classic_one, crowd_classic, false)
CROWD_WAY(ours_apart, crowd_ours, true)
CROWD_WAY(equal_apart, crowd_equal, true)
CROWD_WAY(classic_apart, crowd_classic, true)

/* Sets the number of calls such that a run of the fastest way lasts this long. The threads' starts and ends then differ
 * by little in comparison. */
static void set_calls(double seconds)
{
    crowd.calls = 10000;
    while (equal_apart(NULL) * (double)crowd.calls * crowd.threads < seconds)
        crowd.calls *= 2;
}

static struct equal *make_equal(void)
{
    struct equal *const made = aligned_alloc(64, 64); /* a cache line of its own, as the library's objects have */
    must(made != NULL, "no memory");
    atomic_init(&made->ready, made);
    return made;
}

static void take_crowd(int threads, double spell)
{
    static const struct way ways[] = {{"one_ours", ours_one},       {"one_equal", equal_one},
                                      {"one_classic", classic_one}, {"apart_ours", ours_apart},
                                      {"apart_equal", equal_apart}, {"apart_classic", classic_apart}};
    enum { WAYS = sizeof ways / sizeof *ways };
    struct summary results[WAYS];
    crowd.threads = threads;
    for (int i = 0; i < threads; i++) {
        must_work(synced_mem_create(&crowd.mems[i], BYTES, NULL) == SYNCED_MEM_OK);
        must_work(synced_mem_cpu_data(crowd.mems[i]) != NULL);
        crowd.equals[i] = make_equal();
        crowd.classics[i] = classic_create(BYTES, false);
        (void)classic_cpu_data(crowd.classics[i]);
    }
    set_calls(spell);
    compare(ways, WAYS, NULL, results);
    print_results(ways, WAYS, results);
    for (int i = 0; i < threads; i++) {
        must_work(synced_mem_release(crowd.mems[i]) == SYNCED_MEM_OK);
        free(crowd.equals[i]);
        classic_destroy(crowd.classics[i]);
    }
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: accessor times SECONDS | threads SECONDS COUNT SPELL | count COUNT\n");
    return 2;
}

int main(int count, char **arguments)
{
    const char *const what = count > 2 ? arguments[1] : "";
    const double number = count > 2 ? strtod(arguments[2], NULL) : 0;
    const int threads = count > 3 ? atoi(arguments[3]) : 0;
    const double spell = count > 4 ? strtod(arguments[4], NULL) : 0;
    const struct plan plan = {.seconds = number, .fewest = 3, .most = MAX_ROUNDS};
    equal = make_equal();
    classic = classic_create(BYTES, false);
    gpu_found = synced_mem_device_count() > 0;
    must_work(synced_mem_create(&mem, BYTES, NULL) == SYNCED_MEM_OK);
    measure_by(&plan);
    int result = 0;
    if (strcmp(what, "times") == 0)
        take_times();
    else if (strcmp(what, "threads") == 0 && threads > 0 && threads <= CROWD_MOST)
        take_crowd(threads, spell);
    else if (strcmp(what, "count") == 0)
        count_all((uint64_t)number);
    else
        result = usage();
    classic_destroy(classic);
    free(equal);
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
    must_work(synced_mem_shutdown() == SYNCED_MEM_OK);
    return result;
}
