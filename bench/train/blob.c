/* A tensor: a shape, data and gradient, each in a synced_mem object. */
#include "blob.h"

#include "failure.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>

/* Builds the name in a local buffer, as the library copies it. */
static synced_mem *make_object(const struct blob *blob, int count, const char *part)
{
    char name[48];
    snprintf(name, sizeof name, "%s.%s", blob->name, part);

    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = blob->device;
    options.name = name;

    synced_mem *object = NULL;
    if (synced_mem_create(&object, (size_t)count * BLOB_ELEMENT, &options) != SYNCED_MEM_OK)
        fail_library(name);
    return object;
}

static bool replace_objects(struct blob *blob, int count)
{
    synced_mem *const data = make_object(blob, count, "data");
    synced_mem *const grad = data ? make_object(blob, count, "grad") : NULL;
    if (!grad) {
        synced_mem_release(data);
        return false;
    }
    synced_mem_release(blob->data);
    synced_mem_release(blob->grad);
    blob->data = data;
    blob->grad = grad;
    blob->capacity = count;
    return true;
}

struct blob blob_make(const char *name, int device)
{
    return (struct blob){.name = name, .device = device};
}

bool blob_reshape(struct blob *blob, int dims, const int shape[])
{
    assert(dims >= 1 && dims <= BLOB_MAX_DIMS);

    int count = 1;
    for (int i = 0; i < dims; ++i) {
        assert(shape[i] > 0);
        if (count > INT_MAX / shape[i])
            return fail("%s: more than %d elements", blob->name, INT_MAX);
        count *= shape[i];
    }
    if (count > blob->capacity && !replace_objects(blob, count))
        return false;
    blob->dims = dims;
    for (int i = 0; i < dims; ++i)
        blob->shape[i] = shape[i];
    blob->count = count;
    return true;
}

bool blob_vector(struct blob *blob, int length)
{
    return blob_reshape(blob, 1, (const int[]){length});
}

bool blob_matrix(struct blob *blob, int rows, int columns)
{
    return blob_reshape(blob, 2, (const int[]){rows, columns});
}

void blob_free(struct blob *blob)
{
    synced_mem_release(blob->data);
    synced_mem_release(blob->grad);
    *blob = (struct blob){0};
}
