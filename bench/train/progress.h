/* The progress line of a run, on stderr: rewritten in place on a terminal, else a few lines. */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdbool.h>

struct progress {
    double started; /* in seconds of progress_now() */
    int reports;    /* so far */
    bool terminal;
    bool quiet;
};

/* Returns the clock of the progress line, in seconds. */
double progress_now(void);

struct progress progress_start(bool quiet);

/* Returns the seconds since the start. */
double progress_seconds(const struct progress *progress);

/* Shows the progress: each report on a terminal, else every tenth and the last. */
void progress_report(struct progress *progress, int step, int steps, double loss, double characters);

/* Ends a line that was rewritten in place, so that later output begins on a new one. */
void progress_end(const struct progress *progress);

#endif
