/* A model whose layers do not all fit into the device's budget: forward and back again. */
#include "bare.h"
#include "evictable.h"
#include "kernels.h"
#include "pattern.h"
#include "report.h"
#include "suite.h"

#include <string.h>

/* FIT: 80 % of them. */
enum { LAYERS = 48, FIT = 38, USES = 2 * LAYERS };

struct model {
    struct evictables layers;
    struct kernels kernels; /* of a layer */
    synced_mem_stream compute, copies;
    uint64_t passes;
    char *locked, *device; /* of a layer's size, of the copies by hand */
};

/* The layer that is used so many uses after the begin of a pass. */
static uint32_t layer_at(size_t use)
{
    return (uint32_t)(use < LAYERS ? use : USES - 1 - use);
}

static void hold_layer(const struct model *on, size_t use)
{
    synced_mem *const layer = on->layers.mems[layer_at(use)];
    must_work(synced_mem_hold(layer, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, on->copies) == SYNCED_MEM_OK);
}

/* The next layer comes while the kernels of this one run. */
static double pass_with_holds(void *state)
{
    struct model *const on = state;
    const double begin = seconds_now();
    on->passes++;
    hold_layer(on, 0);
    for (size_t use = 0; use < USES; use++) {
        synced_mem *const layer = on->layers.mems[layer_at(use)];
        if (use + 1 < USES)
            hold_layer(on, use + 1);
        must_work(synced_mem_gpu_data_on(layer, on->compute) != NULL);
        kernels_launch(&on->kernels, on->compute);
        must_work(synced_mem_unhold(layer, SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
    }
    bare_wait(on->compute);
    return seconds_now() - begin;
}

static double kernels_alone(void *state)
{
    const struct model *const on = state;
    const double begin = seconds_now();
    for (size_t use = 0; use < USES; use++)
        kernels_launch(&on->kernels, on->compute);
    bare_wait(on->compute);
    return seconds_now() - begin;
}

static double copy_layer(void *state)
{
    const struct model *const on = state;
    enum { COPIES = 16 };
    const double begin = seconds_now();
    for (int i = 0; i < COPIES; i++)
        bare_queue_up(on->device, on->locked, on->layers.size, on->copies);
    bare_wait(on->copies);
    return (seconds_now() - begin) / COPIES;
}

/* Returns Belady's misses in the passes from the first on. */
static double count_fewest(const struct model *on, uint64_t passes)
{
    uint32_t uses[USES];
    for (size_t use = 0; use < USES; use++)
        uses[use] = layer_at(use);
    return (double)count_fewest_misses(&on->layers, uses, USES, passes);
}

static void begin_model(struct model *on)
{
    const size_t size = evictable_size();
    on->compute = bare_stream_create();
    on->copies = bare_stream_create();
    on->locked = bare_host_alloc(size);
    on->device = bare_device_alloc(size);
    memset(on->locked, 1, size);
    evictables_make(&on->layers, LAYERS, size, FIT, NULL);
    (void)copy_layer(on);
    kernels_make(&on->kernels, copy_layer(on), on->compute);
}

static void end_model(const struct model *on)
{
    for (size_t i = 0; i < LAYERS; i += LAYERS / 4) {
        const void *const data = synced_mem_cpu_data(on->layers.mems[i]);
        must_work(data != NULL);
        pattern_check(data, on->layers.size, i);
    }
    evictables_release(&on->layers);
    must_work(synced_mem_forget_stream(on->compute) == SYNCED_MEM_OK);
    must_work(synced_mem_forget_stream(on->copies) == SYNCED_MEM_OK);
    kernels_free(&on->kernels);
    bare_host_free(on->locked);
    bare_device_free(on->device);
    bare_stream_destroy(on->compute);
    bare_stream_destroy(on->copies);
}

/* The time of a pass if every layer is there, and each of the fewest misses is waited for. */
static struct summary add_misses(struct summary kernels, double misses)
{
    return (struct summary){kernels.median + misses, kernels.least + misses, kernels.most + misses,
                            kernels.lower + misses,  kernels.upper + misses, kernels.rounds};
}

void measure_layers(void)
{
    static const struct way ways[] = {{"holds", pass_with_holds}, {"kernels", kernels_alone}, {"copy", copy_layer}};
    static const struct table table = {"budget",
                                       "layers",
                                       "Forward and back over 48 layers, of which 38 fit; kernels as long as a copy",
                                       UNIT_MS,
                                       "the kernels, and a copy for each of Belady's misses",
                                       "the kernels alone, as if all layers fitted"};
    static const struct table misses = {"budget",
                                        "layers-misses",
                                        "Layers that such a pass does not find on the device",
                                        UNIT_TRANSFERS,
                                        "Belady's optimum, which knows all later uses",
                                        NULL};
    struct summary results[3];
    struct model on = {.passes = 0};
    struct row row = row_of(&table, size_name(evictable_size()), (double)evictable_size());
    row_target(&row, TO_LIMIT, AT_MOST, 1.1);
    report_table(&table);
    if (!row_can_run(&row, true, 0))
        return;
    begin_model(&on);
    compare(ways, 3, &on, results);
    const double fewest = count_fewest(&on, on.passes);
    const double timed = (fewest - count_fewest(&on, 1)) / (double)(on.passes - 1); /* the first pass is not */
    const double passes = (double)on.passes;
    const struct summary limit = add_misses(results[1], timed * results[2].median);
    report_times(&row, (const struct summary[]){results[0], limit, results[1]}, 0);
    row = row_of(&misses, size_name(evictable_size()), (double)evictable_size());
    (void)snprintf(row.note, sizeof row.note, "mean of %.0f passes from the first on", passes);
    report_table(&misses);
    report_values(&row, (const struct summary[]){summary_of_one((double)count_misses() / passes),
                                                 summary_of_one(fewest / passes), unmeasured});
    end_model(&on);
}
