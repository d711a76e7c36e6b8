/* Few objects and many: the cost of an object must not depend on their number. */
#include "bare.h"
#include "classic.h"
#include "pattern.h"
#include "report.h"
#include "resident.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { DATA = 4096, POWERS = 6 };

/* The greatest ratio of the highest to the lowest cost of an object, over 10 to 1,000,000 objects. If the limit's own
 * ratio is higher, as malloc's is beyond the processor's caches, it is the limit's ratio. */
static const double FLAT = 1.5;

static void name_count(size_t count, char name[32])
{
    (void)snprintf(name, 32, "%zu objects", count);
}

/* The last row of a table: the ratio of the other rows. */
struct spread {
    double least, most, least_limit, most_limit;
};

static void widen(double value, double *least, double *most)
{
    *least = *most == 0 || value < *least ? value : *least;
    *most = value > *most ? value : *most;
}

static void add(struct spread *spread, const struct summary results[3])
{
    widen(results[0].median, &spread->least, &spread->most);
    widen(results[1].median, &spread->least_limit, &spread->most_limit);
}

static void report_spread(const struct table *flat, const char *name, const struct spread *spread)
{
    struct row row = row_of(flat, name, 0);
    const double ours = spread->most / spread->least;
    const double limit = spread->most_limit / spread->least_limit;
    if (limit > FLAT)
        row_target(&row, TO_LIMIT, AT_MOST, 1);
    else
        row_target(&row, VALUE, AT_MOST, FLAT);
    if (spread->most == 0)
        report_skip(&row, "no GPU");
    else
        report_values(&row, (const struct summary[]){summary_of_one(ours), summary_of_one(limit), unmeasured});
}

/* ---- On the host ---- */

struct many {
    size_t count;
    size_t times; /* repetitions, so that few objects take long enough to be timed */
    synced_mem **mems;
    void **others;
    bool releases; /* times the releases; else the creations */
};

static double half_of_lives(void *state)
{
    const struct many *const on = state;
    double took = 0;
    for (size_t time = 0; time < on->times; time++) {
        const double begin = seconds_now();
        for (size_t i = 0; i < on->count; i++)
            must_work(synced_mem_create(&on->mems[i], DATA, NULL) == SYNCED_MEM_OK);
        const double created = seconds_now();
        for (size_t i = 0; i < on->count; i++)
            must_work(synced_mem_release(on->mems[i]) == SYNCED_MEM_OK);
        took += on->releases ? seconds_now() - created : created - begin;
    }
    return took / (double)(on->times * on->count);
}

static double half_of_mallocs(void *state)
{
    enum { BYTES = 128 };
    const struct many *const on = state;
    double took = 0;
    for (size_t time = 0; time < on->times; time++) {
        const double begin = seconds_now();
        for (size_t i = 0; i < on->count; i++) {
            char *const data = malloc(BYTES);
            must(data != NULL, "no memory");
            data[0] = 1;
            data[BYTES / 2] = 1;
            on->others[i] = data;
        }
        const double created = seconds_now();
        for (size_t i = 0; i < on->count; i++)
            free(on->others[i]);
        took += on->releases ? seconds_now() - created : created - begin;
    }
    return took / (double)(on->times * on->count);
}

static double half_of_classics(void *state)
{
    const struct many *const on = state;
    double took = 0;
    for (size_t time = 0; time < on->times; time++) {
        const double begin = seconds_now();
        for (size_t i = 0; i < on->count; i++)
            on->others[i] = classic_create(DATA, false);
        const double created = seconds_now();
        for (size_t i = 0; i < on->count; i++)
            classic_destroy(on->others[i]);
        took += on->releases ? seconds_now() - created : created - begin;
    }
    return took / (double)(on->times * on->count);
}

static void measure_count(const struct table *table, size_t count, bool releases, struct spread *spread)
{
    static const struct way ways[] = {
        {"synced_mem", half_of_lives}, {"malloc", half_of_mallocs}, {"classic", half_of_classics}};
    char name[32];
    struct summary results[3];
    struct many on = {.count = count,
                      .times = count < 1000 ? 1000 / count : 1,
                      .mems = calloc(count, sizeof *on.mems),
                      .others = calloc(count, sizeof *on.others),
                      .releases = releases};
    must(on.mems && on.others, "no memory");
    name_count(count, name);
    struct row row = row_of(table, name, (double)count);
    row_target(&row, VALUE, AT_MOST, 100);
    report_progress(&row);
    compare(ways, 3, &on, results);
    add(spread, results);
    report_times(&row, results, 0);
    free(on.mems);
    free(on.others);
}

static const struct table flatness = {"scale",
                                      "flat",
                                      "The highest cost divided by the lowest, of these numbers of objects",
                                      UNIT_RATIO,
                                      "the same of the limit",
                                      NULL};

void measure_many(void)
{
    static const struct table creates = {"scale",
                                         "create",
                                         "Create this number of objects, one after the other",
                                         UNIT_NS,
                                         "malloc of 128 bytes",
                                         "malloc of Caffe's object"};
    static const struct table releases = {"scale", "release", "Release them",
                                          UNIT_NS, "free",    "free of Caffe's object"};
    struct spread spreads[2] = {{0}};
    for (int half = 0; half < 2; half++) {
        const struct table *const table = half == 0 ? &creates : &releases;
        report_table(table);
        for (size_t count = 10; count <= suite.objects; count *= 10)
            measure_count(table, count, half == 1, &spreads[half]);
    }
    report_table(&flatness);
    report_spread(&flatness, "create", &spreads[0]);
    report_spread(&flatness, "release", &spreads[1]);
}

/* ---- To the device and back ---- */

/* The references use as many places as there are objects, in blocks of their own. */
struct trips {
    size_t count, next;
    synced_mem **mems;
    size_t places, next_place;
    char *pinned;
    char *device;
    synced_mem_stream stream;
};

enum { CHUNK = 10 };

/* Returns the next object. Each comes once, in another order than that of creation. */
static size_t next_of(size_t *next, size_t count)
{
    const size_t this = *next;
    *next = (this + count / CHUNK * 6 + 1) % count;
    return this;
}

/* Times each object's second trip: its memory is then allocated. */
static double trips(void *state)
{
    struct trips *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < CHUNK; i++) {
        synced_mem *const mem = on->mems[next_of(&on->next, on->count)];
        must_work(synced_mem_mutable_cpu_data(mem) != NULL);
        must_work(synced_mem_mutable_gpu_data(mem) != NULL);
        must_work(synced_mem_cpu_data(mem) != NULL);
    }
    return (seconds_now() - begin) / CHUNK;
}

/* Both references share one order of places, so that neither finds the other's data in the caches. */
static double bare_trips(void *state)
{
    struct trips *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < CHUNK; i++) {
        const size_t at = next_of(&on->next_place, on->places) * DATA;
        bare_queue_up(on->device + at, on->pinned + at, DATA, on->stream);
        bare_wait(on->stream);
        bare_queue_down(on->pinned + at, on->device + at, DATA, on->stream);
        bare_wait(on->stream);
    }
    return (seconds_now() - begin) / CHUNK;
}

static double classic_trips(void *state)
{
    struct trips *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < CHUNK; i++) {
        const size_t at = next_of(&on->next_place, on->places) * DATA;
        bare_copy_up(on->device + at, on->pinned + at, DATA);
        bare_copy_down(on->pinned + at, on->device + at, DATA);
    }
    return (seconds_now() - begin) / CHUNK;
}

static char byte_of(size_t index)
{
    return (char)(index % 255 + 1);
}

static void check_trip(const char *back, size_t index)
{
    must(back[0] == byte_of(index) && back[DATA - 1] == back[0], "wrong result of a round trip");
}

static void first_trip(synced_mem *mem, size_t index)
{
    char *const host = synced_mem_overwrite_cpu_data(mem);
    must_work(host != NULL);
    memset(host, byte_of(index), DATA);
    must_work(synced_mem_mutable_gpu_data(mem) != NULL);
    const char *const back = synced_mem_cpu_data(mem);
    must_work(back != NULL);
    check_trip(back, index);
}

/* Returns the number of objects, cut to half of the free device memory and a quarter of the host's memory. */
static size_t places_for(size_t count)
{
    size_t places = count;
    while (places > CHUNK && (places * DATA > bare_device_room() / 2 || (double)places * DATA > suite.memory / 4))
        places /= 10;
    return places;
}

static void free_places(struct trips *on)
{
    memset(on->pinned, 0, on->places * DATA);
    bare_copy_down(on->pinned, on->device, on->places * DATA);
    for (size_t i = 0; i < on->places; i++)
        check_trip(on->pinned + i * DATA, i);
    bare_stream_destroy(on->stream);
    bare_device_free(on->device);
    bare_host_free(on->pinned);
}

/* Makes objects and places in turn, so that the processor's caches hold as much of both. */
static void make_trips(struct trips *on)
{
    on->places = places_for(on->count);
    on->pinned = bare_host_alloc(on->places * DATA);
    on->device = bare_device_alloc(on->places * DATA);
    on->stream = bare_stream_create();
    on->mems = calloc(on->count, sizeof *on->mems);
    must(on->mems != NULL, "no memory");
    for (size_t i = 0; i < on->count; i++) {
        must_work(synced_mem_create(&on->mems[i], DATA, NULL) == SYNCED_MEM_OK);
        first_trip(on->mems[i], i);
        if (i < on->places)
            memset(on->pinned + i * DATA, byte_of(i), DATA);
    }
    bare_copy_up(on->device, on->pinned, on->places * DATA);
}

static void free_trips(struct trips *on)
{
    for (size_t i = 0; i < on->count; i++) {
        const char *const back = synced_mem_cpu_data(on->mems[i]);
        must_work(back != NULL);
        check_trip(back, i);
        must_work(synced_mem_release(on->mems[i]) == SYNCED_MEM_OK);
    }
    free_places(on);
    free(on->mems);
}

/* An object that names no device has page-locked host memory only after the first use of a device. */
static void begin_with_gpu(void)
{
    synced_mem *first;
    must_work(synced_mem_create(&first, DATA, NULL) == SYNCED_MEM_OK);
    must_work(synced_mem_gpu_data(first) != NULL);
    must_work(synced_mem_release(first) == SYNCED_MEM_OK);
}

void measure_many_on_device(void)
{
    static const struct table table = {"scale",
                                       "trip",
                                       "4 KiB to the device and back, by the number of objects",
                                       UNIT_US,
                                       "cudaMemcpyAsync and a wait, up and down, over as many places",
                                       "cudaMemcpy up and down, over as many places"};
    static const struct way ways[] = {
        {"synced_mem", trips}, {"cudaMemcpyAsync", bare_trips}, {"cudaMemcpy", classic_trips}};
    struct spread spread = {0};
    report_table(&table);
    if (suite.gpu)
        begin_with_gpu();
    for (size_t count = 10; count <= 1000000; count *= 10) {
        char name[32];
        struct summary results[3];
        name_count(count, name);
        struct row row = row_of(&table, name, (double)count);
        struct trips on = {.count = count};
        if (suite.gpu && count > suite.gpu_objects)
            report_skip(&row, suite.quick ? "too many for --quick" : "too many for the emulated runtime");
        if (row.verdict == SKIPPED || !row_can_run(&row, true, 0))
            continue;
        make_trips(&on);
        compare(ways, 3, &on, results);
        add(&spread, results);
        if (on.places < count)
            (void)snprintf(row.note, sizeof row.note, "limit and classic over %zu places, as memory is short",
                           on.places);
        report_times(&row, results, 0);
        free_trips(&on);
    }
    report_table(&flatness);
    report_spread(&flatness, "to the device and back", &spread);
}

/* ---- Memory, each in a process of its own ---- */

/* Does not count the library's start, as the rows below do not. */
static void untouched(void)
{
    const size_t count = resident_count();
    synced_mem **const mems = resident_array(count, sizeof *mems);
    synced_mem *first;
    must_work(synced_mem_create(&first, DATA, NULL) == SYNCED_MEM_OK);
    const size_t before = resident_now();
    for (size_t i = 0; i < count; i++)
        must_work(synced_mem_create(&mems[i], DATA, NULL) == SYNCED_MEM_OK);
    resident_end(before);
}

static void untouched_classic(void)
{
    const size_t count = resident_count();
    struct classic **const mems = resident_array(count, sizeof *mems);
    const size_t before = resident_now();
    for (size_t i = 0; i < count; i++)
        mems[i] = classic_create(DATA, false);
    resident_end(before);
}

/* Does not count the data either: page-locked memory that the pool holds. */
static void after_trips(void)
{
    const size_t count = resident_count();
    synced_mem_stats stats = {.struct_size = sizeof stats};
    synced_mem **const mems = resident_array(count, sizeof *mems);
    synced_mem *first;
    must_work(synced_mem_create(&first, DATA, NULL) == SYNCED_MEM_OK);
    first_trip(first, 0);
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    const size_t pinned = stats.pinned_bytes;
    const size_t before = resident_now();
    for (size_t i = 0; i < count; i++) {
        must_work(synced_mem_create(&mems[i], DATA, NULL) == SYNCED_MEM_OK);
        first_trip(mems[i], i);
    }
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    resident_end(before + stats.pinned_bytes - pinned);
}

/* Counts the runtime's host memory for as many pieces of device memory, without the library. */
static void runtime_alone(void)
{
    const size_t count = resident_count();
    struct bare_pool *const pool = bare_pool_create();
    void **const data = resident_array(count, sizeof *data);
    synced_mem_stream stream = bare_stream_create();
    data[0] = bare_pool_alloc(pool, DATA, stream);
    const size_t before = resident_now();
    for (size_t i = 1; i < count; i++)
        data[i] = bare_pool_alloc(pool, DATA, stream);
    bare_wait(stream);
    resident_end(before);
}

static void report_untouched(void)
{
    static const struct table table = {
        "scale",    "untouched", "Resident memory of an object that was only created, to the byte",
        UNIT_BYTES, NULL,        "Caffe's object"};
    char name[32];
    report_table(&table);
    name_count(suite.objects, name);
    struct row row = row_of(&table, name, (double)suite.objects);
    row_target(&row, VALUE, AT_MOST, 128);
    report_progress(&row);
    report_values(&row, (const struct summary[]){summary_of_one(resident_each(untouched, suite.objects)), unmeasured,
                                                 summary_of_one(resident_each(untouched_classic, suite.objects))});
}

void measure_resident(void)
{
    static const struct table table = {
        "scale",
        "after-trip",
        "Resident memory of an object after a round trip, beside its 4 KiB of data, to the byte",
        UNIT_BYTES,
        "the runtime's own records of as many pieces of device memory",
        NULL};
    char name[32];
    report_untouched();
    report_table(&table);
    name_count(suite.gpu_objects, name);
    struct row all = row_of(&table, "all included", (double)suite.gpu_objects);
    struct row less = row_of(&table, "less the runtime's own", (double)suite.gpu_objects);
    row_target(&less, VALUE, AT_MOST, 384);
    double with = 0;
    double without = 0;
    if (row_can_run(&all, true, 0)) {
        with = resident_each(after_trips, suite.gpu_objects);
        without = resident_each(runtime_alone, suite.gpu_objects);
        (void)snprintf(all.note, sizeof all.note, "%s", name);
        report_values(&all, (const struct summary[]){summary_of_one(with), summary_of_one(without), unmeasured});
    }
    if (row_can_run(&less, true, 0))
        report_values(&less, (const struct summary[]){summary_of_one(with - without), unmeasured, unmeasured});
}
