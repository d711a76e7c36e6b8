/* Views of one object: transfers of the parts that have changed, and reads of one part while kernels write another. The
 * kernels are the runtime's fills. */
#include "bare.h"
#include "object.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

/* ---- Changed parts ---- */

/* The object has a view for each block, and some blocks, nowhere side by side, change on the host. The bare memory has
 * the same blocks. */
struct changes {
    size_t size, block; /* bytes: of all, and of a block */
    int blocks, changed;
    synced_mem *whole;
    synced_mem **views; /* of all blocks */
    synced_mem **lists; /* of the changed blocks */
    char *pinned, *device;
    void **to; /* the bare changed blocks */
    const void **from;
    size_t *sizes;
    synced_mem_stream stream;
};

static void change(const struct changes *on)
{
    for (int i = 0; i < on->changed; i++)
        must_work(synced_mem_mutable_cpu_data(on->lists[i]) != NULL);
}

static double push_whole(void *state)
{
    const struct changes *const on = state;
    change(on);
    const double begin = seconds_now();
    must_work(synced_mem_async_gpu_push(on->whole, on->stream) == SYNCED_MEM_OK);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double push_listed(void *state)
{
    const struct changes *const on = state;
    change(on);
    const double begin = seconds_now();
    must_work(synced_mem_async_gpu_push_n(on->lists, (size_t)on->changed, on->stream) == SYNCED_MEM_OK);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double push_batch(void *state)
{
    const struct changes *const on = state;
    const double begin = seconds_now();
    bare_queue_batch(on->to, on->from, on->sizes, (size_t)on->changed, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static double push_all(void *state)
{
    const struct changes *const on = state;
    const double begin = seconds_now();
    bare_queue_up(on->device, on->pinned, on->size, on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static void *array_of(int count, size_t size)
{
    void *const array = calloc((size_t)count, size);
    must(array != NULL, "no memory");
    return array;
}

/* Chooses one block of each group of neighbours, and never the last of a group. */
static void choose_blocks(struct changes *on)
{
    const int group = on->blocks / on->changed;
    uint64_t seed = 1;
    for (int i = 0; i < on->changed; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int number = i * group + (int)(seed >> 33) % (group - 1);
        on->lists[i] = on->views[number];
        on->to[i] = on->device + (size_t)number * on->block;
        on->from[i] = on->pinned + (size_t)number * on->block;
        on->sizes[i] = on->block;
    }
}

static void make_changes(struct changes *on)
{
    on->views = array_of(on->blocks, sizeof *on->views);
    on->lists = array_of(on->changed, sizeof *on->lists);
    on->to = array_of(on->changed, sizeof *on->to);
    on->from = array_of(on->changed, sizeof *on->from);
    on->sizes = array_of(on->changed, sizeof *on->sizes);
    on->stream = bare_stream_create();
    on->pinned = bare_host_alloc(on->size);
    on->device = bare_device_alloc(on->size);
    pattern_fill(on->pinned, on->size, 1);
    on->whole = make_object(on->size);
    void *const data = synced_mem_overwrite_cpu_data(on->whole);
    must_work(data != NULL);
    memcpy(data, on->pinned, on->size);
    must_work(synced_mem_gpu_data_on(on->whole, on->stream) != NULL);
    bare_wait(on->stream);
    for (int i = 0; i < on->blocks; i++)
        must_work(synced_mem_view(&on->views[i], on->whole, (size_t)i * on->block, on->block, NULL) == SYNCED_MEM_OK);
    choose_blocks(on);
}

static uint64_t bytes_pushed(void)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    return stats.h2d_bytes;
}

/* Checks that a push moves the changed blocks and no others, and that all contents reach the device. */
static void check_changes(struct changes *on)
{
    uint64_t before = bytes_pushed();
    (void)push_whole(on);
    must(bytes_pushed() - before == (uint64_t)on->changed * on->block, "wrong result: a push moved other bytes");
    before = bytes_pushed();
    (void)push_listed(on);
    must(bytes_pushed() - before == (uint64_t)on->changed * on->block, "wrong result: a push moved other bytes");
    must_work(synced_mem_mutable_gpu_data_on(on->whole, on->stream) != NULL);
    const void *const data = synced_mem_cpu_data(on->whole);
    must_work(data != NULL);
    pattern_check(data, on->size, 1);
}

static void free_changes(struct changes *on)
{
    for (int i = 0; i < on->blocks; i++)
        release_object(on->views[i]);
    release_object(on->whole);
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on->stream);
    bare_device_free(on->device);
    bare_host_free(on->pinned);
    free(on->views);
    free(on->lists);
    free(on->to);
    free(on->from);
    free(on->sizes);
}

/* Some of the blocks have changed. Of large ones a batch of copies reaches the link, of small ones it does not. */
struct changed_case {
    int blocks, changed;
    double to_limit, faster; /* targets; 0: none */
};

/* All ways run in turn, so that both rows have the same references. */
static void measure_changed_case(const struct table *table, const struct changed_case *one)
{
    static const struct way ways[] = {
        {"the whole", push_whole}, {"the views", push_listed}, {"batch", push_batch}, {"all", push_all}};
    static const char *const pushes[] = {"push", "push_n"};
    struct summary results[4];
    const bool small = suite.quick || suite.emulated;
    struct changes on = {
        .size = suite.largest, .blocks = small ? 256 : one->blocks, .changed = small ? 16 : one->changed};
    on.block = on.size / (size_t)on.blocks;
    const bool runs = suite.gpu && bare_has_batches();
    if (runs) {
        make_changes(&on);
        check_changes(&on);
        compare(ways, 4, &on, results);
        check_changes(&on);
        free_changes(&on);
    }
    for (int i = 0; i < 2; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s, %d x %s of %s", pushes[i], on.changed, size_name(on.block),
                       size_name(on.size));
        struct row row = row_of(table, name, on.changed);
        row_target(&row, TO_LIMIT, AT_MOST, one->to_limit);
        if (one->faster > 0)
            row_target(&row, FASTER, AT_LEAST, one->faster);
        if (!row_can_run(&row, true, 0))
            continue;
        if (runs)
            report_times(&row, (const struct summary[]){results[i], results[2], results[3]}, 0);
        else
            report_skip(&row, "runtime or driver is older than 12.8");
    }
}

void measure_changed_parts(void)
{
    static const struct table table = {"parts",
                                       "push-changed",
                                       "Push of an object in which some blocks have changed, and push_n of their views",
                                       UNIT_US,
                                       "one cudaMemcpyBatchAsync of these blocks, and one wait",
                                       "cudaMemcpyAsync of the whole, and one wait"};
    static const struct changed_case cases[] = {{16384, 1000, 1.1, 8}, {262144, 10000, 0.2, 0}};
    report_table(&table);
    for (int i = 0; i < (suite.quick || suite.emulated ? 1 : 2); i++) /* small ones would be alike */
        measure_changed_case(&table, &cases[i]);
}

/* ---- Reads beside kernels ---- */

/* The two parts: kernels write one on a stream while the host reads the other. */
struct parts {
    synced_mem *read, *written;
};

struct beside {
    size_t size, fill; /* bytes: of the part that is read, and of the part that a kernel fills */
    bool moves;        /* each read transfers the part from the device */
    int reads;
    int kernels;
    struct parts views, objects;
    synced_mem_stream compute, other;
    double left; /* the least seconds for which kernels ran on after the reads */
};

static double read_beside(struct beside *on, const struct parts *parts)
{
    void *const filled = synced_mem_mutable_gpu_data_on(parts->written, on->compute);
    must_work(filled != NULL);
    for (int i = 0; i < on->kernels; i++)
        bare_queue_fill(filled, i, on->fill, on->compute);
    const double begin = seconds_now();
    for (int i = 0; i < on->reads; i++) {
        must_work(!on->moves || synced_mem_mutable_gpu_data_on(parts->read, on->other) != NULL);
        must_work(synced_mem_cpu_data(parts->read) != NULL);
    }
    const double end = seconds_now();
    bare_wait(on->compute);
    const double left = seconds_now() - end;
    on->left = left < on->left ? left : on->left;
    return (end - begin) / on->reads;
}

static double read_view(void *state)
{
    struct beside *const on = state;
    return read_beside(on, &on->views);
}

static double read_object(void *state)
{
    struct beside *const on = state;
    return read_beside(on, &on->objects);
}

/* Puts the contents on the device, so that neither part needs memory or a transfer to it later. */
static void fill_part(const struct beside *on, synced_mem *part, size_t size)
{
    void *const data = synced_mem_overwrite_cpu_data(part);
    must_work(data != NULL);
    pattern_fill(data, size, 2);
    must_work(synced_mem_gpu_data_on(part, on->other) != NULL);
}

static void measure_reads(const struct table *table, const char *name, struct beside *on)
{
    static const struct way ways[] = {{"views", read_view}, {"objects", read_object}};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, name, (double)on->size);
    row_target(&row, TO_LIMIT, AT_MOST, 1.05);
    if (!row_can_run(&row, true, 0))
        return;
    on->left = 1;
    compare(ways, 2, on, results);
    (void)snprintf(row.note, sizeof row.note, "kernels ran on for at least %.0f us", on->left * 1e6);
    report_times(&row, results, 0);
    const struct parts *const both[] = {&on->views, &on->objects};
    for (int i = 0; i < 2; i++) {
        const void *const data = synced_mem_cpu_data(both[i]->read);
        must_work(data != NULL);
        pattern_check(data, on->size, 2);
    }
}

void measure_reads_beside_kernels(void)
{
    static const struct table table = {"parts",
                                       "beside",
                                       "A read of one view on the host, while kernels (fills) write another view",
                                       UNIT_US,
                                       "the same with two objects",
                                       NULL};
    struct beside on = {.size = 64 * KIB, .fill = 64 * MIB, .kernels = 64, .reads = 50000};
    report_table(&table);
    if (suite.quick || suite.emulated) {
        on.fill = 64 * KIB;
        on.kernels = 4;
    }
    synced_mem *const whole = make_object(on.size + on.fill);
    must_work(synced_mem_view(&on.views.read, whole, 0, on.size, NULL) == SYNCED_MEM_OK);
    must_work(synced_mem_view(&on.views.written, whole, on.size, on.fill, NULL) == SYNCED_MEM_OK);
    on.objects = (struct parts){.read = make_object(on.size), .written = make_object(on.fill)};
    if (suite.gpu) {
        on.compute = bare_stream_create();
        on.other = bare_stream_create();
        fill_part(&on, on.views.read, on.size);
        fill_part(&on, on.objects.read, on.size);
        fill_part(&on, on.views.written, on.fill);
        fill_part(&on, on.objects.written, on.fill);
        bare_wait(on.other);
    }
    measure_reads(&table, "nothing to transfer", &on);
    on.moves = true;
    on.reads = 8;
    measure_reads(&table, "64 KiB from the device", &on);
    if (suite.gpu) {
        must_work(synced_mem_forget_stream(on.compute) == SYNCED_MEM_OK);
        must_work(synced_mem_forget_stream(on.other) == SYNCED_MEM_OK);
        bare_stream_destroy(on.compute);
        bare_stream_destroy(on.other);
    }
    release_object(on.views.read);
    release_object(on.views.written);
    release_object(whole);
    release_object(on.objects.read);
    release_object(on.objects.written);
}
