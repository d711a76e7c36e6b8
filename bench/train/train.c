/*
 * A whole run. With all arithmetic on the GPU and the text on the host, these transfers are necessary:
 *   up    each parameter once, as its random numbers are made on the host;
 *         each step's windows, context and target together;
 *         the held-out text, once as a whole;
 *         the opening of the sample, with its random numbers;
 *   down  the loss, once for each of about a hundred progress reports and once for the held-out text;
 *         the sample, once as a whole; each parameter, once for a checkpoint.
 * The run counts them, and the report compares them with the library's statistics.
 */
#include "train.h"

#include "batches.h"
#include "blob.h"
#include "buckets.h"
#include "failure.h"
#include "model.h"
#include "progress.h"
#include "reduce.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The greatest number of reads of the loss, each with a progress report. They are at fixed steps and not by the clock,
 * so that two runs of a seed print the same. */
enum { REPORTS = 100 };

/* The state of a run. */
struct run {
    const struct settings *settings;
    const struct text *text;
    const struct ranks *ranks;
    const struct backend *backend;
    const struct checkpoint *from;
    struct rows rows;
    struct reduce reduce;
    struct buckets buckets;
    struct model model;
    struct checkpoint_writing *saved;
    struct result *result;
    struct progress progress;
};

static void count_up(struct run *run, size_t bytes)
{
    if (run->backend->on_gpu) {
        run->result->fewest.h2d++;
        run->result->fewest.h2d_bytes += bytes;
    }
}

static void count_down(struct run *run, size_t bytes)
{
    if (run->backend->on_gpu) {
        run->result->fewest.d2h++;
        run->result->fewest.d2h_bytes += bytes;
    }
}

static bool read_mean_loss(struct run *run, double rows, double *mean)
{
    double sum;
    if (!model_read_loss(&run->model, &sum))
        return false;
    count_down(run, sizeof sum);
    *mean = sum / rows;
    if (!isfinite(*mean))
        return fail("the loss is not a number any more: the rate %g is too high", run->settings->rate);
    return true;
}

/* ---- Training ---- */

static bool fill_batch(struct run *run, struct rng *rng, struct blob *batch)
{
    if (!batch_fill(batch, &run->rows, run->text, rng))
        return false;
    count_up(run, (size_t)batch->count * BLOB_ELEMENT);
    return run->backend->prefetch(batch->data);
}

static bool train_step(struct run *run, int step, struct blob *batch)
{
    const struct settings *const s = run->settings;
    const double rate = s->rate * (1.0 - (double)step / s->steps);
    return batch_train(batch, &run->rows, &run->model, (float)rate, (float)s->decay);
}

/* The steps that earlier runs have done. */
static int first_step(const struct run *run)
{
    return run->from ? run->from->step : 0;
}

static int last_step(const struct run *run)
{
    return run->settings->stop > 0 ? run->settings->stop : run->settings->steps;
}

/* Begins a checkpoint after a step, if one is due. All ranks have the same parameters, and rank 0 writes them. batches:
 * the random numbers before those of the next batch. */
static bool save(struct run *run, int steps, const struct rng *batches)
{
    const struct settings *const s = run->settings;
    const bool due = steps == last_step(run) || (s->save_every > 0 && steps % s->save_every == 0);
    if (!s->save || !due || run->ranks->rank > 0)
        return true;
    for (int i = 0; i < run->model.count; ++i)
        count_down(run, (size_t)run->model.parameters[i].count * BLOB_ELEMENT);
    const struct checkpoint checkpoint = {.seed = s->seed, .batches = batches->state, .step = steps};
    return checkpoint_begin_write(&checkpoint, s->save, &run->model, run->text, &run->saved);
}

/* A sum of the loss that has ended and was not read yet. */
struct pending_loss {
    int steps; /* in the sum; 0: there is no sum */
    int step;  /* steps done at the end of the sum */
};

static bool report_loss(struct run *run, struct pending_loss *pending)
{
    if (pending->steps == 0)
        return true;
    const struct settings *const s = run->settings;
    const double loss_rows = (double)pending->steps * s->batch;
    if (!read_mean_loss(run, loss_rows, &run->result->training_loss))
        return false;
    progress_loss(&run->progress, pending->step, run->result->training_loss);
    pending->steps = 0;
    return true;
}

/* Fills and pushes the batch of the next step before it queues the arithmetic of this one. Reads a loss after the next
 * step is queued, so that the device has work while the host waits. */
static bool train_steps(struct run *run, struct blob batches[2])
{
    const struct settings *const s = run->settings;
    struct rng rng = run->from ? (struct rng){run->from->batches} : rng_make(s->seed, RNG_BATCHES);
    const int first = first_step(run), end = last_step(run);
    const int interval = (s->steps + REPORTS - 1) / REPORTS;
    struct pending_loss pending = {0};
    int since = 0;
    if (!fill_batch(run, &rng, &batches[first % 2]))
        return false;
    for (int step = first; step < end; ++step) {
        const bool last = step + 1 == end;
        const struct rng next = rng;
        if (!last && !fill_batch(run, &rng, &batches[(step + 1) % 2]))
            return false;
        if (!train_step(run, step, &batches[step % 2]) || !report_loss(run, &pending))
            return false;
        progress_step(&run->progress, step + 1);
        ++since;
        if (last || since == interval) {
            if (!model_end_loss(&run->model))
                return false;
            pending = (struct pending_loss){.steps = since, .step = step + 1};
            since = 0;
        }
        if (!save(run, step + 1, &next))
            return false;
    }
    if (!report_loss(run, &pending))
        return false;
    run->result->steps = end - first;
    run->result->seconds = progress_seconds(&run->progress);
    return true;
}

static bool do_training(struct run *run)
{
    struct blob batches[2];
    const struct settings *const s = run->settings;
    const struct progress_steps steps = {
        .first = first_step(run), .last = last_step(run), .all = s->steps, .batch = s->batch};
    run->progress = progress_start(&steps, s->quiet || run->ranks->rank > 0);
    bool done =
        batches_make(batches, run->backend->device, &run->rows, run->text->context) && train_steps(run, batches);
    progress_end(&run->progress);
    /* The caller ends a failed run of several ranks, and waits for nothing. */
    if (done || run->ranks->count == 1)
        done = checkpoint_end_write(&run->saved) && done;
    batches_free(batches);
    return done;
}

/* ---- The loss on held-out text ---- */

/* All held-out blocks one after the other. */
static bool fill_held_out(struct run *run, struct blob *characters)
{
    int32_t *to = synced_mem_overwrite_cpu_data(characters->data);
    if (!to)
        return fail_library(characters->name);
    size_t begin, length;
    for (size_t i = 0; text_held_out_block(run->text, i, &begin, &length); ++i) {
        for (size_t j = 0; j < length; ++j)
            *to++ = run->text->codes[begin + j];
    }
    count_up(run, (size_t)characters->count * BLOB_ELEMENT);
    return run->backend->prefetch(characters->data);
}

/* Tests all windows of each block. Each window begins one character after the one before. */
static bool test_blocks(struct run *run, struct blob *characters)
{
    const int context = run->text->context;
    struct windows windows = {.characters = characters->data, .stride = 1, .context = context};
    size_t begin, length;
    for (size_t i = 0; text_held_out_block(run->text, i, &begin, &length); ++i) {
        windows.rows = (int)length - context;
        if (!model_test(&run->model, &windows))
            return false;
        windows.first += (int)length;
    }
    return true;
}

static bool do_test(struct run *run)
{
    size_t count, windows;
    text_held_out_total(run->text, &count, &windows);
    struct blob characters = blob_make("held-out text", run->backend->device);
    const bool done = blob_vector(&characters, (int)count) && fill_held_out(run, &characters) &&
                      test_blocks(run, &characters) && model_end_loss(&run->model) &&
                      read_mean_loss(run, (double)windows, &run->result->held_out_loss);
    blob_free(&characters);
    return done;
}

/* ---- The sample ---- */

/* The opening is that of the held-out text. Each place after it holds the random number that draws its character. So
 * one transfer has both, and the characters leave the GPU only when all are drawn. */
static bool fill_opening(struct run *run, struct blob *sequence)
{
    struct rng rng = rng_make(run->settings->seed, RNG_SAMPLE);
    int32_t *const data = synced_mem_overwrite_cpu_data(sequence->data);
    if (!data)
        return fail_library(sequence->name);
    size_t begin, length;
    text_held_out_block(run->text, 0, &begin, &length);
    for (int i = 0; i < sequence->count; ++i)
        data[i] = i < run->text->context ? run->text->codes[begin + (size_t)i] : (int32_t)(rng_next(&rng) >> 33);
    count_up(run, (size_t)sequence->count * BLOB_ELEMENT);
    return true;
}

static bool draw_characters(struct run *run, struct blob *sequence)
{
    struct windows windows = {.characters = sequence->data, .rows = 1, .context = run->text->context};
    for (; windows.first < run->settings->sample; ++windows.first) {
        if (!model_draw(&run->model, &windows))
            return false;
    }
    return true;
}

static bool read_sample(struct run *run, struct blob *sequence)
{
    const int32_t *const data = synced_mem_cpu_data(sequence->data);
    if (!data)
        return fail_library(sequence->name);
    count_down(run, (size_t)sequence->count * BLOB_ELEMENT);
    unsigned char *const sample = malloc((size_t)sequence->count);
    if (!sample)
        return fail("out of memory for a sample of %d characters", sequence->count);
    for (int i = 0; i < sequence->count; ++i)
        sample[i] = run->text->symbols[data[i]];
    run->result->sample = sample;
    run->result->sample_length = (size_t)sequence->count;
    return true;
}

static bool do_sample(struct run *run)
{
    if (run->settings->sample == 0)
        return true;
    struct blob sequence = blob_make("sample", run->backend->device);
    const bool done = blob_vector(&sequence, run->text->context + run->settings->sample) &&
                      fill_opening(run, &sequence) && draw_characters(run, &sequence) && read_sample(run, &sequence);
    blob_free(&sequence);
    return done;
}

/* ---- The run ---- */

static bool read_transfers(struct transfers *transfers)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    if (synced_mem_get_stats(&stats) != SYNCED_MEM_OK)
        return fail_library("statistics");
    *transfers = (struct transfers){
        .h2d = stats.h2d_transfers,
        .h2d_bytes = stats.h2d_bytes,
        .d2h = stats.d2h_transfers,
        .d2h_bytes = stats.d2h_bytes,
    };
    return true;
}

static bool read_evictions(struct evictions *evictions)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    if (synced_mem_get_stats(&stats) != SYNCED_MEM_OK)
        return fail_library("statistics");
    *evictions = (struct evictions){
        .hits = stats.hold_hits,
        .misses = stats.hold_misses,
        .clean = stats.clean_evictions,
        .dirty = stats.dirty_evictions,
        .bytes = stats.evicted_bytes,
    };
    return true;
}

static bool make_model(struct run *run)
{
    const struct settings *const s = run->settings;
    struct rng rng = rng_make(s->seed, RNG_WEIGHTS);
    const struct model_shape shape = settings_shape(s, run->text->vocabulary);
    if (!model_make(&run->model, run->backend, &shape, reduce_gpu_allocator(run->ranks, run->backend), s->budget, &rng))
        return false;
    if (run->from && !checkpoint_apply(run->from, &run->model)) {
        model_free(&run->model);
        return false;
    }
    run->result->parameters = model_shape_parameters(&shape);
    for (int i = 0; i < run->model.count; ++i)
        count_up(run, (size_t)run->model.parameters[i].count * BLOB_ELEMENT);
    return true;
}

/* With one rank there are no reductions. */
static bool open_reductions(struct run *run)
{
    struct model *const model = &run->model;
    if (run->ranks->count == 1)
        return true;
    if (!reduce_open(&run->reduce, run->ranks, run->backend, run->settings->reduce_blocks) ||
        !run->reduce.attach(&run->reduce, model->all.grad) ||
        !buckets_make(&run->buckets, &run->reduce, &model->all, model->parameters, model->count,
                      (size_t)run->settings->bucket * 1024))
        return false;
    model->buckets = &run->buckets;
    run->result->buckets = run->buckets.count;
    memcpy(run->result->reducer, run->reduce.name, sizeof run->result->reducer);
    return true;
}

static void close_reductions(struct run *run)
{
    if (run->ranks->count == 1)
        return;
    run->model.buckets = NULL;
    buckets_free(&run->buckets);
    if (run->reduce.state)
        run->result->unhidden = run->reduce.unhidden(&run->reduce);
    reduce_close(&run->reduce);
}

static bool measure(struct run *run)
{
    struct transfers before = {0};
    struct transfers after = {0};
    if (!read_transfers(&before) || !do_training(run))
        return false;
    /* All ranks have the same parameters. */
    close_reductions(run);
    if (run->ranks->rank > 0)
        return true;
    if (!do_test(run) || !do_sample(run) || !read_transfers(&after) || !read_evictions(&run->result->evictions))
        return false;
    run->result->measured = (struct transfers){
        .h2d = after.h2d - before.h2d,
        .h2d_bytes = after.h2d_bytes - before.h2d_bytes,
        .d2h = after.d2h - before.d2h,
        .d2h_bytes = after.d2h_bytes - before.d2h_bytes,
    };
    return true;
}

bool train(const struct settings *settings, const struct text *text, const struct ranks *ranks,
           const struct backend *backend, const struct checkpoint *from, struct result *result)
{
    const int rows = settings->batch / ranks->count;
    struct run run = {
        .settings = settings,
        .text = text,
        .ranks = ranks,
        .backend = backend,
        .from = from,
        .rows = {.first = ranks->rank * rows, .count = rows, .all = settings->batch},
        .result = result,
    };
    *result = (struct result){0};
    if (!make_model(&run))
        return false;
    const bool done = open_reductions(&run) && measure(&run);
    /* Other ranks may never join the reductions that have started. The caller ends the run, and waits for nothing. */
    if (!done && ranks->count > 1)
        return false;
    close_reductions(&run);
    model_free(&run.model);
    if (!done)
        result_free(result);
    return done;
}

void result_free(struct result *result)
{
    free(result->sample);
    *result = (struct result){0};
}
