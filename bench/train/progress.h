/* The progress line of a run, on stderr, with the share of the steps that are done and the time left. A terminal's
 * line is rewritten in place several times a second. Elsewhere there is a line after a second, and one a tenth of the
 * run. */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdbool.h>

/* The steps of a run: after first, up to last, of all. Earlier and later runs do the others. */
struct progress_steps {
    int first, last, all;
    int batch; /* characters in a step */
};

struct progress {
    struct progress_steps steps;
    double started; /* in seconds of progress_now() */
    double shown;   /* the same: when the line was shown last */
    double loss;    /* the last one that was read; negative: none yet */
    int tenths;     /* whose line was shown */
    int width;      /* of the line on the terminal */
    bool terminal;
    bool quiet;
};

/* Returns the clock of the progress line, in seconds. */
double progress_now(void);

struct progress progress_start(const struct progress_steps *steps, bool quiet);

/* Returns the seconds since the start. */
double progress_seconds(const struct progress *progress);

/* Called after each step, by its number. Queued work on a GPU may be behind. */
void progress_step(struct progress *progress, int step);

/* Called with a loss that was read, and the number of the last step in it. */
void progress_loss(struct progress *progress, int step, double loss);

/* Ends a line that was rewritten in place, so that later output begins on a new one. */
void progress_end(const struct progress *progress);

#endif
