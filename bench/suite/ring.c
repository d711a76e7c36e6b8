#include "ring.h"

#include "bare.h"
#include "pattern.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

/* ---- Creating a ring ---- */

/* An access without a stream marks the memory for good: later transfers to it come after the legacy stream's kernels.
 * Rows of other calls make none. */
static void make_on_device(const struct ring *ring, synced_mem *mem)
{
    if (ring->shape->movers[OURS] == &accessed)
        must_work(synced_mem_gpu_data(mem) != NULL);
    else
        must_work(synced_mem_async_gpu_push(mem, ring->streams[UP]) == SYNCED_MEM_OK);
}

static synced_mem *make_object(const struct ring *ring, int slot)
{
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.device = 0;
    must_work(synced_mem_create(&mem, ring->size, &options) == SYNCED_MEM_OK);
    if (ring->shape->host == PAGEABLE) {
        must_work(synced_mem_set_cpu_data(mem, ring->pageable + (size_t)slot * ring->size) == SYNCED_MEM_OK);
    } else {
        void *const data = synced_mem_overwrite_cpu_data(mem);
        must_work(data != NULL);
        pattern_fill(data, ring->size, (uint64_t)slot);
        must(synced_mem_cpu_is_pinned(mem), "the library's host memory is not page-locked");
    }
    make_on_device(ring, mem);
    return mem;
}

static bool is_small_run(void)
{
    return suite.quick || suite.emulated;
}

static int objects_of(const struct shape *shape)
{
    enum { SMALL = 8 };
    return is_small_run() && shape->objects > SMALL ? SMALL : shape->objects;
}

static int at_a_time(const struct ring *ring)
{
    return ring->objects * ring->shape->direction_count;
}

static int bounded(size_t number, int least, int most)
{
    return number > (size_t)most ? most : (int)number > least ? (int)number : least;
}

/* A batch transfers no object twice, and all objects are made ready before it. It is long enough to warm caches and
 * branch predictors as a loop does, and short enough for the ways to alternate. */
static void set_lengths(struct ring *ring)
{
    const int each = at_a_time(ring);
    const int slots = bounded(suite.ring / ring->size, each, MAX_SLOTS);
    const size_t batch = is_small_run() ? 2 * MIB : 16 * MIB;
    ring->slots = slots - slots % each;
    ring->steps = bounded(batch / ring->size / (size_t)each, 1, is_small_run() ? 2 : 64);
    ring->steps = ring->steps * each > ring->slots ? ring->slots / each : ring->steps;
    for (int who = 0; who < EVERYBODY; who++) /* no way finds another one's data in a cache */
        ring->at[who] = who * (ring->slots / each) / EVERYBODY * each;
}

static struct ring *make_ring(const struct shape *shape, size_t size)
{
    struct ring *const ring = calloc(1, sizeof *ring);
    must(ring != NULL, "no memory");
    ring->shape = shape;
    ring->size = size;
    ring->objects = objects_of(shape);
    set_lengths(ring);
    const size_t all = size * (size_t)ring->slots;
    ring->pinned = bare_host_alloc(all);
    ring->device = bare_device_alloc(all);
    ring->pageable = shape->host == PAGEABLE ? malloc(all) : NULL;
    must(shape->host == PINNED || ring->pageable, "no memory");
    for (int i = 0; i < DIRECTIONS; i++)
        ring->streams[i] = bare_stream_create();
    for (int i = 0; i < ring->slots; i++)
        pattern_fill(ring->pinned + (size_t)i * size, size, (uint64_t)i);
    if (ring->pageable)
        memcpy(ring->pageable, ring->pinned, all);
    bare_copy_up(ring->device, ring->pinned, all);
    for (int i = 0; i < ring->slots; i++)
        ring->mems[i] = make_object(ring, i);
    return ring;
}

/* Checks that the contents are unchanged on both sides, then frees the ring. */
static void free_ring(struct ring *ring)
{
    const size_t all = ring->size * (size_t)ring->slots;
    memset(ring->pinned, 0, all);
    bare_copy_down(ring->pinned, ring->device, all);
    for (int i = 0; i < ring->slots; i++) {
        must_work(synced_mem_mutable_gpu_data(ring->mems[i]) != NULL);
        const void *const data = synced_mem_cpu_data(ring->mems[i]);
        must_work(data != NULL);
        pattern_check(data, ring->size, (uint64_t)i);
        pattern_check(ring->pinned + (size_t)i * ring->size, ring->size, (uint64_t)i);
        must_work(synced_mem_release(ring->mems[i]) == SYNCED_MEM_OK);
    }
    for (int i = 0; i < DIRECTIONS; i++) {
        must_work(synced_mem_forget_stream(ring->streams[i]) == SYNCED_MEM_OK);
        bare_stream_destroy(ring->streams[i]);
    }
    bare_device_free(ring->device);
    bare_host_free(ring->pinned);
    free(ring->pageable);
    free(ring);
}

/* ---- Transfers round the ring ---- */

static int first_of(const struct ring *ring, enum who who, int step, int nth)
{
    return (ring->at[who] + step * at_a_time(ring) + nth * ring->objects) % ring->slots;
}

/* Returns the seconds of the calls alone, if they are measured. */
static double move_once(const struct ring *ring, enum who who, int step)
{
    const struct shape *const shape = ring->shape;
    const struct mover *const mover = shape->movers[who];
    const double begin = shape->calls ? seconds_now() : 0;
    for (int i = 0; i < shape->direction_count; i++)
        mover->start(ring, first_of(ring, who, step, i), shape->directions[i]);
    const double calls = shape->calls ? seconds_now() - begin : 0;
    for (int i = 0; mover->finish && i < shape->direction_count; i++)
        mover->finish(ring, first_of(ring, who, step, i), shape->directions[i]);
    return calls;
}

static void prepare_batch(const struct ring *ring, enum who who)
{
    const struct shape *const shape = ring->shape;
    const struct mover *const mover = shape->movers[who];
    for (int step = 0; mover->prepare && step < ring->steps; step++)
        for (int i = 0; i < shape->direction_count; i++)
            mover->prepare(ring, first_of(ring, who, step, i), shape->directions[i]);
}

/* Returns the seconds of an object. */
static double move_batch(struct ring *ring, enum who who)
{
    const int moved = ring->steps * at_a_time(ring);
    double calls = 0;
    prepare_batch(ring, who);
    const double begin = seconds_now();
    for (int step = 0; step < ring->steps; step++)
        calls += move_once(ring, who, step);
    const double took = seconds_now() - begin;
    if (ring->shape->movers[who]->end)
        ring->shape->movers[who]->end();
    ring->at[who] = (ring->at[who] + moved) % ring->slots;
    ring->calls[who][ring->batches[who]++] = calls / moved;
    return took / moved;
}

static double move_ours(void *ring)
{
    return move_batch(ring, OURS);
}

static double move_limit(void *ring)
{
    return move_batch(ring, LIMIT);
}

static double move_classic(void *ring)
{
    return move_batch(ring, CLASSIC);
}

/* Transfers each object once in this way before timing. */
static void go_round(struct ring *ring)
{
    for (int moved = 0; moved < ring->slots; moved += ring->steps * at_a_time(ring)) {
        (void)move_batch(ring, OURS);
        ring->batches[OURS] = 0;
    }
}

static uint64_t transfers_made(void)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    return stats.h2d_transfers + stats.d2h_transfers;
}

/* Leaves out the first batch, which warms up. */
static struct summary calls_of(struct ring *ring, enum who who)
{
    return summary_of(ring->calls[who] + 1, ring->batches[who] - 1);
}

/* Repeats small transfers until the median is stable, however long that takes. */
static void compare_ring(struct ring *ring, struct summary results[EVERYBODY])
{
    static const struct way ways[] = {{"synced_mem", move_ours}, {"limit", move_limit}, {"classic", move_classic}};
    const int moved = ring->steps * at_a_time(ring);
    const int often = is_small_run() || ring->size > MIB ? 1 : ring->size > 64 * KIB ? 512 : 2048;
    const struct plan before = measure_plan();
    struct plan plan = before;
    plan.fewest = plan.fewest < often / moved ? often / moved : plan.fewest;
    measure_by(&plan);
    compare(ways, EVERYBODY, ring, results);
    measure_by(&before);
}

void measure_ring(const struct shape *shape, size_t size, struct row *row, struct summary calls[EVERYBODY])
{
    struct summary results[EVERYBODY];
    struct ring *const ring = make_ring(shape, size);
    go_round(ring);
    const uint64_t before = transfers_made();
    compare_ring(ring, results);
    must(transfers_made() - before >= (uint64_t)ring->batches[OURS] * (uint64_t)(ring->steps * at_a_time(ring)),
         "wrong result: fewer transfers than expected");
    for (int who = 0; calls && who < EVERYBODY; who++)
        calls[who] = calls_of(ring, (enum who)who);
    free_ring(ring);
    report_times(row, results, (double)size);
}

/* ---- All sizes ---- */

static const size_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB,         1 * MIB,
                               4 * MIB, 16 * MIB, 64 * MIB, (size_t)256 * MIB, (size_t)GIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

static struct row row_for(const struct shape *shape, const struct table *table, size_t size)
{
    char name[64];
    const int objects = objects_of(shape);
    (void)snprintf(name, sizeof name, "%s", size_name(size));
    if (objects > 1)
        (void)snprintf(name, sizeof name, "%d objects of %s", objects, size_name(size));
    return row_of(table, name, (double)size);
}

static bool has_size(const struct shape *shape, size_t size)
{
    return size >= shape->least && size <= shape->most;
}

/* As the rows before. Those that were skipped are skipped again. */
static void report_calls(const struct shape *shape, struct summary calls[SIZES][EVERYBODY])
{
    report_table(shape->calls);
    for (int i = 0; i < SIZES; i++) {
        if (!has_size(shape, sizes[i]))
            continue;
        struct row row = row_for(shape, shape->calls, sizes[i]);
        if (row_can_run(&row, true, sizes[i]))
            report_times(&row, calls[i], 0);
    }
}

void measure_shape(const struct shape *shape)
{
    struct summary calls[SIZES][EVERYBODY];
    report_table(shape->table);
    for (int i = 0; i < SIZES; i++) {
        if (!has_size(shape, sizes[i]))
            continue;
        struct row row = row_for(shape, shape->table, sizes[i]);
        if (shape->target)
            shape->target(&row, sizes[i]);
        if (shape->needs_batches && suite.gpu && !bare_has_batches())
            report_skip(&row, "runtime or driver is older than 12.8");
        else if (row_can_run(&row, true, sizes[i]))
            measure_ring(shape, sizes[i], &row, calls[i]);
    }
    if (shape->calls)
        report_calls(shape, calls);
}
