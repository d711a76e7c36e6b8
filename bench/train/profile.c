/*
 * Measures the parts of a training step, and the reductions between the ranks.
 *
 * A step fills and pushes the next batch, as in training. The learning rate is 0, so that steps without reductions
 * leave the ranks with the same parameters. Rounds of the kinds of steps take turns, so that other load on the machine
 * affects all of them alike.
 */
#include "profile.h"

#include "batches.h"
#include "buckets.h"
#include "failure.h"
#include "progress.h"
#include "reduce.h"
#include "rng.h"

#include <stdint.h>

enum { ROUNDS = 9, MARKED_STEPS = 9 };

/* Steps before a marked one. While the device does them, the host queues the marked one. */
enum { STEPS_BEFORE = 4 };

/* The waits for NCCL are timed in one step of 16. */
enum { FEWEST_STEPS = 16 };

static const double round_seconds = 0.25;

/* The same for reductions of one size. If they take long, there are fewer rounds, of one reduction each. */
enum { SIZE_ROUNDS = 5, MOST_REDUCTIONS = 1000 };
static const double size_seconds = 0.01, all_rounds_seconds = 0.1;

_Static_assert(MODEL_MAX_PARTS + 1 <= BACKEND_MARKS, "the backend has too few marks");

struct profile {
    struct model_probe probe; /* first: queued() gets a pointer to it */
    const struct settings *settings;
    const struct text *text;
    const struct ranks *ranks;
    const struct backend *backend;
    struct rows rows;
    struct model model;
    struct blob batches[2]; /* that of the next step is filled */
    int step;               /* the next one */
    struct rng rng;
    struct reduce reduce;
    struct buckets buckets, whole;     /* whole: one of all gradients */
    struct blob sums;                  /* for reductions of any size */
    double marks[MODEL_MAX_PARTS + 1]; /* on the CPU: the end of each part of a step, in seconds */
    int part_count;
    double parts[MODEL_MAX_PARTS][MARKED_STEPS];
    double steps[PROFILE_KINDS][ROUNDS], waited[PROFILE_KINDS][ROUNDS];
    struct profile_times times;
};

/* ---- Steps ---- */

static bool fill_next(struct profile *p)
{
    struct blob *const batch = &p->batches[p->step % 2];
    return batch_fill(batch, &p->rows, p->text, &p->rng) && p->backend->prefetch(batch->data);
}

static bool take_step(struct profile *p)
{
    struct blob *const batch = &p->batches[p->step++ % 2];
    return fill_next(p) && batch_train(batch, &p->rows, &p->model, 0.0F, 0.0F);
}

static bool take_steps(struct profile *p, int count)
{
    for (int i = 0; i < count; ++i) {
        if (!take_step(p))
            return false;
    }
    return p->backend->finish();
}

static const struct buckets *buckets_of(const struct profile *p, enum profile_kind kind)
{
    return kind == PROFILE_ALONE ? NULL : kind == PROFILE_OVERLAPPED ? &p->buckets : &p->whole;
}

/* Waits for all ranks. */
static bool align_ranks(const struct profile *p)
{
    return p->ranks->first_failed(false) < 0 || fail_peer("another rank has failed");
}

static bool take_round(struct profile *p, enum profile_kind kind, int steps, double *milliseconds)
{
    p->model.buckets = buckets_of(p, kind);
    if (!align_ranks(p))
        return false;
    const double started = progress_now();
    if (!take_steps(p, steps))
        return false;
    *milliseconds = 1e3 * (progress_now() - started) / steps;
    p->model.buckets = NULL;
    return true;
}

/* Rank 0 chooses for all how often something is done, so that it takes about this time. */
static bool choose_count(const struct profile *p, double seconds, double each, int fewest, int most, int *count)
{
    const double wanted = each > 0 ? seconds / each : most;
    *count = wanted < fewest ? fewest : wanted > most ? most : (int)wanted;
    return p->ranks->broadcast(count, sizeof *count);
}

/* The most steps or reductions of a round. */
static int most_steps(const struct profile *p)
{
    return p->settings->steps > FEWEST_STEPS ? p->settings->steps : FEWEST_STEPS;
}

static int kinds_of(const struct profile *p)
{
    return p->ranks->count > 1 ? PROFILE_KINDS : PROFILE_ALONE + 1;
}

static bool measure_round(struct profile *p, int round)
{
    struct reduce *const reduce = &p->reduce;
    const int kinds = kinds_of(p);
    for (int i = 0; i < kinds; ++i) {
        const enum profile_kind kind = (enum profile_kind)(round % 2 ? kinds - 1 - i : i);
        if (kind != PROFILE_ALONE)
            reduce->unhidden(reduce); /* begins a mean */
        if (!take_round(p, kind, p->times.steps, &p->steps[kind][round]))
            return false;
        if (kind != PROFILE_ALONE)
            p->waited[kind][round] = 1e3 * reduce->unhidden(reduce);
    }
    return true;
}

static void summarize_steps(struct profile *p)
{
    for (int kind = 0; kind < kinds_of(p); ++kind) {
        double shares[ROUNDS];
        for (int round = 0; round < ROUNDS; ++round)
            shares[round] = 1.0 - p->steps[PROFILE_ALONE][round] / p->steps[kind][round];
        p->times.unhidden[kind] = summary_of(shares, ROUNDS);
    }
    for (int kind = 0; kind < kinds_of(p); ++kind) { /* this sorts the rounds */
        p->times.step[kind] = summary_of(p->steps[kind], ROUNDS);
        p->times.waited[kind] = summary_of(p->waited[kind], ROUNDS);
    }
}

/* The first round of each kind settles memory and clocks. The second one tells how many steps a round has. */
static bool measure_steps(struct profile *p)
{
    double milliseconds = 0.0;
    for (int kind = 0; kind < 2 * kinds_of(p); ++kind) {
        if (!take_round(p, (enum profile_kind)(kind % kinds_of(p)), FEWEST_STEPS, &milliseconds))
            return false;
    }
    if (!choose_count(p, round_seconds, 1e-3 * milliseconds, FEWEST_STEPS, most_steps(p), &p->times.steps))
        return false;
    for (int round = 0; round < ROUNDS; ++round) {
        if (!measure_round(p, round))
            return false;
    }
    summarize_steps(p);
    return true;
}

/* ---- The parts of a step ---- */

/* Mark 0 is the beginning. */
static bool mark_part(struct model_probe *probe, int part)
{
    struct profile *const p = (struct profile *)probe;
    const int number = part - MODEL_BEGIN;
    if (p->backend->on_gpu)
        return p->backend->mark(BACKEND_COMPUTE, number, -1);
    p->marks[number] = progress_now();
    return true;
}

static bool read_parts(struct profile *p, int step)
{
    for (int part = 0; part < p->part_count; ++part) {
        double microseconds = 1e6 * (p->marks[part + 1] - p->marks[part]);
        if (p->backend->on_gpu && !p->backend->between(part, part + 1, &microseconds))
            return false;
        p->parts[part][step] = 1e-3 * microseconds;
    }
    return true;
}

static bool measure_parts(struct profile *p)
{
    for (int step = 0; step < MARKED_STEPS; ++step) {
        if (!align_ranks(p))
            return false;
        for (int i = 0; i < STEPS_BEFORE; ++i) {
            if (!take_step(p))
                return false;
        }
        p->model.probe = &p->probe;
        const bool done = take_steps(p, 1);
        p->model.probe = NULL;
        if (!done || !read_parts(p, step))
            return false;
    }
    for (int part = 0; part < p->part_count; ++part)
        p->times.parts[part] = summary_of(p->parts[part], MARKED_STEPS);
    return true;
}

/* ---- Reductions ---- */

/* The reduction that is not timed obtains memory. */
static bool choose_reductions(struct profile *p, synced_mem *object, int count, int *times, int *rounds)
{
    const int most = most_steps(p) < MOST_REDUCTIONS ? most_steps(p) : MOST_REDUCTIONS;
    double seconds;
    return p->reduce.time(&p->reduce, object, count, 1, &seconds) &&
           choose_count(p, size_seconds, seconds, 1, most, times) &&
           choose_count(p, all_rounds_seconds, seconds, 1, SIZE_ROUNDS, rounds);
}

static bool measure_size(struct profile *p, int count, struct summary *milliseconds)
{
    double values[SIZE_ROUNDS];
    int times, rounds;
    if (!choose_reductions(p, p->sums.grad, count, &times, &rounds))
        return false;
    for (int round = 0; round < rounds; ++round) {
        if (!p->reduce.time(&p->reduce, p->sums.grad, count, times, &values[round]))
            return false;
        values[round] *= 1e3;
    }
    *milliseconds = summary_of(values, rounds);
    return true;
}

static bool measure_sizes(struct profile *p)
{
    const size_t largest = (size_t)PROFILE_FIRST_SIZE << (PROFILE_SIZES - 1);
    p->sums.gpu_allocator = reduce_gpu_allocator(p->ranks, p->backend);
    if (!blob_vector(&p->sums, (int)(largest / BLOB_ELEMENT)) || !p->backend->zero(p->sums.grad, largest) ||
        !p->reduce.attach(&p->reduce, p->sums.grad))
        return false;
    for (int i = 0; i < PROFILE_SIZES; ++i) {
        if (!measure_size(p, (PROFILE_FIRST_SIZE << i) / BLOB_ELEMENT, &p->times.reductions[i]))
            return false;
    }
    return true;
}

/* All gradients, by the library's pointers and in other memory, in turn. */
static bool measure_flat(struct profile *p)
{
    enum { LIBRARY, PLAIN, WAYS };
    const struct blob *const all = &p->model.all;
    synced_mem *const objects[WAYS] = {all->grad, NULL};
    double milliseconds[WAYS][ROUNDS], ratios[ROUNDS];
    int times, rounds; /* there are ROUNDS of them */
    if (!p->backend->zero(all->grad, (size_t)all->count * BLOB_ELEMENT) ||
        !choose_reductions(p, NULL, all->count, &times, &rounds) ||
        !choose_reductions(p, all->grad, all->count, &times, &rounds))
        return false;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < WAYS; ++i) {
            const int way = round % 2 ? PLAIN - i : i;
            if (!p->reduce.time(&p->reduce, objects[way], all->count, times, &milliseconds[way][round]))
                return false;
            milliseconds[way][round] *= 1e3;
        }
        ratios[round] = milliseconds[PLAIN][round] / milliseconds[LIBRARY][round];
    }
    p->times.ratio = summary_of(ratios, ROUNDS);
    p->times.library = summary_of(milliseconds[LIBRARY], ROUNDS);
    p->times.plain = summary_of(milliseconds[PLAIN], ROUNDS);
    return true;
}

/* ---- The run ---- */

static bool open_reductions(struct profile *p)
{
    const struct model *const model = &p->model;
    return p->ranks->count == 1 ||
           (reduce_open(&p->reduce, p->ranks, p->backend, p->settings->reduce_blocks) &&
            p->reduce.attach(&p->reduce, model->all.grad) &&
            buckets_make(&p->buckets, &p->reduce, &model->all, model->parameters, model->count,
                         (size_t)p->settings->bucket * 1024) &&
            buckets_make(&p->whole, &p->reduce, &model->all, model->parameters, model->count, SIZE_MAX));
}

static bool measure(struct profile *p)
{
    return fill_next(p) && measure_steps(p) && measure_parts(p) &&
           (p->ranks->count == 1 || (measure_sizes(p) && measure_flat(p)));
}

static bool publish_times(const struct profile *p)
{
    const struct profile_run run = {
        .settings = p->settings,
        .ranks = p->ranks,
        .backend = p->backend,
        .model = &p->model,
        .rows = p->rows.count,
        .reducer = p->reduce.name,
        .buckets = p->buckets.count,
    };
    if (p->ranks->rank > 0)
        return true;
    profile_print(&run, &p->times);
    return profile_write(&run, &p->times, p->settings->profile);
}

static void free_all(struct profile *p)
{
    if (p->ranks->count > 1) {
        buckets_free(&p->buckets);
        buckets_free(&p->whole);
        reduce_close(&p->reduce);
    }
    blob_free(&p->sums);
    batches_free(p->batches);
    model_free(&p->model);
}

bool profile(const struct settings *settings, const struct text *text, const struct ranks *ranks,
             const struct backend *backend)
{
    const int rows = settings->batch / ranks->count;
    static struct profile p; /* too large for the stack */
    p = (struct profile){
        .probe = {.queued = mark_part},
        .settings = settings,
        .text = text,
        .ranks = ranks,
        .backend = backend,
        .rows = {.first = ranks->rank * rows, .count = rows, .all = settings->batch},
        .rng = rng_make(settings->seed, RNG_BATCHES),
        .sums = blob_make("sums", backend->device),
    };
    struct rng weights = rng_make(settings->seed, RNG_WEIGHTS);
    const struct model_shape shape = settings_shape(settings, text->vocabulary);
    if (!model_make(&p.model, backend, &shape, reduce_gpu_allocator(ranks, backend), SYNCED_MEM_NO_BUDGET, &weights))
        return false;
    p.part_count = model_gradient_part(&p.model, p.model.count) + 1;
    const bool done = batches_make(p.batches, backend->device, &p.rows, text->context) && open_reductions(&p) &&
                      measure(&p) && publish_times(&p);
    /* Other ranks may never join the reductions that have started. The caller ends the run, and waits for nothing. */
    if (!done && ranks->count > 1)
        return false;
    free_all(&p);
    return done;
}
