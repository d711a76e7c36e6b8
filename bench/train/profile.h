/*
 * Measures the parts of a training step, and the reductions between the ranks, and writes them to a file of JSON, from
 * which bench/how_far.py computes the step of more ranks. docs/how-far.md describes the file.
 */
#ifndef TRAIN_PROFILE_H
#define TRAIN_PROFILE_H

#include "../suite/measure.h"
#include "backend.h"
#include "model.h"
#include "ranks.h"
#include "settings.h"
#include "text.h"

#include <stdbool.h>
#include <stddef.h>

/* Kinds of steps. */
enum profile_kind {
    PROFILE_ALONE,      /* without reductions */
    PROFILE_OVERLAPPED, /* each bucket is reduced beside the backward pass, as in training */
    PROFILE_AFTER,      /* all gradients are reduced together, after the backward pass */
    PROFILE_KINDS
};

enum { PROFILE_SIZES = 24, PROFILE_FIRST_SIZE = 8 }; /* bytes; each size is twice the one before: up to 64 MiB */

/* Times are in milliseconds. */
struct profile_times {
    int steps;                              /* of a round */
    struct summary step[PROFILE_KINDS];     /* the mean of a round */
    struct summary waited[PROFILE_KINDS];   /* of a step, in which the arithmetic waited for reductions */
    struct summary unhidden[PROFILE_KINDS]; /* the part of a step that is due to reductions */
    struct summary parts[MODEL_MAX_PARTS];  /* of a step without reductions */
    struct summary reductions[PROFILE_SIZES];
    struct summary library, plain; /* a reduction of all gradients, by the library's pointers and in other memory */
    struct summary ratio;          /* plain by library, in rounds */
};

/* What was measured, for the file and the report. */
struct profile_run {
    const struct settings *settings;
    const struct ranks *ranks;
    const struct backend *backend;
    const struct model *model;
    int rows;            /* of a rank */
    const char *reducer; /* the library that communicates */
    int buckets;
};

/* Measures, with the settings' model and batch. All ranks call it. Rank 0 writes the file and prints a summary. After a
 * failure with several ranks, reductions and objects stay as they are. */
bool profile(const struct settings *settings, const struct text *text, const struct ranks *ranks,
             const struct backend *backend);

/* Fails if the file can't be written. Makes an empty file if there is none. */
bool profile_can_write(const char *path);

/* For profile(). */
bool profile_write(const struct profile_run *run, const struct profile_times *times, const char *path);
void profile_print(const struct profile_run *run, const struct profile_times *times);

#endif
