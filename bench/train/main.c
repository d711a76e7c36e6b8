/* The command: checks its arguments, runs, reports. */
#include "backend.h"
#include "checkpoint.h"
#include "failure.h"
#include "overlap.h"
#include "profile.h"
#include "ranks.h"
#include "reduce.h"
#include "report.h"
#include "settings.h"
#include "text.h"
#include "train.h"

#include "synced_mem.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* The most that it may take to end the run; the process then ends by a signal, which ends the run too. */
enum { ABORT_SECONDS = 5 };

enum { ENDED_WELL = 0, ENDED_BY_FAILURE = 1, ENDED_BY_MISUSE = 2 };

static struct ranks ranks;

static int complain(int code)
{
    if (ranks.count > 1)
        fprintf(stderr, "train: rank %d of %d: %s\n", ranks.rank, ranks.count, failure());
    else
        fprintf(stderr, "train: %s\n", failure());
    return code;
}

/* Ends all ranks with one message. The failure of a communication is often the consequence of another rank's end, and
 * several ranks can fail alike. So this rank waits before it prints, and the end of the run comes first if another rank
 * has printed its message. */
static int complain_to_all(void)
{
    if (ranks.count == 1)
        return complain(ENDED_BY_FAILURE);
    const int milliseconds = failure_of_peer() ? 3000 : 100 * (ranks.rank < 10 ? ranks.rank : 10);
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
    complain(ENDED_BY_FAILURE);
    alarm(ABORT_SECONDS);
    reduce_abort();
    ranks.abort(ENDED_BY_FAILURE);
    return ENDED_BY_FAILURE;
}

static bool is_readable(const char *path)
{
    FILE *const stream = fopen(path, "rb");
    if (stream)
        fclose(stream);
    return stream != NULL;
}

/* Returns the text to read by default. TRAIN_TEXT is a file of the source tree, for programs in a build directory. */
static const char *default_path(void)
{
    static const char *const paths[] = {
        "/usr/share/common-licenses/GPL-3",
        "/usr/share/common-licenses/GPL-2",
        "include/synced_mem.h",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; ++i) {
        if (is_readable(paths[i]))
            return paths[i];
    }
    return TRAIN_TEXT;
}

/* Returns the flag that the CPU is not enough for, or NULL. */
static const char *flag_for_gpu(const struct settings *settings)
{
    if (settings->overlap > 0)
        return "--overlap";
    return settings->budget != SYNCED_MEM_NO_BUDGET ? "--budget" : NULL;
}

/* Turns "any" and "gpu" into the CPU or the number of a GPU. With several ranks each takes a GPU of its machine. Fails
 * if the requested device is not available. needs_gpu: a flag that the CPU is not enough for, or NULL. */
static bool choose_device(int *device, const char *needs_gpu)
{
    const char *const flag = needs_gpu ? needs_gpu : "--device";
    if (*device == SETTINGS_DEVICE_CPU)
        return backend_cpu_built() || fail("--device cpu: this program was built without CBLAS");
    const int gpus = backend_gpu_count();
    if (*device == SETTINGS_DEVICE_ANY && gpus == 0 && !needs_gpu) {
        *device = SETTINGS_DEVICE_CPU;
        return backend_cpu_built() || fail("there is no GPU, and this program was built without CBLAS for the CPU");
    }
    if (!backend_gpu_built())
        return fail("%s: this program was built for the CPU alone", flag);
    if (gpus == 0)
        return fail("%s: this machine has no GPU that CUDA can use", flag);
    if (ranks.local_count > gpus)
        return fail("this machine has %d GPUs for %d ranks: use fewer ranks, or --device cpu", gpus, ranks.local_count);
    if (*device >= 0 && ranks.count > 1)
        return fail("--device %d: each rank takes a GPU of its own; use --device gpu", *device);
    if (*device < 0)
        *device = ranks.local_rank;
    if (*device >= gpus)
        return fail("--device %d: the last GPU of this machine is %d", *device, gpus - 1);
    return true;
}

static bool open_backend(struct backend *backend, int device)
{
    return device == SETTINGS_DEVICE_CPU ? backend_open_cpu(backend, ranks.local_count)
                                         : backend_open_gpu(backend, device);
}

static bool train_and_report(const struct settings *settings, const struct text *text, const struct backend *backend,
                             const struct checkpoint *from)
{
    struct result result;
    if (!train(settings, text, &ranks, backend, from, &result))
        return false;
    if (ranks.rank == 0)
        report(settings, text, &ranks, backend, &result);
    result_free(&result);
    return true;
}

static bool work(const struct settings *settings, const struct text *text, const struct backend *backend,
                 const struct checkpoint *from)
{
    if (settings->overlap > 0)
        return overlap(settings, text, backend);
    if (settings->profile)
        return profile(settings, text, &ranks, backend);
    return train_and_report(settings, text, backend, from);
}

static int run(const struct settings *settings, const struct text *text, const struct checkpoint *from)
{
    struct backend backend;
    bool done = open_backend(&backend, settings->device);
    if (done) {
        done = work(settings, text, &backend, from);
        if (!done && ranks.count > 1)
            return complain_to_all();
        done = backend.close() && done;
    }
    if (synced_mem_shutdown() != SYNCED_MEM_OK)
        done = fail_library("shutdown");
    return done ? ENDED_WELL : complain_to_all();
}

static int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return ENDED_WELL;
    fail("the output could not be written");
    return complain_to_all();
}

/* Fails if so many ranks can't share the work of these settings. */
static bool check_ranks(const struct settings *settings)
{
    if (ranks.count > 1 && settings->overlap > 0)
        return fail("--overlap works with one rank only");
    if (ranks.count > 1 && settings->budget != SYNCED_MEM_NO_BUDGET)
        return fail("--budget works with one rank only");
    if (settings->batch % ranks.count != 0)
        return fail("--batch %d can't be divided among %d ranks", settings->batch, ranks.count);
    return true;
}

/* Returns whether all ranks have prepared their part. Of those that have not, the lowest prints the reason. */
static bool all_prepared(bool prepared)
{
    const int failed = ranks.first_failed(!prepared);
    if (failed == ranks.rank)
        complain(ENDED_BY_MISUSE);
    return failed < 0;
}

/* Only rank 0 reads and writes the files. Other machines need not have them. */
static bool prepare_files(const struct settings *settings, const struct text *text, struct checkpoint *from)
{
    if (ranks.rank > 0)
        return true;
    if (settings->profile && !profile_can_write(settings->profile))
        return false;
    if (settings->save && !checkpoint_can_write(settings->save))
        return false;
    if (!settings->load)
        return true;
    const struct model_shape shape = settings_shape(settings, text->vocabulary);
    if (!checkpoint_read(from, settings->load, &shape, text))
        return false;
    const int last = settings->stop > 0 ? settings->stop : settings->steps;
    return from->step < last || fail("%s: all %d steps are done", settings->load, last);
}

static int share_and_run(struct settings *settings, const struct text *text, struct checkpoint *from)
{
    if (!settings->load)
        return run(settings, text, NULL);
    const struct model_shape shape = settings_shape(settings, text->vocabulary);
    if (!checkpoint_share(from, &ranks, &shape))
        return complain_to_all();
    settings->seed = from->seed;
    return run(settings, text, from);
}

static int prepare_and_run(struct settings *settings)
{
    struct text text = {0};
    struct checkpoint from = {0};
    if (!settings->path)
        settings->path = default_path();
    const bool prepared = check_ranks(settings) && choose_device(&settings->device, flag_for_gpu(settings)) &&
                          text_load(&text, settings->path, settings->context) && prepare_files(settings, &text, &from);
    const int ended = all_prepared(prepared) ? share_and_run(settings, &text, &from) : ENDED_BY_MISUSE;
    checkpoint_free(&from);
    text_free(&text);
    return ended == ENDED_WELL ? finish_output() : ended;
}

int main(int count, char *arguments[])
{
    struct settings settings;
    if (!ranks_open(&ranks, &count, &arguments))
        return ranks.rank == 0 ? complain(ENDED_BY_MISUSE) : ENDED_BY_MISUSE;
    int ended = ENDED_BY_MISUSE;
    if (all_prepared(settings_parse(&settings, count, arguments))) {
        if (!settings.help) {
            ended = prepare_and_run(&settings);
        } else {
            if (ranks.rank == 0)
                settings_help();
            ended = finish_output();
        }
    }
    ranks.close();
    return ended;
}
