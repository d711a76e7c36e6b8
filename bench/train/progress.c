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

struct progress progress_start(bool quiet)
{
    return (struct progress){.started = progress_now(), .terminal = isatty(STDERR_FILENO) != 0, .quiet = quiet};
}

double progress_seconds(const struct progress *progress)
{
    return progress_now() - progress->started;
}

void progress_report(struct progress *progress, int step, int steps, double loss, double characters)
{
    progress->reports++;
    if (progress->quiet || (!progress->terminal && progress->reports % 10 != 0 && step < steps))
        return;
    const double seconds = progress_seconds(progress);
    fprintf(stderr, "%sstep %d of %d, loss %.4f, %.0f characters/s%s", progress->terminal ? "\r" : "", step, steps,
            loss, seconds > 0 ? characters / seconds : 0.0, progress->terminal ? "    " : "\n");
    fflush(stderr);
}

void progress_end(const struct progress *progress)
{
    if (progress->terminal && !progress->quiet && progress->reports > 0)
        fputc('\n', stderr);
}
