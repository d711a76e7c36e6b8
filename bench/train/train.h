/* A whole run: training, the loss on held-out text, a sample, and the fewest transfers that it needs. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "backend.h"
#include "checkpoint.h"
#include "ranks.h"
#include "settings.h"
#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transfers {
    uint64_t h2d, h2d_bytes;
    uint64_t d2h, d2h_bytes;
};

/* Of objects with a budget, by the library's statistics. */
struct evictions {
    uint64_t hits;   /* holds of objects that were on the device */
    uint64_t misses; /* of others */
    uint64_t clean, dirty, bytes;
};

struct result {
    size_t parameters;
    int steps;             /* of this run */
    double training_loss;  /* mean of the last hundredth of the steps */
    double held_out_loss;  /* mean of all held-out windows, in nats */
    double seconds;        /* of training */
    double unhidden;       /* of a step, in seconds, in which the arithmetic waited for reductions */
    int buckets;           /* in which the gradients are reduced; 0: one rank */
    char reducer[160];     /* the library that reduces them */
    unsigned char *sample; /* context + settings->sample characters, the first context of them the opening; or NULL */
    size_t sample_length;
    struct transfers measured; /* by the library's statistics */
    struct transfers fewest;   /* that the algorithm needs; see train.c */
    struct evictions evictions;
};

/* from: the checkpoint to go on from, or NULL. All ranks call it. Rank 0 alone prints progress, and has the held-out
 * loss and the sample in its result. After a failure there is nothing to free. With several ranks, reductions and
 * objects then stay as they are. */
bool train(const struct settings *settings, const struct text *text, const struct ranks *ranks,
           const struct backend *backend, const struct checkpoint *from, struct result *result);
void result_free(struct result *result);

#endif
