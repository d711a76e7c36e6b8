/* Copies beside kernels: pushes of the next batch while kernels work on this one. The kernels are the runtime's fills,
 * so that no compiler for device code is needed; the trainer does the same with its own. */
#include "bare.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

enum { STEPS = 16 };

struct overlap {
    size_t size; /* of a batch */
    size_t fill; /* what a kernel fills */
    int kernels; /* in a step */
    synced_mem *mems[2];
    void *pinned[2];
    void *device[2];
    void *filled;
    synced_mem_stream compute, prefetch;
};

static void launch_kernels(const struct overlap *on)
{
    for (int i = 0; i < on->kernels; i++)
        bare_queue_fill(on->filled, i, on->fill, on->compute);
}

static double finish(const struct overlap *on, double begin)
{
    bare_wait(on->prefetch);
    bare_wait(on->compute);
    return (seconds_now() - begin) / STEPS;
}

static double kernels_alone(const struct overlap *on)
{
    const double begin = seconds_now();
    for (int step = 0; step < STEPS; step++)
        launch_kernels(on);
    return finish(on, begin);
}

static double copies_alone(const struct overlap *on)
{
    const double begin = seconds_now();
    for (int step = 0; step < STEPS; step++)
        bare_queue_up(on->device[step % 2], on->pinned[step % 2], on->size, on->prefetch);
    return finish(on, begin);
}

/* The larger of the two alone: no step can be shorter. */
static double larger(void *state)
{
    const double kernels = kernels_alone(state);
    const double copies = copies_alone(state);
    return kernels > copies ? kernels : copies;
}

/* As training does it: the next batch is on its way before the kernels of this one are queued. */
static double overlapped(void *state)
{
    const struct overlap *const on = state;
    const double begin = seconds_now();
    for (int step = 0; step < STEPS; step++) {
        synced_mem *const this = on->mems[step % 2];
        synced_mem *const next = on->mems[(step + 1) % 2];
        must_work(synced_mem_mutable_cpu_data(next) != NULL);
        must_work(synced_mem_async_gpu_push(next, on->prefetch) == SYNCED_MEM_OK);
        must_work(synced_mem_gpu_data_on(this, on->compute) != NULL);
        launch_kernels(on);
        must_work(synced_mem_done_on(this, on->compute) == SYNCED_MEM_OK);
    }
    return finish(on, begin);
}

static double in_turn(void *state)
{
    const struct overlap *const on = state;
    const double begin = seconds_now();
    for (int step = 0; step < STEPS; step++) {
        bare_copy_up(on->device[step % 2], on->pinned[step % 2], on->size);
        launch_kernels(on);
        bare_wait(on->compute);
    }
    return finish(on, begin);
}

static void make_batches(struct overlap *on)
{
    for (int i = 0; i < 2; i++) {
        must_work(synced_mem_create(&on->mems[i], on->size, NULL) == SYNCED_MEM_OK);
        must_work(synced_mem_gpu_data(on->mems[i]) != NULL); /* the process uses a GPU: host memory is page-locked */
        void *const data = synced_mem_overwrite_cpu_data(on->mems[i]);
        must_work(data != NULL);
        pattern_fill(data, on->size, (uint64_t)i);
        must_work(synced_mem_gpu_data(on->mems[i]) != NULL);
        on->pinned[i] = bare_host_alloc(on->size);
        pattern_fill(on->pinned[i], on->size, (uint64_t)i);
        on->device[i] = bare_device_alloc(on->size);
    }
}

/* As many kernels as take about as long as the copy, where hiding is hardest. */
static void balance(struct overlap *on)
{
    on->kernels = 1;
    (void)larger(on);
    const double kernels = (double)copies_alone(on) / kernels_alone(on);
    on->kernels = suite.emulated || kernels < 1 ? 1 : kernels > 1000 ? 1000 : (int)(kernels + 0.5);
}

static void free_batches(struct overlap *on)
{
    for (int i = 0; i < 2; i++) {
        must_work(synced_mem_mutable_gpu_data(on->mems[i]) != NULL);
        const void *const data = synced_mem_cpu_data(on->mems[i]);
        must_work(data != NULL);
        pattern_check(data, on->size, (uint64_t)i);
        must_work(synced_mem_release(on->mems[i]) == SYNCED_MEM_OK);
        bare_host_free(on->pinned[i]);
        bare_device_free(on->device[i]);
    }
}

void measure_overlap(void)
{
    static const struct table table = {"overlap",
                                       "fills",
                                       "A step: the push of the next batch beside kernels (fills) of about its length",
                                       UNIT_US,
                                       "the larger of kernels alone and cudaMemcpyAsync alone",
                                       "cudaMemcpy, then the kernels, one after the other"};
    static const struct way ways[] = {{"both", overlapped}, {"larger", larger}, {"in turn", in_turn}};
    static const size_t sizes[] = {1 * MIB, 8 * MIB, 16 * MIB, 64 * MIB};
    report_table(&table);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct summary results[3];
        struct overlap on = {.size = sizes[i], .fill = suite.emulated ? 64 * KIB : 64 * MIB};
        struct row row = row_of(&table, size_name(on.size), (double)on.size);
        row_target(&row, TO_LIMIT, AT_MOST, 1.05);
        if (!row_can_run(&row, true, on.size))
            continue;
        on.compute = bare_stream_create();
        on.prefetch = bare_stream_create();
        on.filled = bare_device_alloc(on.fill);
        make_batches(&on);
        balance(&on);
        compare(ways, 3, &on, results);
        (void)snprintf(row.note, sizeof row.note, "%d kernels a step", on.kernels);
        report_times(&row, results, 0);
        free_batches(&on);
        must_work(synced_mem_stream_done(on.compute) == SYNCED_MEM_OK);
        bare_device_free(on.filled);
        bare_stream_destroy(on.compute);
        bare_stream_destroy(on.prefetch);
    }
}
