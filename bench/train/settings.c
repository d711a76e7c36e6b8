/* What the command line says: flags, their ranges and their defaults. */
#include "settings.h"

#include "failure.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct settings defaults = {
    .device = SETTINGS_DEVICE_ANY,
    .seed = 1,
    .steps = 12000,
    .batch = 64,
    .context = 8,
    .hidden = 256,
    .embed = 16,
    .sample = 400,
    .rate = 0.3,
    .decay = 1e-3,
};

/* A flag's value as a whole number of min..max. */
static bool parse_whole(const char *flag, const char *text, int min, int max, int *value)
{
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < min || number > max)
        return fail("%s: \"%s\" is no whole number of %d to %d", flag, text, min, max);
    *value = (int)number;
    return true;
}

static bool parse_seed(const char *flag, const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    /* strtoull() would take a sign. */
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return fail("%s: \"%s\" is no whole number of 0 to %llu", flag, text, ULLONG_MAX);
    *value = number;
    return true;
}

static bool parse_real(const char *flag, const char *text, double max, double *value)
{
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number < 0 || number > max)
        return fail("%s: \"%s\" is no number of 0 to %g", flag, text, max);
    *value = number;
    return true;
}

static bool parse_device(const char *flag, const char *text, int *value)
{
    if (strcmp(text, "cpu") == 0) {
        *value = SETTINGS_DEVICE_CPU;
        return true;
    }
    if (strcmp(text, "gpu") == 0) {
        *value = SETTINGS_DEVICE_GPU;
        return true;
    }
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < 0 || number > INT_MAX)
        return fail("%s: \"%s\" is neither cpu nor gpu nor the number of a GPU", flag, text);
    *value = (int)number;
    return true;
}

/* A flag that takes a value. Sets *known to false, and does nothing else, when it is none. */
static bool parse_value(struct settings *s, const char *flag, const char *value, bool *known)
{
    const struct {
        const char *flag;
        int min, max;
        int *value;
    } whole[] = {
        {"--steps", 1, 1000000000, &s->steps},  {"--batch", 1, 65536, &s->batch}, {"--context", 1, 1024, &s->context},
        {"--hidden", 1, 65536, &s->hidden},     {"--embed", 1, 4096, &s->embed},  {"--sample", 0, 1000000, &s->sample},
        {"--overlap", 1, 1000000, &s->overlap},
    };
    *known = true;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; ++i) {
        if (strcmp(flag, whole[i].flag) == 0)
            return !value || parse_whole(flag, value, whole[i].min, whole[i].max, whole[i].value);
    }
    if (strcmp(flag, "--device") == 0)
        return !value || parse_device(flag, value, &s->device);
    if (strcmp(flag, "--seed") == 0)
        return !value || parse_seed(flag, value, &s->seed);
    if (strcmp(flag, "--rate") == 0)
        return !value || parse_real(flag, value, 100.0, &s->rate);
    if (strcmp(flag, "--decay") == 0)
        return !value || parse_real(flag, value, 1.0, &s->decay);
    *known = false;
    return true;
}

/* False: it takes a value, or is none. */
static bool take_flag(struct settings *s, const char *flag)
{
    const struct {
        const char *flag;
        bool *value;
    } flags[] = {{"--help", &s->help}, {"--quiet", &s->quiet}, {"--timeline", &s->timeline}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; ++i) {
        if (strcmp(flag, flags[i].flag) == 0)
            return *flags[i].value = true;
    }
    return false;
}

static bool check_overlap(const struct settings *s)
{
    if (s->timeline && s->overlap == 0)
        return fail("--timeline: there is none without --overlap");
    if (s->overlap > 0 && s->device == SETTINGS_DEVICE_CPU)
        return fail("--overlap: a GPU is needed, nothing is pushed for --device cpu");
    return true;
}

/* The largest matrices must have fewer elements than an int counts. */
static bool check_sizes(const struct settings *s)
{
    const double inputs = (double)s->context * s->embed;
    if (inputs * s->batch > INT_MAX || inputs * s->hidden > INT_MAX || (double)s->batch * s->hidden > INT_MAX)
        return fail("--batch, --context, --embed and --hidden are too large together");
    return true;
}

static bool parse_path(struct settings *settings, const char *path)
{
    if (settings->path)
        return fail("%s: one text file is enough", path);
    settings->path = path;
    return true;
}

bool settings_parse(struct settings *settings, int count, char *const arguments[])
{
    *settings = defaults;
    for (int i = 1; i < count; ++i) {
        const char *const argument = arguments[i];
        if (argument[0] != '-') {
            if (!parse_path(settings, argument))
                return false;
            continue;
        }
        if (take_flag(settings, argument))
            continue;
        const char *const value = i + 1 < count ? arguments[i + 1] : NULL;
        bool known;
        if (!parse_value(settings, argument, value, &known))
            return false;
        if (!known)
            return fail("unknown flag %s (--help lists them)", argument);
        if (!value)
            return fail("%s: its value is missing", argument);
        ++i;
    }
    return check_sizes(settings) && check_overlap(settings);
}

void settings_help(void)
{
    printf(
        "usage: train [flags] [text file]\n"
        "\n"
        "Trains a character-level language model whose every tensor is a synced_mem object, and reports the loss on\n"
        "held-out text, a sample of generated text, and the transfers between host and GPU.\n"
        "Without a text file: the GPL of /usr/share/common-licenses, else include/synced_mem.h.\n"
        "\n"
        "  --device cpu|gpu|N  where to compute (a GPU where there is one, else the CPU)\n"
        "  --seed N            of the weights, the batches and the sample (%d)\n"
        "  --steps N           of gradient descent (%d)\n"
        "  --batch N           windows in a step (%d)\n"
        "  --context N         characters that the model sees (%d)\n"
        "  --embed N           numbers that a character is embedded in (%d)\n"
        "  --hidden N          hidden units (%d)\n"
        "  --rate X            of learning at first; falls to 0 over the run (%g)\n"
        "  --decay X           of the weights (%g)\n"
        "  --sample N          characters to generate (%d)\n"
        "  --overlap N         do not train; measure how far pushes hide behind kernels, see below\n"
        "  --timeline          with --overlap: print when the last pushes and kernels ran, as a line of JSON\n"
        "  --quiet             no progress line\n"
        "  --help              this text\n"
        "\n"
        "--overlap N needs a GPU. With the model and batch of the other flags it takes rounds of N steps in turn:\n"
        "kernels alone, pushes of batches alone, both as in training, where the push of the next batch is queued\n"
        "before the kernels of this one, and without pushes, where the host waits for each batch to arrive. The host\n"
        "touches a few elements of a batch before each; filling it whole is not measured. With these settings a push "
        "takes about as long as the kernels of a step:\n"
        "  train --overlap 200 --batch 16384 --context 256 --embed 1 --hidden 8\n"
        "More of --embed or --hidden makes the kernels longer, a text of fewer distinct characters shorter.\n"
        "\n"
        "Ends with 0; with 1 when something fails on the way; with 2 for a wrong flag, file or device.\n",
        (int)defaults.seed, defaults.steps, defaults.batch, defaults.context, defaults.embed, defaults.hidden,
        defaults.rate, defaults.decay, defaults.sample);
}
