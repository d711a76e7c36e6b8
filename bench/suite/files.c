/* Files to the device and to the host. */
#include "bare.h"
#include "by_hand.h"
#include "object.h"
#include "parts_of_file.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"
#include "test_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 16 }; /* that are checked */

struct loads {
    int descriptor;
    synced_mem_file *file;
    size_t part, size; /* bytes of a part, and of the file */
    struct parts_of_file parts;
    struct by_hand *hand;
    char *memory; /* of the way by hand: the device's, or the host's */
    synced_mem_stream stream;
};

/* ---- Sizes ---- */

/* most: on a GPU. Returns the bytes of a part, such that the file has room in the folder, and twice on the device. */
static size_t choose_part(const char *folder, size_t most)
{
    size_t room = room_in_folder(folder);
    if (suite.gpu && bare_device_room() / 4 < room)
        room = bare_device_room() / 4;
    return part_for(suite.quick ? 4 * KIB : suite.emulated ? 16 * KIB : most, room);
}

/* ---- To the device ---- */

static double load_objects(void *state)
{
    const struct loads *const on = state;
    const double begin = seconds_now();
    parts_use_file(&on->parts, on->file);
    must_work(synced_mem_async_gpu_push_n(on->parts.mems, on->parts.count, on->stream) == SYNCED_MEM_OK);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double load_by_hand(void *state)
{
    const struct loads *const on = state;
    return by_hand_load(on->hand, on->descriptor, 0, on->size, on->memory);
}

static double copy_link(void *state)
{
    const struct loads *const on = state;
    return by_hand_copy_up(on->hand, on->size, on->memory);
}

/* Checks some parts on the device, each as a whole. */
static void check_loaded(const struct loads *on)
{
    char *const data = malloc(on->part);
    must(data != NULL, "no memory");
    bare_wait_all();
    for (size_t i = 0; i < PLACES; i++) {
        const size_t number = i * (PARTS_OF_FILE - 1) / (PLACES - 1);
        const bool one = on->parts.shape == ONE_OBJECT;
        const char *const from = synced_mem_gpu_data(on->parts.mems[one ? 0 : number]);
        must_work(from != NULL);
        memset(data, 0, on->part);
        bare_copy_down(data, from + (one ? number * on->part : 0), on->part);
        pattern_check(data, on->part, number * on->part / sizeof(uint64_t));
    }
    free(data);
}

static void begin_loads(struct loads *on, enum shape shape)
{
    on->stream = bare_stream_create();
    on->file = open_for_objects(on->descriptor);
    parts_make(&on->parts, shape, on->part);
}

static void end_loads(const struct loads *on)
{
    parts_release(&on->parts);
    must_work(synced_mem_file_release(on->file) == SYNCED_MEM_OK);
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on->stream);
}

static void note_size(struct row *row, const struct loads *on)
{
    (void)snprintf(row->note, sizeof row->note, "%s", size_name(on->size));
}

/* limit: the way that the table names. */
static void measure_shape(const struct table *table, struct loads *on, enum shape shape, double target,
                          const struct way *limit)
{
    const struct way ways[] = {{"synced_mem", load_objects}, *limit, {"by hand", load_by_hand}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, shape_name(shape), shape == ONE_OBJECT ? 1 : PARTS_OF_FILE);
    row_target(&row, TO_LIMIT, AT_LEAST, target);
    note_size(&row, on);
    report_progress(&row);
    begin_loads(on, shape);
    compare(ways, table->classic ? 3 : 2, on, results);
    (void)load_objects(on);
    check_loaded(on);
    report_times(&row, results, (double)on->size);
    end_loads(on);
}

static void skip_shapes(const struct table *table, const double targets[SHAPES], const char *why)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        struct row row = row_of(table, shape_name((enum shape)shape), shape == ONE_OBJECT ? 1 : PARTS_OF_FILE);
        if (targets[shape] == 0)
            continue;
        row_target(&row, TO_LIMIT, AT_LEAST, targets[shape]);
        report_skip(&row, why);
    }
}

/* Returns NULL, or the reason why no file of the folder can be measured. */
static const char *prepare_file(struct loads *on, const char *folder, bool needs_gpu, size_t most)
{
    if (needs_gpu && !suite.gpu)
        return "no GPU";
    if (!folder)
        return "there is no such folder";
    on->part = choose_part(folder, most);
    if (on->part < KIB)
        return "too little room for a file";
    on->size = PARTS_OF_FILE * on->part;
    on->descriptor = make_file(folder, on->size);
    return NULL;
}

/* A target of 0: there is no such row. */
static void measure_loads(const struct table *table, const char *folder, size_t part, const double targets[SHAPES])
{
    static const struct way limit = {"link", copy_link};
    struct loads on = {0};
    report_table(table);
    const char *const why_not = prepare_file(&on, folder, true, part);
    if (why_not) {
        skip_shapes(table, targets, why_not);
        return;
    }
    on.hand = by_hand_start(true);
    on.memory = bare_device_alloc(on.size);
    for (int shape = 0; shape < SHAPES; shape++)
        measure_shape(table, &on, (enum shape)shape, targets[shape], &limit);
    bare_device_free(on.memory);
    by_hand_end(on.hand);
    (void)close(on.descriptor);
}

static const char link_alone[] = "cudaMemcpyAsync of as many bytes, page-locked";
static const char threads_load[] = "16 threads that read into page-locked chunks, and cudaMemcpyAsync of each";
static const double load_targets[SHAPES] = {[ONE_OBJECT] = 0.95, [VIEWS] = 0.93, [OBJECTS] = 0.9};

void measure_loads_from_memory(void)
{
    static const struct table table = {"files",       "load-tmpfs", "A file in tmpfs to the device",
                                       UNIT_GB_PER_S, link_alone,   threads_load};
    measure_loads(&table, folder_in_memory(), 8 * MIB, load_targets);
}

void measure_loads_from_cache(void)
{
    static const struct table table = {"files",       "load-cached", "A file in the system's cache to the device",
                                       UNIT_GB_PER_S, link_alone,    threads_load};
    measure_loads(&table, folder_on_disk(), 4 * MIB, load_targets);
}

void measure_loads_from_disk(void)
{
    static const struct table table = {"files",       "load-direct", "A file on the disk to the device, by O_DIRECT",
                                       UNIT_GB_PER_S, threads_load,  NULL};
    static const struct way limit = {"by hand", load_by_hand};
    static const double targets[SHAPES] = {[ONE_OBJECT] = 0.95, [OBJECTS] = 0.95};
    struct loads on = {0};
    report_table(&table);
    const char *why_not = prepare_file(&on, folder_on_disk(), true, MIB);
    const int cached = on.descriptor;
    if (!why_not && (on.descriptor = open_directly(cached)) < 0)
        why_not = "the file system refuses O_DIRECT";
    if (why_not) {
        skip_shapes(&table, targets, why_not);
        return;
    }
    on.hand = by_hand_start(true);
    on.memory = bare_device_alloc(on.size);
    measure_shape(&table, &on, ONE_OBJECT, targets[ONE_OBJECT], &limit);
    measure_shape(&table, &on, OBJECTS, targets[OBJECTS], &limit);
    bare_device_free(on.memory);
    by_hand_end(on.hand);
    (void)close(on.descriptor);
    (void)close(cached);
}

/* ---- To the host ---- */

/* Without a GPU there are no pulls. */
static double read_objects(void *state)
{
    const struct loads *const on = state;
    const double begin = seconds_now();
    parts_use_file(&on->parts, on->file);
    for (size_t i = 0; i < on->parts.count && !suite.gpu; i++)
        must_work(synced_mem_cpu_data(on->parts.mems[i]) != NULL);
    if (suite.gpu)
        must_work(synced_mem_async_cpu_pull_n(on->parts.mems, on->parts.count, SYNCED_MEM_STREAM_LIBRARY) ==
                  SYNCED_MEM_OK);
    return seconds_now() - begin;
}

static double read_by_hand(void *state)
{
    const struct loads *const on = state;
    return by_hand_read(on->hand, on->descriptor, on->size, on->memory);
}

static void check_read(const struct loads *on)
{
    for (size_t i = 0; i < PLACES; i++) {
        const size_t number = i * (PARTS_OF_FILE - 1) / (PLACES - 1);
        const bool one = on->parts.shape == ONE_OBJECT;
        const char *const data = synced_mem_cpu_data(on->parts.mems[one ? 0 : number]);
        must_work(data != NULL);
        pattern_check(data + (one ? number * on->part : 0), on->part, number * on->part / sizeof(uint64_t));
    }
}

static void measure_host_shape(const struct table *table, struct loads *on, enum shape shape)
{
    static const struct way ways[] = {{"synced_mem", read_objects}, {"by hand", read_by_hand}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, shape_name(shape), shape == ONE_OBJECT ? 1 : PARTS_OF_FILE);
    row_target(&row, TO_LIMIT, AT_LEAST, 0.9);
    note_size(&row, on);
    report_progress(&row);
    on->file = open_for_objects(on->descriptor);
    parts_make(&on->parts, shape, on->part);
    compare(ways, 2, on, results);
    (void)read_objects(on);
    check_read(on);
    report_times(&row, results, (double)on->size);
    parts_release(&on->parts);
    must_work(synced_mem_file_release(on->file) == SYNCED_MEM_OK);
}

static void measure_reads(const struct table *table, const char *folder)
{
    static const double targets[SHAPES] = {0.9, 0.9, 0.9};
    struct loads on = {0};
    report_table(table);
    const char *const why_not = prepare_file(&on, folder, false, MIB);
    if (why_not) {
        skip_shapes(table, targets, why_not);
        return;
    }
    on.hand = by_hand_start(false);
    on.memory = suite.gpu ? bare_host_alloc(on.size) : malloc(on.size);
    must(on.memory != NULL, "no memory");
    for (int shape = 0; shape < SHAPES; shape++)
        measure_host_shape(table, &on, (enum shape)shape);
    suite.gpu ? bare_host_free(on.memory) : free(on.memory);
    by_hand_end(on.hand);
    (void)close(on.descriptor);
}

static const char threads_read[] = "16 threads that read into memory of the same kind";

void measure_reads_from_memory(void)
{
    static const struct table table = {"files",       "read-tmpfs", "A file in tmpfs to host copies",
                                       UNIT_GB_PER_S, threads_read, NULL};
    measure_reads(&table, folder_in_memory());
}

void measure_reads_from_cache(void)
{
    static const struct table table = {"files",       "read-cached", "A file in the system's cache to host copies",
                                       UNIT_GB_PER_S, threads_read,  NULL};
    measure_reads(&table, folder_on_disk());
}
