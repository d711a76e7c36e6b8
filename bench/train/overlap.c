/*
 * Measures how far the pushes of the next batches hide behind the kernels of this one. There are four kinds of rounds:
 * kernels alone, pushes alone, both, and transfers that the host waits for before it queues the kernels. They run in
 * turn, so that other load on the machine affects all of them alike.
 */
#include "overlap.h"

#include "../suite/measure.h"
#include "batches.h"
#include "failure.h"
#include "model.h"
#include "progress.h"
#include "rng.h"
#include "timeline.h"

#include "synced_mem.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

/* The elements that the host writes before a push. */
enum { TOUCHED = 16 };

enum { ROUNDS = 7 };

enum kind { KERNELS, PUSHES, BOTH, IN_TURN, KINDS };

struct overlap {
    const struct settings *settings;
    const struct text *text;
    const struct backend *backend;
    struct rows rows;
    struct model model;
    struct blob batches[2]; /* between rounds: on the device, nothing pending */
    struct rng rng;
    double milliseconds[KINDS][ROUNDS]; /* per step */
    synced_mem_stats before, after;     /* of the measured rounds */
    struct timeline timeline;
    double stalled[ROUNDS]; /* the fraction of a round in which kernels waited for a push */
};

/* ---- A step ---- */

/* Leaves the contents in the host copy alone, so that the batch must be transferred again. The numbers need only be
 * valid characters. */
static bool touch(struct overlap *o, struct blob *batch)
{
    int32_t *const data = synced_mem_mutable_cpu_data(batch->data);
    if (!data)
        return fail_library(batch->name);
    for (int i = 0; i < TOUCHED; ++i)
        data[rng_below(&o->rng, (uint64_t)batch->count)] = (int32_t)rng_below(&o->rng, (uint64_t)o->text->vocabulary);
    return true;
}

/* Pushes the batch of a step. Steps are numbered within a round. */
static bool push(struct overlap *o, int step)
{
    struct blob *const batch = &o->batches[step % 2];
    return touch(o, batch) && timeline_begin(&o->timeline, TIMELINE_PUSH, step) && o->backend->prefetch(batch->data) &&
           timeline_end(&o->timeline, TIMELINE_PUSH, step);
}

static bool compute(struct overlap *o, int step)
{
    const struct settings *const s = o->settings;
    return timeline_begin(&o->timeline, TIMELINE_KERNELS, step) &&
           batch_train(&o->batches[step % 2], &o->rows, &o->model, (float)s->rate, (float)s->decay) &&
           timeline_end(&o->timeline, TIMELINE_KERNELS, step);
}

/* As in Caffe the host waits until the batch has arrived. An access without a stream would mark the memory for good. */
static bool bring(struct overlap *o, int step)
{
    struct blob *const batch = &o->batches[step % 2];
    return touch(o, batch) && o->backend->prefetch(batch->data) &&
           (synced_mem_wait(batch->data) == SYNCED_MEM_OK || fail_library(batch->name));
}

/* ---- A round ---- */

/* In rounds of both, the batch of step 0 has arrived already, and the last step pushes one more. So a round has as many
 * pushes as steps, and each push runs beside kernels, as in a long training. */
static bool take_steps(struct overlap *o, enum kind kind)
{
    for (int step = 0; step < o->settings->overlap; ++step) {
        if (kind == PUSHES && !push(o, step))
            return false;
        if (kind == BOTH && !push(o, step + 1))
            return false;
        if (kind == IN_TURN && !bring(o, step))
            return false;
        if (kind != PUSHES && !compute(o, step))
            return false;
    }
    return true;
}

static bool take_round(struct overlap *o, enum kind kind, double *milliseconds)
{
    const double started = progress_now();
    if (!take_steps(o, kind) || !o->backend->finish())
        return false;
    *milliseconds = 1e3 * (progress_now() - started) / o->settings->overlap;
    return true;
}

static bool take_rounds(struct overlap *o, int rounds)
{
    for (int round = 0; round < rounds; ++round) {
        for (int kind = 0; kind < KINDS; ++kind) {
            if (!take_round(o, (enum kind)kind, &o->milliseconds[kind][round]))
                return false;
        }
    }
    return true;
}

/* Marks between the kernels take time, so they have rounds of their own, whose steps are not timed. */
static bool take_marked_rounds(struct overlap *o)
{
    double milliseconds;
    for (int round = 0; round < ROUNDS; ++round) {
        if (!timeline_start(&o->timeline, o->backend, o->settings->overlap) || !take_round(o, BOTH, &milliseconds) ||
            !timeline_stalled(&o->timeline, &o->stalled[round]))
            return false;
    }
    return true;
}

/* ---- Results ---- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double gigabytes_per_second(double bytes, double milliseconds)
{
    return bytes / milliseconds / 1e6;
}

static void print_times(const struct overlap *o)
{
    static const char *const names[KINDS] = {"a  kernels alone", "b  pushes alone", "c  both", "d  in turn"};
    struct summary times[KINDS];
    double ratios[ROUNDS];
    printf("\nms per step           median       least        most\n");
    for (int kind = 0; kind < KINDS; ++kind) {
        double values[ROUNDS]; /* sorted */
        memcpy(values, o->milliseconds[kind], sizeof values);
        times[kind] = summary_of(values, ROUNDS);
        printf("%-16s %11.4f %11.4f %11.4f\n", names[kind], times[kind].median, times[kind].least, times[kind].most);
    }
    for (int i = 0; i < ROUNDS; ++i)
        ratios[i] = o->milliseconds[BOTH][i] / larger(o->milliseconds[KERNELS][i], o->milliseconds[PUSHES][i]);
    const struct summary ratio = summary_of(ratios, ROUNDS);
    const double bytes = (double)o->batches[0].count * BLOB_ELEMENT;
    printf("\na push      %.0f bytes: %.1f GB/s alone (b), %.1f GB/s over the steps of both (c)\n", bytes,
           gigabytes_per_second(bytes, times[PUSHES].median), gigabytes_per_second(bytes, times[BOTH].median));
    printf("\nc / max(a, b) %.4f by the medians, %.4f to %.4f by single rounds\n",
           times[BOTH].median / larger(times[KERNELS].median, times[PUSHES].median), ratio.least, ratio.most);
}

/* The marks belong to the last steps of a round. */
static void print_stalled(struct overlap *o)
{
    const struct summary stalled = summary_of(o->stalled, ROUNDS);
    printf(
        "stalled     %.4f %% of the time of both (%.4f to %.4f), in which kernels waited for the push of their batch\n",
        100 * stalled.median, 100 * stalled.least, 100 * stalled.most);
}

/* Prints the transfers by the library's statistics, and the number of pushes. */
static void print_moved(const struct overlap *o)
{
    const double pushes = 3.0 * ROUNDS * o->settings->overlap; /* rounds of kernels alone have none */
    printf("moved       %" PRIu64 " transfers of %" PRIu64 " bytes to the device, for %.0f pushes; %" PRIu64
           " from it\n",
           o->after.h2d_transfers - o->before.h2d_transfers, o->after.h2d_bytes - o->before.h2d_bytes, pushes,
           o->after.d2h_transfers - o->before.d2h_transfers);
}

static void print_settings(const struct overlap *o)
{
    const struct settings *const s = o->settings;
    printf("device      %s\n", o->backend->name);
    printf("model       context %d, embedding %d, hidden %d x %d, %d distinct characters\n", s->context, s->embed,
           s->layers, s->hidden, o->text->vocabulary);
    printf("rounds      %d of each kind in turn, %d steps of %d windows each; the host touches %d elements of a batch\n"
           "            before each push: filling it completely is not measured\n",
           ROUNDS, s->overlap, s->batch, TOUCHED);
}

/* ---- Measurement ---- */

static bool bring_batches(struct overlap *o)
{
    for (int i = 0; i < 2; ++i) {
        struct blob *const batch = &o->batches[i];
        if (!batch_fill(batch, &o->rows, o->text, &o->rng) || !o->backend->prefetch(batch->data))
            return false;
    }
    return o->backend->finish();
}

static bool read_stats(synced_mem_stats *stats)
{
    *stats = (synced_mem_stats){.struct_size = sizeof *stats};
    return synced_mem_get_stats(stats) == SYNCED_MEM_OK || fail_library("statistics");
}

/* The first round of each kind settles memory and clocks, and is not measured. */
static bool measure(struct overlap *o)
{
    return bring_batches(o) && take_rounds(o, 1) && read_stats(&o->before) && take_rounds(o, ROUNDS) &&
           read_stats(&o->after) && take_marked_rounds(o);
}

static bool make_overlap(struct overlap *o)
{
    const struct settings *const s = o->settings;
    struct rng weights = rng_make(s->seed, RNG_WEIGHTS);
    o->rng = rng_make(s->seed, RNG_BATCHES);
    const struct model_shape shape = settings_shape(s, o->text->vocabulary);
    return model_make(&o->model, o->backend, &shape, NULL, SYNCED_MEM_NO_BUDGET, &weights);
}

bool overlap(const struct settings *settings, const struct text *text, const struct backend *backend)
{
    struct overlap o = {
        .settings = settings,
        .text = text,
        .backend = backend,
        .rows = {.count = settings->batch, .all = settings->batch},
    };
    if (!make_overlap(&o))
        return false;
    bool done = batches_make(o.batches, backend->device, &o.rows, settings->context) && measure(&o);
    if (done) {
        print_settings(&o);
        print_times(&o);
        print_stalled(&o);
        print_moved(&o);
        done = !settings->timeline || timeline_print(&o.timeline);
    }
    batches_free(o.batches);
    model_free(&o.model);
    return done;
}
