/* The command line: flags, their ranges and their defaults. */
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
    .layers = 1,
    .hidden = 256,
    .embed = 16,
    .sample = 400,
    .rate = 0.3,
    .decay = 1e-3,
    .bucket = 4096,
    .budget = SYNCED_MEM_NO_BUDGET,
};

/* Parses a flag's value as a whole number of min..max. */
static bool parse_whole(const char *flag, const char *text, int min, int max, int *value)
{
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < min || number > max)
        return fail("%s: \"%s\" is not a whole number from %d to %d", flag, text, min, max);
    *value = (int)number;
    return true;
}

static bool parse_long(const char *flag, const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    /* strtoull() accepts a sign. */
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return fail("%s: \"%s\" is not a whole number from 0 to %llu", flag, text, ULLONG_MAX);
    *value = number;
    return true;
}

static bool parse_real(const char *flag, const char *text, double max, double *value)
{
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number < 0 || number > max)
        return fail("%s: \"%s\" is not a number from 0 to %g", flag, text, max);
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
        return fail("%s: \"%s\" is not cpu, gpu or the number of a GPU", flag, text);
    *value = (int)number;
    return true;
}

/* Parses a flag with a value. For any other flag only sets *known to false. */
static bool parse_value(struct settings *s, const char *flag, const char *value, bool *known)
{
    const struct {
        const char *flag;
        int min, max;
        int *value;
    } whole[] = {
        {"--steps", 1, 1000000000, &s->steps},
        {"--batch", 1, 65536, &s->batch},
        {"--context", 1, 1024, &s->context},
        {"--hidden", 1, 65536, &s->hidden},
        {"--embed", 1, 4096, &s->embed},
        {"--sample", 0, 1000000, &s->sample},
        {"--overlap", 1, 1000000, &s->overlap},
        {"--bucket", 1, 1 << 20, &s->bucket},
        {"--reduce-blocks", 0, 1024, &s->reduce_blocks},
        {"--stop", 1, 1000000000, &s->stop},
        {"--save-every", 1, 1000000000, &s->save_every},
        {"--layers", 1, MODEL_MAX_LAYERS, &s->layers},
    };
    *known = true;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; ++i) {
        if (strcmp(flag, whole[i].flag) == 0)
            return !value || parse_whole(flag, value, whole[i].min, whole[i].max, whole[i].value);
    }
    if (strcmp(flag, "--save") == 0 || strcmp(flag, "--load") == 0) {
        *(flag[2] == 's' ? &s->save : &s->load) = value;
        return true;
    }
    if (strcmp(flag, "--profile") == 0) {
        s->profile = value;
        return true;
    }
    if (strcmp(flag, "--device") == 0)
        return !value || parse_device(flag, value, &s->device);
    if (strcmp(flag, "--seed") == 0)
        return !value || parse_long(flag, value, &s->seed);
    if (strcmp(flag, "--budget") == 0)
        return !value || parse_long(flag, value, &s->budget);
    if (strcmp(flag, "--rate") == 0)
        return !value || parse_real(flag, value, 100.0, &s->rate);
    if (strcmp(flag, "--decay") == 0)
        return !value || parse_real(flag, value, 1.0, &s->decay);
    *known = false;
    return true;
}

/* Takes a flag without a value. Returns false for any other argument. */
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
        return fail("--timeline works only with --overlap");
    if (s->overlap > 0 && s->device == SETTINGS_DEVICE_CPU)
        return fail("--overlap needs a GPU: --device cpu has no pushes");
    return true;
}

static bool check_budget(const struct settings *s)
{
    if (s->budget == SYNCED_MEM_NO_BUDGET)
        return true;
    if (s->overlap > 0 || s->profile)
        return fail("--budget works without --overlap and --profile");
    if (s->device == SETTINGS_DEVICE_CPU)
        return fail("--budget needs a GPU: --device cpu has no memory of its own");
    return true;
}

static bool check_profile(const struct settings *s)
{
    if (s->profile && (s->overlap > 0 || s->save || s->load))
        return fail("--profile trains nothing, and works without --overlap, --save and --load");
    return true;
}

static bool check_checkpoints(const struct settings *s)
{
    if (s->save_every > 0 && !s->save)
        return fail("--save-every works only with --save");
    if (s->overlap > 0 && (s->save || s->load))
        return fail("--overlap trains nothing that can be saved");
    if (s->stop > s->steps)
        return fail("--stop %d comes after the last of %d steps", s->stop, s->steps);
    return true;
}

/* An int must be able to count the elements of the largest matrices. */
static bool check_sizes(const struct settings *s)
{
    const double inputs = (double)s->context * s->embed;
    if (inputs * s->batch > INT_MAX || inputs * s->hidden > INT_MAX || (double)s->batch * s->hidden > INT_MAX ||
        (s->layers > 1 && (double)s->hidden * s->hidden > INT_MAX))
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
    return check_sizes(settings) && check_overlap(settings) && check_budget(settings) && check_profile(settings) &&
           check_checkpoints(settings);
}

struct model_shape settings_shape(const struct settings *settings, int vocabulary)
{
    return (struct model_shape){
        .vocabulary = vocabulary,
        .context = settings->context,
        .embed = settings->embed,
        .hidden = settings->hidden,
        .layers = settings->layers,
    };
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
        "  --device cpu|gpu|N  the device that computes (default: a GPU if there is one, else the CPU)\n"
        "  --seed N            seed of the weights, the batches and the sample (%d)\n"
        "  --steps N           steps of gradient descent (%d)\n"
        "  --batch N           windows in a step (%d)\n"
        "  --context N         characters that the model sees (%d)\n"
        "  --embed N           numbers in the embedding of a character (%d)\n"
        "  --layers N          hidden layers (%d)\n"
        "  --hidden N          units of a hidden layer (%d)\n"
        "  --rate X            initial learning rate, which falls to 0 over the run (%g)\n"
        "  --decay X           weight decay (%g)\n"
        "  --sample N          characters to generate (%d)\n"
        "  --budget BYTES      the most memory on the GPU; layers that do not fit are evicted while others compute\n"
        "  --save FILE         write a checkpoint at the end, by which a later run can go on\n"
        "  --save-every N      write it every N steps too\n"
        "  --load FILE         go on from a checkpoint, with its seed; --steps counts from the first run\n"
        "  --stop N            end the run after step N of --steps\n"
        "  --bucket N          with several ranks: KiB of gradients that are reduced together (%d)\n"
        "  --reduce-blocks N   with several ranks on GPUs: the most thread blocks of a reduction, so that matrix\n"
        "                      products keep the other multiprocessors; 0: NCCL decides (%d)\n"
        "  --overlap N         measure how far pushes hide behind kernels instead of training; see below\n"
        "  --profile FILE      measure the parts of a step and the reductions instead of training; see below\n"
        "  --timeline          with --overlap: print the times of the last pushes and kernels as a line of JSON\n"
        "  --quiet             print no progress line\n"
        "  --help              print this text\n"
        "\n"
        "--overlap N needs a GPU. It uses the model and batch of the other flags, and runs four kinds of rounds of N\n"
        "steps in turn: kernels alone; pushes of batches alone; both, as in training, where the push of the next\n"
        "batch is queued before the kernels of this one; and a wait of the host for each batch before its kernels.\n"
        "The host writes a few elements of a batch before each transfer; filling it completely is not measured.\n"
        "With these settings a push takes about as long as the kernels of a step:\n"
        "  train --overlap 200 --batch 16384 --context 256 --embed 1 --hidden 8\n"
        "Larger --embed or --hidden makes the kernels longer, fewer distinct characters in the text make them "
        "shorter.\n"
        "\n"
        "--profile FILE measures with the model and batch of the other flags, and writes FILE, which is JSON: the\n"
        "time of each part of a step; of whole steps without reductions, with reductions beside the backward pass,\n"
        "and with one reduction after it; of reductions of 8 bytes to 64 MiB; and of one of all gradients beside the\n"
        "same in memory that the library does not manage. With one rank there are no reductions. A round has --steps\n"
        "steps or reductions at most, or 16 if that is more. bench/how_far.py reads FILE; see docs/how-far.md.\n"
        "\n"
        "Started by MPI's launcher (mpirun -n N train ...), the ranks train together: each computes its part of every\n"
        "batch, on a GPU of its own or on the CPU, and rank 0 reports. N must divide --batch.\n"
        "\n"
        "Exit status: 0; 1 if the run failed; 2 for a wrong flag, file or device.\n",
        (int)defaults.seed, defaults.steps, defaults.batch, defaults.context, defaults.embed, defaults.layers,
        defaults.hidden, defaults.rate, defaults.decay, defaults.sample, defaults.bucket, defaults.reduce_blocks);
}
