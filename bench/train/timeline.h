/*
 * The times of the last pushes and kernels of a round, by marks on both streams of the backend.
 *
 * A push begins when it can run: when the push before it and the kernels that read the same batch before are done. The
 * kernels of a step begin when their batch has arrived. A mark waits for the same work, so the times shown do not
 * include these waits.
 */
#ifndef TRAIN_TIMELINE_H
#define TRAIN_TIMELINE_H

#include "backend.h"

#include <stdbool.h>

enum timeline_what { TIMELINE_PUSH, TIMELINE_KERNELS };

/* All zeros: no marks. */
struct timeline {
    const struct backend *backend; /* NULL: no marks */
    int steps;                     /* in the round; there may be a push for the one after the last */
    bool marked[BACKEND_MARKS];
};

/* Begins a round. Call it while nothing is pending. */
bool timeline_start(struct timeline *timeline, const struct backend *backend, int steps);

/* Called around the work queued for a step: the push of its batch, its kernels. */
bool timeline_begin(struct timeline *timeline, enum timeline_what what, int step);
bool timeline_end(struct timeline *timeline, enum timeline_what what, int step);

/* Stores the fraction of the time shown in which kernels waited only for the push of their batch. It is 0 if fewer than
 * two steps are shown. Call it after the round, when all work is done. */
bool timeline_stalled(const struct timeline *timeline, double *part);

/* Prints a line of JSON, after the round, when all work is done. Its list has each push and the kernels of each step:
 * {"timeline":[{"what":"push","step":0,"begin_us":0.00,"end_us":1.00},...]}. */
bool timeline_print(const struct timeline *timeline);

#endif
