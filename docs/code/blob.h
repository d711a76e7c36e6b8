/* A blob: a shape, its values, and the gradient of the loss with respect to the values. */
#ifndef BLOB_H
#define BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <synced_mem.h>

/* [type] */
enum { BLOB_DIMS = 4 };

struct blob {
    int dims;
    int shape[BLOB_DIMS];
    size_t count;     /* number of elements, each a float */
    synced_mem *data; /* the values */
    synced_mem *grad; /* the gradient of the loss with respect to the values */
};
/* [end] */

/* The functions that return bool return false on failure. The blob then has the same shape and objects as before.
 * A failed blob_reshape() may have discarded the values. */
bool blob_make(struct blob *blob, const char *name, int device);
bool blob_reshape(struct blob *blob, int dims, const int shape[]);
bool blob_share_data(struct blob *blob, const struct blob *other);
void blob_free(struct blob *blob);

size_t blob_bytes(const struct blob *blob);

#endif
