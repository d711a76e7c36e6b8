/*
 * Buckets: neighbouring gradients that are reduced together, while the backward pass computes those of the next bucket.
 * A bucket is a view of all gradients, which lie in the order in which the backward pass computes them.
 */
#ifndef TRAIN_BUCKETS_H
#define TRAIN_BUCKETS_H

#include "blob.h"
#include "reduce.h"

#include <stdbool.h>
#include <stddef.h>

struct bucket {
    synced_mem *grads;
    int first, last; /* parameters */
    int count;       /* elements */
};

struct buckets {
    struct reduce *reduce;
    struct bucket *list;
    int count;
};

/* Divides the gradients of count parameters, views of all. A bucket ends with the parameter that brings it to this
 * number of bytes. A parameter is never cut. The caller frees the buckets, also after a failure. */
bool buckets_make(struct buckets *buckets, struct reduce *reduce, const struct blob *all, const struct blob *parameters,
                  int count, size_t bytes);
void buckets_free(struct buckets *buckets);

/* Starts the reduction of the bucket that ends with this parameter, if there is one. Call it for each parameter in
 * order, when its gradient is queued. */
bool buckets_complete(const struct buckets *buckets, int parameter);

/* Lets the operations from now on come after the reduction of the bucket that begins with this parameter, if there is
 * one. Call it for each parameter in order, before its gradient is used. */
bool buckets_wait(const struct buckets *buckets, int parameter);

#endif
