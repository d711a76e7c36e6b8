/*
 * A tensor: a shape, data, and the gradient of the loss by the data, each in a synced_mem object. Elements are 4 bytes.
 *
 * Reshaping is grow-only, as in Caffe: a shape that fits in the memory there is keeps it and the contents; a larger one
 * gets new objects, whose contents are zeros. The objects get memory on a side when they are first used there, so a
 * blob whose gradient nobody asks for has none.
 */
#ifndef TRAIN_BLOB_H
#define TRAIN_BLOB_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

#define BLOB_MAX_DIMS 4
#define BLOB_ELEMENT 4 /* bytes: a float or an int32_t */

struct blob {
    const char *name; /* shown in errors; not copied */
    int device;       /* as in synced_mem_options */
    int dims;
    int shape[BLOB_MAX_DIMS];
    int count;    /* elements of the shape */
    int capacity; /* elements that data and grad have room for */
    synced_mem *data;
    synced_mem *grad;
};

/* A blob without elements. */
struct blob blob_make(const char *name, int device);

/* False when there is no memory, or for more than INT_MAX elements; the blob is then as it was. */
bool blob_reshape(struct blob *blob, int dims, const int shape[]);

/* For the usual shapes. */
bool blob_vector(struct blob *blob, int length);
bool blob_matrix(struct blob *blob, int rows, int columns);

/* Also for a blob that is all zeros. */
void blob_free(struct blob *blob);

#endif
