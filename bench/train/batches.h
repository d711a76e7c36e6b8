/*
 * The two batches that training uses in turn. While the arithmetic of a step uses one, the host fills the other and
 * pushes it to the device.
 */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "blob.h"
#include "model.h"
#include "rng.h"
#include "text.h"

#include <stdbool.h>

/* The part of each batch that a rank computes: rows first to first + count of those of all ranks. */
struct rows {
    int first, count, all;
};

/* Makes the batches: each row has a window of context characters and its target. The caller frees them, also after a
 * failure. */
bool batches_make(struct blob batches[2], int device, const struct rows *rows, int context);
void batches_free(struct blob batches[2]);

/* Overwrites the batch with random windows of training text. Draws the windows of all ranks and keeps those of the
 * rows. */
bool batch_fill(struct blob *batch, const struct rows *rows, const struct text *text, struct rng *rng);

/* Queues one step of gradient descent on the batch. A later call that replaces its contents waits for it only. */
bool batch_train(struct blob *batch, const struct rows *rows, struct model *model, float rate, float decay);

#endif
