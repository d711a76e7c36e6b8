/* The line that says how a run is getting on, on stderr: rewritten in place on a terminal, else a few lines. */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdbool.h>

struct progress {
    double started; /* in seconds of some clock */
    int reports;    /* so far */
    bool terminal;
    bool quiet;
};

/* Seconds of the clock that all of this goes by. */
double progress_now(void);

struct progress progress_start(bool quiet);

/* Seconds since the start. */
double progress_seconds(const struct progress *progress);

/* Shows how far the run is: each report on a terminal, else every tenth and the last. */
void progress_report(struct progress *progress, int step, int steps, double loss, double characters);

/* Leaves a line that was rewritten in place; what is printed next begins on a new one. */
void progress_end(const struct progress *progress);

#endif
