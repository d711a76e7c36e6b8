/* A tensor: a shape, data and gradient, each in a synced_mem object or a view of one. */
#include "blob.h"

#include "failure.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>

enum { NAME = 48 };

/* The library copies the name. */
static synced_mem_options named(const struct blob *blob, const char *part, char name[NAME])
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    snprintf(name, NAME, "%s.%s", blob->name, part);
    options.name = name;
    return options;
}

static synced_mem *make_object(const struct blob *blob, int count, const char *part,
                               const synced_mem_allocator *gpu_allocator)
{
    char name[NAME];
    synced_mem_options options = named(blob, part, name);
    options.device = blob->device;
    options.gpu_allocator = gpu_allocator;
    options.evictable = blob->evictable;

    synced_mem *object = NULL;
    if (synced_mem_create(&object, (size_t)count * BLOB_ELEMENT, &options) != SYNCED_MEM_OK)
        fail_library(name);
    return object;
}

static synced_mem *make_view(const struct blob *blob, synced_mem *of, int first, int count, const char *part)
{
    char name[NAME];
    const synced_mem_options options = named(blob, part, name);

    synced_mem *view = NULL;
    if (synced_mem_view(&view, of, (size_t)first * BLOB_ELEMENT, (size_t)count * BLOB_ELEMENT, &options) !=
        SYNCED_MEM_OK)
        fail_library(name);
    return view;
}

/* Takes over both objects, also if it fails because one of them is NULL. */
static bool replace_objects(struct blob *blob, synced_mem *data, synced_mem *grad, int count)
{
    if (!data || !grad) {
        synced_mem_release(data);
        synced_mem_release(grad);
        return false;
    }
    synced_mem_release(blob->data);
    synced_mem_release(blob->grad);
    blob->data = data;
    blob->grad = grad;
    blob->capacity = count;
    return true;
}

static bool make_objects(struct blob *blob, int count)
{
    synced_mem *const data = make_object(blob, count, "data", NULL);
    synced_mem *const grad = data ? make_object(blob, count, "grad", blob->gpu_allocator) : NULL;
    return replace_objects(blob, data, grad, count);
}

static bool make_views(struct blob *blob, const struct blob *of, int first, int count)
{
    synced_mem *const data = make_view(blob, of->data, first, count, "data");
    synced_mem *const grad = data ? make_view(blob, of->grad, first, count, "grad") : NULL;
    return replace_objects(blob, data, grad, count);
}

struct blob blob_make(const char *name, int device)
{
    return (struct blob){.name = name, .device = device};
}

static bool count_elements(const struct blob *blob, int dims, const int shape[], int *count)
{
    assert(dims >= 1 && dims <= BLOB_MAX_DIMS);

    *count = 1;
    for (int i = 0; i < dims; ++i) {
        assert(shape[i] > 0);
        if (*count > INT_MAX / shape[i])
            return fail("%s: more than %d elements", blob->name, INT_MAX);
        *count *= shape[i];
    }
    return true;
}

static void set_shape(struct blob *blob, int dims, const int shape[], int count)
{
    blob->dims = dims;
    for (int i = 0; i < dims; ++i)
        blob->shape[i] = shape[i];
    blob->count = count;
}

bool blob_reshape(struct blob *blob, int dims, const int shape[])
{
    int count;
    if (!count_elements(blob, dims, shape, &count) || (count > blob->capacity && !make_objects(blob, count)))
        return false;
    set_shape(blob, dims, shape, count);
    return true;
}

bool blob_view(struct blob *blob, const struct blob *of, int first, int dims, const int shape[])
{
    int count;
    if (!count_elements(blob, dims, shape, &count) || !make_views(blob, of, first, count))
        return false;
    set_shape(blob, dims, shape, count);
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
