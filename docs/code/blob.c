/* A blob: a shape, its values, and the gradient of the loss with respect to the values. */
#include "blob.h"

#include <stdint.h>
#include <stdio.h>

/* [make] */
static synced_mem *make_part(const char *name, const char *part, int device)
{
    char full_name[48];
    snprintf(full_name, sizeof full_name, "%s.%s", name, part);

    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = device;
    options.name = full_name; /* the library copies the name and shows it in error messages */

    synced_mem *part_mem;
    return synced_mem_create(&part_mem, 0, &options) == SYNCED_MEM_OK ? part_mem : NULL;
}

bool blob_make(struct blob *blob, const char *name, int device)
{
    const struct blob made = {.data = make_part(name, "data", device), .grad = make_part(name, "grad", device)};
    if (!made.data || !made.grad) {
        synced_mem_release(made.data); /* NULL is ignored */
        synced_mem_release(made.grad);
        return false;
    }
    *blob = made;
    return true;
}
/* [end] */

/* [reshape] */
bool blob_reshape(struct blob *blob, int dims, const int shape[])
{
    size_t count = 1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && count > SIZE_MAX / sizeof(float) / (size_t)shape[i]))
            return false;
        count *= (size_t)shape[i];
    }
    /* Discards the contents. Memory with room for the new size stays. synced_mem_resize() would keep the contents. */
    const size_t before = blob_bytes(blob);
    if (synced_mem_resize_discard(blob->data, count * sizeof(float)) != SYNCED_MEM_OK)
        return false;
    if (synced_mem_resize_discard(blob->grad, count * sizeof(float)) != SYNCED_MEM_OK) {
        (void)synced_mem_resize_discard(blob->data, before);
        return false;
    }
    blob->count = count;
    blob->dims = dims;
    for (int i = 0; i < dims; i++)
        blob->shape[i] = shape[i];
    return true;
}
/* [end] */

/* [share] */
bool blob_share_data(struct blob *blob, const struct blob *other)
{
    if (other->count != blob->count || synced_mem_retain(other->data) != SYNCED_MEM_OK)
        return false;
    synced_mem_release(blob->data);
    blob->data = other->data;
    return true;
}
/* [end] */

/* [free] */
void blob_free(struct blob *blob)
{
    synced_mem_release(blob->data); /* work may be in flight: the library frees the memory after it */
    synced_mem_release(blob->grad);
    *blob = (struct blob){.data = NULL};
}
/* [end] */

size_t blob_bytes(const struct blob *blob)
{
    return blob->count * sizeof(float);
}
