/* Copies beside kernels: pushes of the next batch while kernels work on this one. The kernels are the runtime's fills,
 * which need no compiler for device code. The trainer does the same with kernels of its own. */
#include "bare.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

#include <string.h>

enum { STEPS = 16 };

struct overlap {
    size_t size; /* of a batch */
    size_t fill; /* bytes that a kernel fills */
    int kernels; /* in a step */
    synced_mem *mems[2];
    void *pinned[2];
    void *device[2];
    struct bare_event *copied[2], *used[2]; /* of each device buffer, in the step by hand */
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

/* Returns the larger time of the two alone: no step can be shorter. */
static double larger(void *state)
{
    const double kernels = kernels_alone(state);
    const double copies = copies_alone(state);
    return kernels > copies ? kernels : copies;
}

/* As in training: pushes the next batch before it queues the kernels of this one. */
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
        must_work(synced_mem_end_use_on(this, on->compute) == SYNCED_MEM_OK);
    }
    return finish(on, begin);
}

/* The same step with a program's own events. The host would write a batch again after its copy has ended; both steps
 * leave this out. A copy comes after the kernels that used the buffer, kernels come after the copy. */
static double by_hand(void *state)
{
    const struct overlap *const on = state;
    const double begin = seconds_now();
    for (int step = 0; step < STEPS; step++) {
        const int this = step % 2;
        const int next = (step + 1) % 2;
        bare_event_wait_here(on->copied[next]);
        bare_event_wait(on->used[next], on->prefetch);
        bare_queue_up(on->device[next], on->pinned[next], on->size, on->prefetch);
        bare_event_record(on->copied[next], on->prefetch);
        bare_event_wait(on->copied[this], on->compute);
        launch_kernels(on);
        bare_event_record(on->used[this], on->compute);
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
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0; /* so host memory is page-locked from the start */
    for (int i = 0; i < 2; i++) {
        must_work(synced_mem_create(&on->mems[i], on->size, &options) == SYNCED_MEM_OK);
        void *const data = synced_mem_overwrite_cpu_data(on->mems[i]);
        must_work(data != NULL);
        pattern_fill(data, on->size, (uint64_t)i);
        must_work(synced_mem_async_gpu_push(on->mems[i], on->prefetch) == SYNCED_MEM_OK);
        on->pinned[i] = bare_host_alloc(on->size);
        pattern_fill(on->pinned[i], on->size, (uint64_t)i);
        on->device[i] = bare_device_alloc(on->size);
        on->copied[i] = bare_event_create();
        on->used[i] = bare_event_create();
    }
}

/* Sets the number of kernels such that they take about as long as the copy: there hiding is hardest. */
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
        memset(on->pinned[i], 0, on->size);
        bare_copy_down(on->pinned[i], on->device[i], on->size);
        pattern_check(on->pinned[i], on->size, (uint64_t)i);
        bare_event_destroy(on->copied[i]);
        bare_event_destroy(on->used[i]);
        bare_host_free(on->pinned[i]);
        bare_device_free(on->device[i]);
    }
}

enum { BOTH, LARGER, IN_TURN, BY_HAND, WAYS };

/* Returns the number of kernels in a step. */
static int measure_step(size_t size, struct summary results[WAYS])
{
    static const struct way ways[] = {
        [BOTH] = {"both", overlapped},
        [LARGER] = {"larger", larger},
        [IN_TURN] = {"in turn", in_turn},
        [BY_HAND] = {"by hand", by_hand},
    };
    struct overlap on = {.size = size, .fill = suite.emulated ? 64 * KIB : 64 * MIB};
    on.compute = bare_stream_create();
    on.prefetch = bare_stream_create();
    on.filled = bare_device_alloc(on.fill);
    make_batches(&on);
    balance(&on);
    compare(ways, WAYS, &on, results);
    free_batches(&on);
    must_work(synced_mem_forget_stream(on.compute) == SYNCED_MEM_OK);
    bare_device_free(on.filled);
    bare_stream_destroy(on.compute);
    bare_stream_destroy(on.prefetch);
    return on.kernels;
}

static const size_t sizes[] = {1 * MIB, 8 * MIB, 16 * MIB, 64 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Both columns include the cost of streams that wait for one another. */
static void report_by_hand(struct summary measured[SIZES][WAYS])
{
    static const struct table table = {"overlap",
                                       "fills-by-hand",
                                       "The same step beside one that is written by hand",
                                       UNIT_US,
                                       "cudaMemcpyAsync and kernels, two buffers, and an event behind each use of one",
                                       NULL};
    report_table(&table);
    for (int i = 0; i < SIZES; i++) {
        struct row row = row_of(&table, size_name(sizes[i]), (double)sizes[i]);
        row_target(&row, TO_LIMIT, AT_MOST, 1.03);
        if (row_can_run(&row, true, sizes[i]))
            report_times(&row, (const struct summary[]){measured[i][BOTH], measured[i][BY_HAND], unmeasured}, 0);
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
    struct summary measured[SIZES][WAYS];
    report_table(&table);
    for (int i = 0; i < SIZES; i++) {
        struct row row = row_of(&table, size_name(sizes[i]), (double)sizes[i]);
        row_target(&row, TO_LIMIT, AT_MOST, 1.05);
        if (!row_can_run(&row, true, sizes[i]))
            continue;
        (void)snprintf(row.note, sizeof row.note, "%d kernels a step", measure_step(sizes[i], measured[i]));
        report_times(&row, measured[i], 0);
    }
    report_by_hand(measured);
}
