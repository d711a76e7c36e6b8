/* Sweeps over objects that together are 1.5 times as large as the device's budget. */
#include "bare.h"
#include "by_hand.h"
#include "evictable.h"
#include "parts_of_file.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"
#include "test_file.h"

#include <string.h>
#include <unistd.h>

/* WRITTEN: the first bytes of an object that a kernel writes. AHEAD: the objects that a program holds before it uses
 * them. */
enum { OBJECTS_SWEPT = 48, FIT = 32, WRITTEN = 4096, CHECKED_OBJECTS = 4, AHEAD = 2 };

struct sweep {
    struct evictables all;
    bool writes;
    unsigned char round; /* what a kernel writes */
    size_t ahead;        /* the number of objects that are held before they are used */
    synced_mem_stream stream, other;
    uint64_t sweeps;
    /* Of the ways by hand: */
    char *locked, *locked_too; /* page-locked, of one object's size */
    char *device[FIT];
    char *managed;        /* of all objects; NULL: not wanted */
    struct by_hand *hand; /* reads the objects' file; NULL: they have none */
    char *block;          /* on the device, for what a sweep misses */
    int descriptor;
};

/* ---- By the library ---- */

static synced_mem_mode mode_of(const struct sweep *on)
{
    return on->writes ? SYNCED_MEM_MUTABLE : SYNCED_MEM_READ;
}

/* Holds the object before its use, which comes on another stream if it is held ahead. */
static void hold_object(struct sweep *on, size_t which)
{
    must_work(synced_mem_hold(on->all.mems[which], SYNCED_MEM_SIDE_GPU, mode_of(on),
                              on->ahead > 0 ? on->other : on->stream) == SYNCED_MEM_OK);
}

static void use_object(const struct sweep *on, synced_mem *mem)
{
    void *const data = synced_mem_access(mem, SYNCED_MEM_SIDE_GPU, mode_of(on), on->stream);
    must_work(data != NULL);
    if (on->writes)
        bare_queue_fill(data, on->round, WRITTEN, on->stream);
    must_work(synced_mem_unhold(mem, SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
}

static double sweep_objects(void *state)
{
    struct sweep *const on = state;
    const double begin = seconds_now();
    size_t held = 0;
    on->sweeps++;
    on->round++;
    for (size_t i = 0; i < OBJECTS_SWEPT; i++) {
        for (; held < OBJECTS_SWEPT && held <= i + on->ahead; held++)
            hold_object(on, held);
        use_object(on, on->all.mems[i]);
    }
    bare_wait(on->stream);
    return seconds_now() - begin;
}

/* Returns the time of a sweep for each object that was not on the device. */
static double sweep_by_misses(void *state)
{
    const uint64_t before = count_misses();
    const double seconds = sweep_objects(state);
    return seconds / (double)(count_misses() - before);
}

/* ---- References ---- */

/* Each returns the time of one object. */
static double copy_link(void *state)
{
    const struct sweep *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < FIT; i++)
        bare_queue_up(on->device[i], on->locked, on->all.size, on->stream);
    bare_wait(on->stream);
    return (seconds_now() - begin) / FIT;
}

static double copy_both_ways(void *state)
{
    const struct sweep *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < FIT; i++) {
        bare_queue_up(on->device[0], on->locked, on->all.size, on->stream);
        bare_queue_down(on->locked_too, on->device[1], on->all.size, on->other);
    }
    bare_wait(on->stream);
    bare_wait(on->other);
    return (seconds_now() - begin) / FIT;
}

/* Each object takes the place of the one that was used longest ago, so none is ever found. */
static double sweep_by_hand(void *state)
{
    struct sweep *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < OBJECTS_SWEPT; i++) {
        char **const place = &on->device[i % FIT];
        if (on->writes) {
            bare_queue_down(on->locked_too, *place, on->all.size, on->stream);
            bare_wait(on->stream);
        }
        bare_device_free(*place);
        *place = bare_device_alloc(on->all.size);
        bare_queue_up(*place, on->locked, on->all.size, on->stream);
        if (on->writes)
            bare_queue_fill(*place, on->round, WRITTEN, on->stream);
    }
    bare_wait(on->stream);
    return seconds_now() - begin;
}

/* By threads from a file: each object when the one before it is there, or as many as a sweep misses without a wait
 * between them. */
static double sweep_file_by_hand(void *state)
{
    const struct sweep *const on = state;
    char *device[OBJECTS_SWEPT];
    for (size_t i = 0; i < OBJECTS_SWEPT; i++)
        device[i] = on->device[i % FIT];
    return by_hand_load_each(on->hand, on->descriptor, OBJECTS_SWEPT, on->all.size, device) / OBJECTS_SWEPT;
}

static double load_file_by_hand(void *state)
{
    const struct sweep *const on = state;
    const size_t missed = OBJECTS_SWEPT - FIT;
    return by_hand_load(on->hand, on->descriptor, 0, missed * on->all.size, on->block) / (double)missed;
}

static double sweep_managed(void *state)
{
    const struct sweep *const on = state;
    const double begin = seconds_now();
    for (size_t i = 0; i < OBJECTS_SWEPT; i++) {
        const size_t oldest = (i + OBJECTS_SWEPT - FIT) % OBJECTS_SWEPT;
        bare_prefetch(on->managed + oldest * on->all.size, on->all.size, false, on->stream);
        bare_prefetch(on->managed + i * on->all.size, on->all.size, true, on->stream);
    }
    bare_wait(on->stream);
    return seconds_now() - begin;
}

/* ---- Preparation ---- */

static void begin_sweeps(struct sweep *on, synced_mem_file *file, int descriptor)
{
    const size_t size = evictable_size();
    on->stream = bare_stream_create();
    on->other = bare_stream_create();
    on->locked = bare_host_alloc(size);
    on->locked_too = bare_host_alloc(size);
    memset(on->locked, 1, size);
    for (size_t i = 0; i < FIT; i++)
        on->device[i] = bare_device_alloc(size);
    on->descriptor = descriptor;
    on->hand = file ? by_hand_start(true) : NULL;
    on->block = file ? bare_device_alloc((OBJECTS_SWEPT - FIT) * size) : NULL;
    evictables_make(&on->all, OBJECTS_SWEPT, size, FIT, file);
}

static void make_managed(struct sweep *on)
{
    const size_t bytes = OBJECTS_SWEPT * on->all.size;
    must(bytes < bare_device_room() / 2, "too little device memory");
    on->managed = bare_managed_alloc(bytes);
    memset(on->managed, 1, bytes);
}

/* Checks what evictions and loads have left of some objects. */
static void check_objects(const struct sweep *on, bool in_file)
{
    for (size_t i = 0; i < OBJECTS_SWEPT; i += OBJECTS_SWEPT / CHECKED_OBJECTS) {
        const char *const data = synced_mem_cpu_data(on->all.mems[i]);
        const size_t skipped = on->writes ? WRITTEN : 0;
        must_work(data != NULL);
        for (size_t byte = 0; byte < skipped; byte++)
            must((unsigned char)data[byte] == on->round, "wrong result: the kernel's bytes are lost");
        pattern_check(data + skipped, on->all.size - skipped,
                      (in_file ? i * on->all.size / sizeof(uint64_t) : i) + skipped / sizeof(uint64_t));
    }
}

static void end_sweeps(struct sweep *on)
{
    evictables_release(&on->all);
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    must_work(synced_mem_forget_stream(on->other) == SYNCED_MEM_OK);
    for (size_t i = 0; i < FIT; i++)
        bare_device_free(on->device[i]);
    if (on->managed)
        bare_device_free(on->managed);
    if (on->hand) {
        by_hand_end(on->hand);
        bare_device_free(on->block);
    }
    bare_host_free(on->locked);
    bare_host_free(on->locked_too);
    bare_stream_destroy(on->stream);
    bare_stream_destroy(on->other);
}

/* ---- Rows ---- */

/* One kind of sweeps. */
struct kind {
    const struct table *rate; /* of what a sweep brings */
    const char *name;
    double least; /* of the link's rate */
    size_t ahead;
    bool writes;
    bool from_file;
};

enum { BY_MISSES, LINK, WHOLE, BY_HAND, MANAGED, FILE_BY_HAND, WAYS };

static struct summary times(struct summary of, double factor)
{
    return (struct summary){of.median * factor, of.least * factor, of.most * factor,
                            of.lower * factor,  of.upper * factor, of.rounds};
}

/* Returns Belady's misses in the sweeps from the first on. */
static double count_fewest(const struct sweep *on, uint64_t sweeps)
{
    uint32_t uses[OBJECTS_SWEPT];
    for (uint32_t i = 0; i < OBJECTS_SWEPT; i++)
        uses[i] = i;
    return (double)count_fewest_misses(&on->all, uses, OBJECTS_SWEPT, sweeps);
}

/* Returns those of one of the sweeps that are timed, which come after the first one of each way. */
static double count_fewest_timed(const struct sweep *on)
{
    enum { UNTIMED = 2 };
    return (count_fewest(on, on->sweeps) - count_fewest(on, UNTIMED)) / (double)(on->sweeps - UNTIMED);
}

static void report_misses(const struct kind *kind, const struct sweep *on, double misses)
{
    static const struct table table = {"budget",
                                       "sweep-misses",
                                       "Objects that a sweep does not find on the device",
                                       UNIT_TRANSFERS,
                                       "Belady's optimum, which knows all later uses",
                                       "the object that was used longest ago goes"};
    struct row row = row_of(&table, kind->name, OBJECTS_SWEPT);
    row_target(&row, TO_LIMIT, AT_MOST, 1.1);
    (void)snprintf(row.note, sizeof row.note, "mean of %llu sweeps from the first on", (unsigned long long)on->sweeps);
    report_table(&table);
    report_values(&row, (const struct summary[]){summary_of_one(misses),
                                                 summary_of_one(count_fewest(on, on->sweeps) / (double)on->sweeps),
                                                 summary_of_one(OBJECTS_SWEPT)});
}

static void report_whole(const struct kind *kind, const struct sweep *on, const struct summary results[WAYS])
{
    static const struct table table = {"budget",
                                       "sweep-time",
                                       "A sweep",
                                       UNIT_MS,
                                       "Belady's misses, each by copies of as many bytes, page-locked",
                                       "cudaFree of what was used longest ago, cudaMalloc, cudaMemcpyAsync"};
    static const struct table managed = {"budget",
                                         "sweep-managed",
                                         "A sweep, beside managed memory that all fits on the device",
                                         UNIT_MS,
                                         NULL,
                                         "cudaMemPrefetchAsync of each, and of what was used longest ago to the host"};
    struct row row = row_of(&table, kind->name, OBJECTS_SWEPT);
    report_table(&table);
    report_times(
        &row, (const struct summary[]){results[WHOLE], times(results[LINK], count_fewest_timed(on)), results[BY_HAND]},
        0);
    if (!on->managed)
        return;
    row = row_of(&managed, kind->name, OBJECTS_SWEPT);
    report_table(&managed);
    report_times(&row, (const struct summary[]){results[WHOLE], unmeasured, results[MANAGED]}, 0);
}

static void measure_sweeps(const struct kind *kind, struct row *row, synced_mem_file *file, int descriptor)
{
    struct sweep on = {.writes = kind->writes, .ahead = kind->ahead};
    struct summary results[WAYS];
    begin_sweeps(&on, file, descriptor);
    if (!kind->writes && !file)
        make_managed(&on);
    const struct way ways[WAYS] = {[BY_MISSES] = {"by misses", sweep_by_misses},
                                   [LINK] = {"link", kind->writes ? copy_both_ways : copy_link},
                                   [WHOLE] = {"sweep", sweep_objects},
                                   [BY_HAND] = {"by hand", file ? NULL : sweep_by_hand},
                                   [MANAGED] = {"managed", on.managed ? sweep_managed : NULL},
                                   [FILE_BY_HAND] = {"file by hand", !file             ? NULL
                                                                     : kind->ahead > 0 ? load_file_by_hand
                                                                                       : sweep_file_by_hand}};
    compare(ways, WAYS, &on, results);
    const double misses = (double)count_misses() / (double)on.sweeps;
    report_times(row, (const struct summary[]){results[BY_MISSES], results[LINK], results[FILE_BY_HAND]},
                 (double)on.all.size);
    report_misses(kind, &on, misses);
    report_whole(kind, &on, results);
    check_objects(&on, file != NULL);
    end_sweeps(&on);
}

static void measure_kind(const struct kind *kind)
{
    struct row row = row_of(kind->rate, kind->name, OBJECTS_SWEPT);
    const char *const folder = folder_in_memory();
    const size_t bytes = OBJECTS_SWEPT * evictable_size();
    row_target(&row, TO_LIMIT, AT_LEAST, kind->least);
    report_table(kind->rate);
    if (!row_can_run(&row, true, 0))
        return;
    if (!kind->from_file) {
        measure_sweeps(kind, &row, NULL, -1);
        return;
    }
    if (room_in_folder(folder) < bytes) {
        report_skip(&row, "too little room for a file in memory");
        return;
    }
    const int descriptor = make_file(folder, bytes);
    synced_mem_file *const file = open_for_objects(descriptor);
    measure_sweeps(kind, &row, file, descriptor);
    must_work(synced_mem_file_release(file) == SYNCED_MEM_OK);
    (void)close(descriptor);
}

static const struct table rate = {"budget",
                                  "sweep",
                                  "The objects that a sweep brings",
                                  UNIT_GB_PER_S,
                                  "cudaMemcpyAsync of as many bytes, page-locked",
                                  NULL};

void measure_sweeps_read(void)
{
    measure_kind(&(struct kind){.rate = &rate, .name = "read", .least = 0.95});
}

void measure_sweeps_of_files(void)
{
    static const struct table of_files = {"budget",
                                          "sweep-file",
                                          "The objects that a sweep brings from a file",
                                          UNIT_GB_PER_S,
                                          "cudaMemcpyAsync of as many bytes, page-locked",
                                          "16 threads by hand, each object when the one before it is there"};
    measure_kind(&(struct kind){.rate = &of_files, .name = "read, in a file alone", .least = 0.9, .from_file = true});
}

void measure_sweeps_of_files_ahead(void)
{
    static const struct table of_files = {"budget",
                                          "sweep-file-ahead",
                                          "The objects that a sweep with objects held ahead brings from a file",
                                          UNIT_GB_PER_S,
                                          "cudaMemcpyAsync of as many bytes, page-locked",
                                          "16 threads by hand, without a wait between objects"};
    measure_kind(&(struct kind){
        .rate = &of_files, .name = "read, in a file, 2 held ahead", .least = 0.9, .ahead = AHEAD, .from_file = true});
}

static const struct table both = {"budget",
                                  "sweep-written",
                                  "The objects that a sweep brings while it takes as many back",
                                  UNIT_GB_PER_S,
                                  "cudaMemcpyAsync of as many bytes each way at once, page-locked",
                                  NULL};

void measure_sweeps_written(void)
{
    measure_kind(&(struct kind){.rate = &both, .name = "written", .least = 0.85, .writes = true});
}

void measure_sweeps_written_ahead(void)
{
    measure_kind(
        &(struct kind){.rate = &both, .name = "written, 2 held ahead", .least = 0.85, .ahead = AHEAD, .writes = true});
}
