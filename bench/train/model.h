/*
 * The network: an embedding of a window's characters side by side, hidden layers with tanh, and a softmax that gives
 * the probabilities of the next character. It uses blobs and a backend, never a side or a copy.
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "backend.h"
#include "blob.h"
#include "buckets.h"
#include "holds.h"
#include "rng.h"

#include <stdbool.h>
#include <stddef.h>

enum { MODEL_MAX_LAYERS = 64, MODEL_MAX_PARAMETERS = 2 * MODEL_MAX_LAYERS + 3, MODEL_NAME = 32 };

struct model_shape {
    int vocabulary;
    int context;
    int embed;  /* numbers that a character is embedded in */
    int hidden; /* units of a hidden layer */
    int layers; /* hidden layers, at most MODEL_MAX_LAYERS */
};

/* A step has these parts, in this order: the embedding of the windows; each hidden layer forward, the first one first;
 * the scores; the loss; the gradient of each parameter, in the order of the parameters; the optimizer. */
enum { MODEL_BEGIN = -1, MODEL_MAX_PARTS = MODEL_MAX_LAYERS + 4 + MODEL_MAX_PARAMETERS };

/* Follows the steps of a model. */
struct model_probe {
    /* Called when a part is queued, and before the first one with MODEL_BEGIN. */
    bool (*queued)(struct model_probe *probe, int part);
};

struct model {
    const struct backend *backend;
    struct model_shape shape;
    /* All parameters side by side, with their gradients; and each, a view of it, or with a budget blobs of their own.
     * Their order is that in which the backward pass computes the gradients: weight and bias of the scores, of the last
     * hidden layer and so on to the first, then the embedding. */
    struct blob all;
    struct blob parameters[MODEL_MAX_PARAMETERS];
    char names[MODEL_MAX_PARAMETERS][MODEL_NAME];
    int count;                           /* of parameters */
    struct blob input;                   /* rows x (context * embed) */
    struct blob units[MODEL_MAX_LAYERS]; /* rows x hidden */
    struct blob scores;                  /* rows x vocabulary */
    struct blob row_loss;                /* rows */
    /* One double each, used in turn: the loss of all rows since the end of the last sum, and that last sum, which may
     * be in transfer to the host. */
    struct blob totals[2];
    int total; /* the one in use */
    /* Where gradients and losses are summed over all ranks; NULL: nowhere. The owner of the model sets it. */
    const struct buckets *buckets;
    struct model_probe *probe; /* NULL: none. The owner of the model sets it. */
    struct holds holds;
};

/* Makes a network with random weights, written on the host. gradients: the allocator of their device copy; NULL: the
 * library's. budget: the most device memory in bytes, for a backend on a GPU and one rank: parameters and activations
 * are then evicted while no layer uses them; or SYNCED_MEM_NO_BUDGET. The model must stay where it is until it is
 * freed. After a failure there is nothing to free. */
bool model_make(struct model *model, const struct backend *backend, const struct model_shape *shape,
                const synced_mem_allocator *gradients, uint64_t budget, struct rng *rng);
void model_free(struct model *model);

/* Returns the number of all parameters. */
size_t model_shape_parameters(const struct model_shape *shape);

/* Queues one step of gradient descent on the mean loss of the windows. Adds their loss to the sum of the loss. */
bool model_train(struct model *model, const struct windows *windows, float rate, float decay);

/* Returns the part that computes the gradient of a parameter. The parts before the first gradient are the forward pass
 * and the loss, the part after the last one is the optimizer. */
int model_gradient_part(const struct model *model, int parameter);

/* Adds the loss of the windows to the sum. */
bool model_test(struct model *model, const struct windows *windows);

/* Draws the target of windows, which has one row; see backend.h. */
bool model_draw(struct model *model, const struct windows *windows);

/* Ends the sum of the loss, starts its transfer to the host, and starts a new sum. The previous sum must be read. */
bool model_end_loss(struct model *model);
/* Reads the last ended sum. Does not wait for work queued since. */
bool model_read_loss(struct model *model, double *sum);

#endif
