/*
 * A tensor: a shape, data, and the gradient of the loss by the data, each in a synced_mem object. Elements are 4 bytes.
 *
 * Reshaping is grow-only, as in Caffe. A shape that fits into the capacity keeps memory and contents. A larger one gets
 * new objects, whose contents are zeros. An object gets memory on a side when it is first used there, so a blob whose
 * gradient is never used has no memory for it. Blobs can be views of one blob, whose memory they then use.
 */
#ifndef TRAIN_BLOB_H
#define TRAIN_BLOB_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

#define BLOB_MAX_DIMS 4
#define BLOB_ELEMENT 4 /* bytes: a float or an int32_t */

struct blob {
    const char *name;                          /* shown in errors; not copied */
    int device;                                /* as in synced_mem_options */
    const synced_mem_allocator *gpu_allocator; /* of the gradient; NULL: the library's */
    bool evictable;                            /* of both objects, as in synced_mem_options */
    int dims;
    int shape[BLOB_MAX_DIMS];
    int count;    /* elements of the shape */
    int capacity; /* elements that fit into data and grad */
    synced_mem *data;
    synced_mem *grad;
};

/* Returns a blob without elements. */
struct blob blob_make(const char *name, int device);

/* Fails without memory, or for more than INT_MAX elements. The blob is then unchanged. */
bool blob_reshape(struct blob *blob, int dims, const int shape[]);

/* The same for the usual shapes. */
bool blob_vector(struct blob *blob, int length);
bool blob_matrix(struct blob *blob, int rows, int columns);

/* Gives a blob without elements a shape, and makes its data and its gradient views of another's from an element on. The
 * views keep the objects of the other alive. Fails as blob_reshape(), and if the part does not lie within the other. */
bool blob_view(struct blob *blob, const struct blob *of, int first, int dims, const int shape[]);

/* Frees a blob, also one that is all zeros. */
void blob_free(struct blob *blob);

#endif
