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

/* Makes the batches: each row has a window of context characters and its target. The caller frees them, also after a
 * failure. */
bool batches_make(struct blob batches[2], int device, int rows, int context);
void batches_free(struct blob batches[2]);

/* Overwrites the batch with random windows of training text. */
bool batch_fill(struct blob *batch, const struct text *text, struct rng *rng);

/* Queues one step of gradient descent on the batch. A later call that replaces its contents waits for it only. */
bool batch_train(struct blob *batch, struct model *model, float rate, float decay);

#endif
