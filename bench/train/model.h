/*
 * The network: the characters of a window are looked up in an embedding, side by side they go through a hidden layer
 * with tanh, and a softmax gives the odds of the next character. It sees blobs and a backend, never a side or a copy.
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "backend.h"
#include "blob.h"
#include "rng.h"

#include <stdbool.h>
#include <stddef.h>

enum model_parameter {
    MODEL_EMBEDDING,
    MODEL_HIDDEN_WEIGHT,
    MODEL_HIDDEN_BIAS,
    MODEL_SCORE_WEIGHT,
    MODEL_SCORE_BIAS,
    MODEL_PARAMETERS
};

struct model {
    const struct backend *backend;
    int vocabulary;
    int context;
    int embed;  /* numbers that a character is embedded in */
    int hidden; /* units of the hidden layer */
    struct blob parameters[MODEL_PARAMETERS];
    struct blob input;    /* rows x (context * embed) */
    struct blob units;    /* rows x hidden */
    struct blob scores;   /* rows x vocabulary */
    struct blob row_loss; /* rows */
    /* Of one double each, used in turn: the loss of all rows since the last sum was ended, and the sum before, which
     * may be on its way to the host. */
    struct blob totals[2];
    int total; /* the one that is added to */
};

/* A network with random weights, written on the host. On failure nothing is left to free. */
bool model_make(struct model *model, const struct backend *backend, int vocabulary, int context, int embed, int hidden,
                struct rng *rng);
void model_free(struct model *model);

/* Bytes of all parameters. */
size_t model_parameter_bytes(const struct model *model);

/* One step of gradient descent on the mean loss of the windows; their loss is added to the sum of the loss. */
bool model_train(struct model *model, const struct windows *windows, float rate, float decay);

/* Adds the loss of the windows to the sum. */
bool model_test(struct model *model, const struct windows *windows);

/* Draws the target of windows, of one row; see backend.h. */
bool model_draw(struct model *model, const struct windows *windows);

/* Ends the sum of the loss, which is then on its way to the host, and starts a new one. The one before must have been
 * read. */
bool model_end_loss(struct model *model);
/* Reads the sum that was ended last, and waits for nothing that was queued since. */
bool model_read_loss(struct model *model, double *sum);

#endif
