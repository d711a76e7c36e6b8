/* The command: checks its arguments, runs, reports. */
#include "backend.h"
#include "failure.h"
#include "overlap.h"
#include "report.h"
#include "settings.h"
#include "text.h"
#include "train.h"

#include "synced_mem.h"

#include <stdio.h>

enum { ENDED_WELL = 0, ENDED_BY_FAILURE = 1, ENDED_BY_MISUSE = 2 };

static int complain(int code)
{
    fprintf(stderr, "train: %s\n", failure());
    return code;
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

/* Turns "any" and "gpu" into the CPU or the number of a GPU. Fails if the requested device is not available.
 * needs_gpu: the CPU is not enough. */
static bool choose_device(int *device, bool needs_gpu)
{
    const char *const flag = needs_gpu ? "--overlap" : "--device";
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
    if (*device < 0)
        *device = 0;
    if (*device >= gpus)
        return fail("--device %d: the last GPU of this machine is %d", *device, gpus - 1);
    return true;
}

static bool open_backend(struct backend *backend, int device)
{
    return device == SETTINGS_DEVICE_CPU ? backend_open_cpu(backend) : backend_open_gpu(backend, device);
}

static bool train_and_report(const struct settings *settings, const struct text *text, const struct backend *backend)
{
    struct result result;
    if (!train(settings, text, backend, &result))
        return false;
    report(settings, text, backend, &result);
    result_free(&result);
    return true;
}

static int run(const struct settings *settings, const struct text *text)
{
    struct backend backend;
    bool done = open_backend(&backend, settings->device);
    if (done) {
        done = settings->overlap > 0 ? overlap(settings, text, &backend) : train_and_report(settings, text, &backend);
        done = backend.close() && done;
    }
    if (synced_mem_shutdown() != SYNCED_MEM_OK)
        done = fail_library("shutdown");
    return done ? ENDED_WELL : complain(ENDED_BY_FAILURE);
}

static int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return ENDED_WELL;
    fail("the output could not be written");
    return complain(ENDED_BY_FAILURE);
}

int main(int count, char *arguments[])
{
    struct settings settings;
    if (!settings_parse(&settings, count, arguments))
        return complain(ENDED_BY_MISUSE);
    if (settings.help) {
        settings_help();
        return finish_output();
    }
    if (!settings.path)
        settings.path = default_path();

    struct text text;
    if (!choose_device(&settings.device, settings.overlap > 0) || !text_load(&text, settings.path, settings.context))
        return complain(ENDED_BY_MISUSE);
    const int ended = run(&settings, &text);
    text_free(&text);
    return ended == ENDED_WELL ? finish_output() : ended;
}
