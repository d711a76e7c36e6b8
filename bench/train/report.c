/* The report of a run. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static void print_text(const struct settings *settings, const struct text *text)
{
    size_t characters, windows;
    text_held_out_total(text, &characters, &windows);
    printf("text        %s: %zu characters, %d distinct, unigram entropy %.4f nat\n", settings->path, text->length,
           text->vocabulary, text->entropy);
    printf("held out    block %d of every %d blocks of %zu characters: %zu targets, none seen in training\n",
           TEXT_HELD_OUT_EVERY, TEXT_HELD_OUT_EVERY, text->block, windows);
}

static void print_run(const struct settings *s, const struct result *result)
{
    const double characters = (double)result->steps * s->batch;
    printf("model       context %d, embedding %d, hidden %d x %d: %zu parameters\n", s->context, s->embed, s->layers,
           s->hidden, result->parameters);
    printf("training    %d steps of %d, rate %g, decay %g, seed %" PRIu64 "; last loss %.4f\n", s->steps, s->batch,
           s->rate, s->decay, s->seed, result->training_loss);
    printf("time        %.2f s, %.0f characters/s\n", result->seconds,
           result->seconds > 0 ? characters / result->seconds : 0.0);
}

static void print_budget(const struct settings *s, const struct result *result)
{
    const struct evictions *const e = &result->evictions;
    if (s->budget == SYNCED_MEM_NO_BUDGET)
        return;
    printf("budget      %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " holds found nothing on the device; %" PRIu64
           " evictions of %" PRIu64 " bytes, %" PRIu64 " of them without a transfer\n",
           s->budget, e->misses, e->hits + e->misses, e->clean + e->dirty, e->bytes, e->clean);
}

static void print_sample(const struct result *result)
{
    if (!result->sample)
        return;
    printf("\nsample, from an opening of held-out text:\n");
    fwrite(result->sample, 1, result->sample_length, stdout);
    printf("\n");
}

static void print_transfers(const struct result *result)
{
    const struct transfers *const m = &result->measured, *const f = &result->fewest;
    printf("\ntransfers             count         bytes  fewest count  fewest bytes\n");
    printf("host to device %12" PRIu64 " %13" PRIu64 " %13" PRIu64 " %13" PRIu64 "\n", m->h2d, m->h2d_bytes, f->h2d,
           f->h2d_bytes);
    printf("device to host %12" PRIu64 " %13" PRIu64 " %13" PRIu64 " %13" PRIu64 "\n", m->d2h, m->d2h_bytes, f->d2h,
           f->d2h_bytes);
    printf("fewest, on a GPU: up each parameter, each batch, the held-out text, the opening of the sample;\n"
           "                  down the loss of each report and of the held-out text, the sample\n");
}

/* Transfers are of rank 0. */
static void print_ranks(const struct settings *s, const struct ranks *ranks, const struct result *result)
{
    if (ranks->count == 1)
        return;
    const double all = (double)result->steps * result->unhidden;
    printf("ranks       %d of %d windows each; %s, %d bucket%s\n", ranks->count, s->batch / ranks->count,
           result->reducer, result->buckets, result->buckets == 1 ? "" : "s");
    printf("reductions  %.2f %% of the time not hidden\n", result->seconds > 0 ? 100 * all / result->seconds : 0.0);
}

void report(const struct settings *settings, const struct text *text, const struct ranks *ranks,
            const struct backend *backend, const struct result *result)
{
    printf("device      %s\n", backend->name);
    print_text(settings, text);
    print_run(settings, result);
    print_ranks(settings, ranks, result);
    print_budget(settings, result);
    print_sample(result);
    print_transfers(result);
    printf("\nheld-out loss %.6f nat/char, unigram %.6f, gain %.6f\n", result->held_out_loss, text->entropy,
           text->entropy - result->held_out_loss);
}
