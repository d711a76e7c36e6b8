/* The device to files. */
#include "bare.h"
#include "by_hand.h"
#include "object.h"
#include "parts_of_file.h"
#include "report.h"
#include "suite.h"
#include "test_file.h"

#include <unistd.h>

struct stores {
    int source; /* its contents are on the device */
    int descriptor, by_hand;
    synced_mem_file *file; /* of the descriptor */
    size_t part, size;     /* bytes of a part, and of each file */
    struct parts_of_file parts;
    uint64_t offsets[PARTS_OF_FILE];
    struct by_hand *hand;
    char *device;
    synced_mem_stream stream;
};

static double store_objects(void *state)
{
    const struct stores *const on = state;
    const double begin = seconds_now();
    must_work(synced_mem_async_write_file_n(on->parts.mems, on->file, on->offsets, on->parts.count, on->stream) ==
              SYNCED_MEM_OK);
    must_work(synced_mem_file_wait(on->file) == SYNCED_MEM_OK);
    return seconds_now() - begin;
}

static double store_by_hand(void *state)
{
    const struct stores *const on = state;
    return by_hand_store(on->hand, on->by_hand, on->size, on->device);
}

/* Brings the contents to the device, and out of the file. */
static void load_parts(struct stores *on)
{
    synced_mem_file *const source = open_for_objects(on->source);
    parts_use_file(&on->parts, source);
    must_work(synced_mem_async_gpu_push_n(on->parts.mems, on->parts.count, on->stream) == SYNCED_MEM_OK);
    for (size_t i = 0; i < on->parts.count; i++) {
        must_work(synced_mem_mutable_gpu_data_on(on->parts.mems[i], on->stream) != NULL);
        on->offsets[i] = i * on->part;
    }
    bare_wait(on->stream);
    must_work(synced_mem_file_release(source) == SYNCED_MEM_OK);
}

static struct row row_of_shape(const struct table *table, enum shape shape)
{
    struct row row = row_of(table, shape_name(shape), shape == ONE_OBJECT ? 1 : PARTS_OF_FILE);
    row_target(&row, TO_LIMIT, AT_LEAST, 0.8);
    return row;
}

static void measure_shape(const struct table *table, struct stores *on, enum shape shape)
{
    static const struct way ways[] = {{"synced_mem", store_objects}, {"by hand", store_by_hand}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of_shape(table, shape);
    (void)snprintf(row.note, sizeof row.note, "%s", size_name(on->size));
    report_progress(&row);
    on->descriptor = make_file(folder_in_memory(), 0);
    on->file = open_for_objects(on->descriptor);
    parts_make(&on->parts, shape, on->part);
    load_parts(on);
    compare(ways, 2, on, results);
    check_file(on->descriptor, on->size);
    check_file(on->by_hand, on->size);
    report_times(&row, results, (double)on->size);
    parts_release(&on->parts);
    must_work(synced_mem_file_release(on->file) == SYNCED_MEM_OK);
    (void)close(on->descriptor);
}

static const char *prepare_stores(struct stores *on)
{
    const char *const folder = folder_in_memory();
    if (!suite.gpu)
        return "no GPU";
    const size_t room = room_in_folder(folder) / 3;
    const size_t on_device = bare_device_room() / 4;
    on->part = part_for(suite.quick      ? 4 * KIB
                        : suite.emulated ? 16 * KIB
                                         : 2 * MIB,
                        room < on_device ? room : on_device);
    on->size = PARTS_OF_FILE * on->part;
    return on->part < KIB ? "too little room for files in memory" : NULL;
}

void measure_stores(void)
{
    static const struct table table = {"files",
                                       "store-tmpfs",
                                       "The device to a file in tmpfs",
                                       UNIT_GB_PER_S,
                                       "16 threads, cudaMemcpyAsync into page-locked chunks, and a write of each",
                                       NULL};
    static struct stores on;
    report_table(&table);
    const char *const why_not = prepare_stores(&on);
    for (int shape = 0; shape < SHAPES && why_not; shape++) {
        struct row row = row_of_shape(&table, (enum shape)shape);
        report_skip(&row, why_not);
    }
    if (why_not)
        return;
    on.source = make_file(folder_in_memory(), on.size);
    on.by_hand = make_file(folder_in_memory(), 0);
    on.stream = bare_stream_create();
    on.hand = by_hand_start(true);
    on.device = bare_device_alloc(on.size);
    (void)by_hand_load(on.hand, on.source, 0, on.size, on.device);
    for (int shape = 0; shape < SHAPES; shape++)
        measure_shape(&table, &on, (enum shape)shape);
    by_hand_end(on.hand);
    bare_device_free(on.device);
    must_work(synced_mem_forget_stream(on.stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on.stream);
    (void)close(on.source);
    (void)close(on.by_hand);
}
