/*
 * The two batches that training takes in turn: while the arithmetic of a step uses one, the other is filled on the host
 * and brought to the device.
 */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "blob.h"
#include "model.h"
#include "rng.h"
#include "text.h"

#include <stdbool.h>

/* A window of context characters and its target in each row. On failure too they can be, and need to be, freed. */
bool batches_make(struct blob batches[2], int device, int rows, int context);
void batches_free(struct blob batches[2]);

/* Overwrites the batch with windows of training text picked at random. */
bool batch_fill(struct blob *batch, const struct text *text, struct rng *rng);

/* One step of gradient descent on the batch; what replaces its contents later waits for this step and no further. */
bool batch_train(struct blob *batch, struct model *model, float rate, float decay);

#endif
