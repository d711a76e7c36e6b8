/*
 * When the last pushes and kernels of a round ran, by marks on both internal streams of the backend.
 *
 * A push begins when it could: when the push before it is through and the kernels that read the batch before are. So
 * do the kernels of a step, when their batch is there. Both would have waited for that anyway; a mark that waits too
 * leaves the waiting out of what is shown.
 */
#ifndef TRAIN_TIMELINE_H
#define TRAIN_TIMELINE_H

#include "backend.h"

#include <stdbool.h>

enum timeline_what { TIMELINE_PUSH, TIMELINE_KERNELS };

/* All zeros: nothing is marked. */
struct timeline {
    const struct backend *backend; /* NULL: nothing is marked */
    int steps;                     /* in the round; there may be a push for the one after the last */
    bool marked[BACKEND_MARKS];
};

/* Before a round, while nothing is pending. */
bool timeline_start(struct timeline *timeline, const struct backend *backend, int steps);

/* Around what is queued for a step: a push of its batch, its kernels. */
bool timeline_begin(struct timeline *timeline, enum timeline_what what, int step);
bool timeline_end(struct timeline *timeline, enum timeline_what what, int step);

/* After the round, when all is done: the part of the time shown in which kernels could not begin because the push of
 * their batch had not ended, though the kernels before them had. 0 where fewer than two steps are shown. */
bool timeline_stalled(const struct timeline *timeline, double *part);

/* Prints a line of JSON after the round, when all is done. Its list has each push and the kernels of each step:
 * {"timeline":[{"what":"push","step":0,"begin_us":0.00,"end_us":1.00},...]}. */
bool timeline_print(const struct timeline *timeline);

#endif
