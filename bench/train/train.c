/*
 * A whole run. What has to cross between host and GPU, with all arithmetic on the GPU and the text on the host:
 *   up    each parameter once, as its random numbers are made on the host;
 *         each step's windows, context and target together;
 *         the held-out text, once as a whole;
 *         the opening of the sample, with its random numbers;
 *   down  the loss, once for each of about a hundred progress reports and once for the held-out text;
 *         the sample, once as a whole.
 * That is counted here as the run goes, and compared with what the library says it has moved.
 */
#include "train.h"

#include "blob.h"
#include "failure.h"
#include "model.h"
#include "progress.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>

/* The loss is read, and progress shown, this often at most. At fixed steps and not by the clock, so that two runs of a
 * seed say the same. */
enum { REPORTS = 100 };

enum { STREAM_WEIGHTS, STREAM_BATCHES, STREAM_SAMPLE };

/* One run under way. */
struct run {
    const struct settings *settings;
    const struct text *text;
    const struct backend *backend;
    struct model model;
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

static bool take_mean_loss(struct run *run, double rows, double *mean)
{
    double sum;
    if (!model_take_loss(&run->model, &sum))
        return false;
    count_down(run, sizeof sum);
    *mean = sum / rows;
    if (!isfinite(*mean))
        return fail("the loss is no number any more: the rate %g is too high", run->settings->rate);
    return true;
}

/* ---- Training ---- */

static bool fill_batch(struct run *run, struct rng *rng, struct blob *batch)
{
    const int length = run->text->context + 1;
    int32_t *const windows = synced_mem_overwrite_cpu_data(batch->data);
    if (!windows)
        return fail_library(batch->name);
    for (int row = 0; row < batch->shape[0]; ++row)
        text_training_window(run->text, rng, windows + (size_t)row * (size_t)length);
    count_up(run, (size_t)batch->count * BLOB_ELEMENT);
    return run->backend->prefetch(batch->data);
}

static bool train_step(struct run *run, int step, struct blob *batch)
{
    const struct settings *const s = run->settings;
    const struct windows windows = {
        .characters = batch->data,
        .stride = batch->shape[1],
        .rows = batch->shape[0],
        .context = s->context,
    };
    const double rate = s->rate * (1.0 - (double)step / s->steps);
    return model_train(&run->model, &windows, (float)rate, (float)s->decay);
}

/* The batch of the next step is filled, and on its way, before the arithmetic of this one is queued. */
static bool train_steps(struct run *run, struct blob batches[2])
{
    const struct settings *const s = run->settings;
    struct rng rng = rng_make(s->seed, STREAM_BATCHES);
    const int interval = (s->steps + REPORTS - 1) / REPORTS;
    int since = 0;
    if (!fill_batch(run, &rng, &batches[0]))
        return false;
    for (int step = 0; step < s->steps; ++step) {
        const bool last = step + 1 == s->steps;
        if (!last && !fill_batch(run, &rng, &batches[(step + 1) % 2]))
            return false;
        if (!train_step(run, step, &batches[step % 2]))
            return false;
        ++since;
        if (last || since == interval) {
            if (!take_mean_loss(run, (double)since * s->batch, &run->result->training_loss))
                return false;
            progress_report(&run->progress, step + 1, s->steps, run->result->training_loss,
                            (double)(step + 1) * s->batch);
            since = 0;
        }
    }
    run->result->seconds = progress_seconds(&run->progress);
    return true;
}

static bool do_training(struct run *run)
{
    struct blob batches[2] = {blob_make("even batch", run->backend->device),
                              blob_make("odd batch", run->backend->device)};
    const int rows = run->settings->batch, columns = run->text->context + 1;
    run->progress = progress_start(run->settings->quiet);
    const bool done =
        blob_matrix(&batches[0], rows, columns) && blob_matrix(&batches[1], rows, columns) && train_steps(run, batches);
    progress_end(&run->progress);
    blob_free(&batches[0]);
    blob_free(&batches[1]);
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

/* Window by window, each one character further than the one before, block by block. */
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
                      test_blocks(run, &characters) &&
                      take_mean_loss(run, (double)windows, &run->result->held_out_loss);
    blob_free(&characters);
    return done;
}

/* ---- The sample ---- */

/* The opening is that of the held-out text. Each place after it holds the random number that draws its character, so
 * that one transfer brings both and the characters never leave the GPU until they are all there. */
static bool fill_opening(struct run *run, struct blob *sequence)
{
    struct rng rng = rng_make(run->settings->seed, STREAM_SAMPLE);
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

/* ---- The whole ---- */

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

static bool make_model(struct run *run)
{
    const struct settings *const s = run->settings;
    struct rng rng = rng_make(s->seed, STREAM_WEIGHTS);
    if (!model_make(&run->model, run->backend, run->text->vocabulary, s->context, s->embed, s->hidden, &rng))
        return false;
    run->result->parameter_bytes = model_parameter_bytes(&run->model);
    for (int i = 0; i < MODEL_PARAMETERS; ++i)
        count_up(run, (size_t)run->model.parameters[i].count * BLOB_ELEMENT);
    return true;
}

static bool measure(struct run *run)
{
    struct transfers before = {0};
    struct transfers after = {0};
    if (!read_transfers(&before) || !do_training(run) || !do_test(run) || !do_sample(run) || !read_transfers(&after))
        return false;
    run->result->measured = (struct transfers){
        .h2d = after.h2d - before.h2d,
        .h2d_bytes = after.h2d_bytes - before.h2d_bytes,
        .d2h = after.d2h - before.d2h,
        .d2h_bytes = after.d2h_bytes - before.d2h_bytes,
    };
    return true;
}

bool train(const struct settings *settings, const struct text *text, const struct backend *backend,
           struct result *result)
{
    struct run run = {.settings = settings, .text = text, .backend = backend, .result = result};
    *result = (struct result){0};
    if (!make_model(&run))
        return false;
    const bool done = measure(&run);
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
