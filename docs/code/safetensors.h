/* Files of the format safetensors, as objects whose contents are in the file. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stdbool.h>
#include <synced_mem.h>

struct cJSON;

/* A tensor of a file. */
struct safetensor {
    const char *name;
    const char *dtype; /* as the format names it: "BF16" */
    unsigned bits;     /* of an element */
    const uint64_t *shape;
    size_t dimensions;
    uint64_t begin, end; /* its place in the bytes behind the header */
    synced_mem *mem;
};

/* A text of the header, by name. */
struct safetensors_text {
    const char *name, *text;
};

/* A file. Names and texts are UTF-8, without NUL. */
struct safetensors {
    struct safetensor *tensors; /* in the order of their places */
    size_t count;
    struct safetensors_text *metadata;
    size_t texts;
    synced_mem *whole;  /* the root of the views; NULL if there are none */
    struct cJSON *tree; /* has the names and texts */
    uint64_t *numbers;  /* has the shapes */
    size_t numbers_used;
    char message[320]; /* why the file was refused */
};

/* The objects of the tensors */
enum safetensors_objects {
    SAFETENSORS_VIEWS,  /* views of one object over the file, and an object for each tensor that lies askew */
    SAFETENSORS_OBJECTS /* an object for each tensor, which can leave the device by itself */
};

/* Makes an object for each tensor of the file. Reads its header alone. Returns false, with a message and nothing else
 * in loaded, if the file is malformed or can't be read. */
bool safetensors_load(struct safetensors *loaded, const char *path, enum safetensors_objects objects);

/* Releases the objects and the rest. */
void safetensors_release(struct safetensors *loaded);

/* Reads a header, with a NUL behind its text, of a file that has size bytes behind it: all but the objects. */
bool safetensors_parse(struct safetensors *loaded, const char *text, size_t length, uint64_t size);

/* Sets the message, and returns false. */
bool safetensors_refuse(struct safetensors *loaded, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
