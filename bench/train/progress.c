/* The progress line of a run. */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double progress_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct progress progress_start(const struct progress_steps *steps, bool quiet)
{
    const double now = progress_now();
    return (struct progress){
        .steps = *steps, .started = now, .loss = -1, .terminal = isatty(STDERR_FILENO) != 0, .quiet = quiet};
}

double progress_seconds(const struct progress *progress)
{
    return progress_now() - progress->started;
}

static void write_duration(char *text, size_t size, double seconds)
{
    const long whole = (long)(seconds + 0.999);
    if (whole < 60)
        (void)snprintf(text, size, "%ld s", whole);
    else if (whole < 3600)
        (void)snprintf(text, size, "%ld min %02ld s", whole / 60, whole % 60);
    else
        (void)snprintf(text, size, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
}

/* The time left is that of the steps done, for each step to come. */
static void show(struct progress *progress, int step)
{
    const struct progress_steps *const steps = &progress->steps;
    const double seconds = progress_seconds(progress);
    const int done = step - steps->first, total = steps->last - steps->first;
    char left[48], loss[32] = "";
    write_duration(left, sizeof left, seconds / done * (total - done));
    if (progress->loss >= 0)
        (void)snprintf(loss, sizeof loss, ", loss %.4f", progress->loss);
    char line[256];
    const int width =
        snprintf(line, sizeof line, "step %d of %d, %d %% done, %s left%s, %.0f characters/s", step, steps->all,
                 (int)(100.0 * done / total), left, loss, seconds > 0 ? (double)done * steps->batch / seconds : 0.0);
    if (progress->terminal) /* covers a longer line before */
        fprintf(stderr, "\r%-*s", progress->width, line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    progress->width = width;
    progress->shown = progress_now();
}

/* A second after the start the reader sees how long the run will take, wherever the line goes. */
void progress_step(struct progress *progress, int step)
{
    static const double AGAIN_S = 0.2, FIRST_S = 1;
    const double now = progress_now();
    const bool first = progress->shown == 0;
    const bool due =
        progress->terminal ? first || now - progress->shown >= AGAIN_S : first && now - progress->started >= FIRST_S;
    if (due && !progress->quiet)
        show(progress, step);
}

void progress_loss(struct progress *progress, int step, double loss)
{
    const struct progress_steps *const steps = &progress->steps;
    const int tenths = (int)(10.0 * (step - steps->first) / (steps->last - steps->first));
    progress->loss = loss;
    if (!progress->quiet && (progress->terminal || tenths > progress->tenths))
        show(progress, step);
    progress->tenths = tenths;
}

void progress_end(const struct progress *progress)
{
    if (progress->terminal && progress->shown > 0)
        fputc('\n', stderr);
}
