/* Checkpoints that are read. */
#include "checkpoint.h"

#include "checkpoint_format.h"
#include "failure.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

uint64_t checkpoint_sum(uint64_t before, const void *data, size_t size)
{
    return crc32_z((uLong)before, data, size);
}

size_t checkpoint_length(size_t parameters)
{
    return HEADER_WORDS * sizeof(uint64_t) + parameters * sizeof(float) + sizeof(file_sum);
}

bool checkpoint_fail(const char *path, const char *what)
{
    return fail("%s: %s: %s", path, what, strerror(errno));
}

/* ---- Reading ---- */

/* Returns the bytes of the whole file, or NULL. */
static unsigned char *read_bytes(FILE *stream, const char *path, size_t *length)
{
    struct stat status;
    if (fstat(fileno(stream), &status) != 0 || !S_ISREG(status.st_mode)) {
        fail("%s: not a regular file", path);
        return NULL;
    }
    *length = (size_t)status.st_size;
    unsigned char *const bytes = malloc(*length > 0 ? *length : 1);
    if (!bytes) {
        fail("%s: out of memory for %zu bytes", path, *length);
        return NULL;
    }
    if (fread(bytes, 1, *length, stream) != *length) {
        checkpoint_fail(path, "cannot be read");
        free(bytes);
        return NULL;
    }
    return bytes;
}

static bool check_header(const uint64_t header[HEADER_WORDS], const unsigned char *bytes, size_t length,
                         const char *path)
{
    const size_t header_length = HEADER_WORDS * sizeof(uint64_t);
    if (length < header_length + sizeof(file_sum))
        return fail("%s: not a checkpoint, or cut short: %zu bytes", path, length);
    if (header[MAGIC] != CHECKPOINT_MAGIC || header[VERSION] != CHECKPOINT_VERSION)
        return fail("%s: not a checkpoint of this version of the trainer, or of a machine of another byte order", path);
    if (header[HEADER_SUM] != checkpoint_sum(0, bytes, HEADER_SUM * sizeof(uint64_t)))
        return fail("%s: damaged: the checksum of the header differs", path);
    if (header[LENGTH] != length)
        return fail("%s: %s: %zu bytes instead of %llu", path, header[LENGTH] > length ? "cut short" : "damaged",
                    length, (unsigned long long)header[LENGTH]);
    file_sum sum;
    memcpy(&sum, bytes + length - sizeof sum, sizeof sum);
    if (sum != checkpoint_sum(0, bytes, length - sizeof sum))
        return fail("%s: damaged: the checksum differs", path);
    return true;
}

static bool check_model(const uint64_t header[HEADER_WORDS], const struct model_shape *shape, const struct text *text,
                        const char *path)
{
    const uint64_t wanted[] = {(uint64_t)shape->vocabulary, (uint64_t)shape->context, (uint64_t)shape->embed,
                               (uint64_t)shape->hidden, (uint64_t)shape->layers};
    if (memcmp(&header[VOCABULARY], wanted, sizeof wanted) != 0)
        return fail("%s: of another model: %d distinct characters, context %d, embedding %d, hidden %d x %d", path,
                    (int)header[VOCABULARY], (int)header[CONTEXT], (int)header[EMBED], (int)header[LAYERS],
                    (int)header[HIDDEN]);
    if (header[SYMBOLS] != checkpoint_sum(0, text->symbols, sizeof text->symbols))
        return fail("%s: of a text with other characters", path);
    if (header[LENGTH] != checkpoint_length(model_shape_parameters(shape)) || header[STEP] > INT_MAX)
        return fail("%s: damaged: the header contradicts itself", path);
    return true;
}

static bool take_contents(struct checkpoint *checkpoint, const unsigned char *bytes, size_t length,
                          const struct model_shape *shape, const struct text *text, const char *path)
{
    uint64_t header[HEADER_WORDS] = {0};
    memcpy(header, bytes, length < sizeof header ? length : sizeof header);
    if (!check_header(header, bytes, length, path) || !check_model(header, shape, text, path))
        return false;
    const size_t count = model_shape_parameters(shape);
    float *const parameters = malloc(count * sizeof *parameters);
    if (!parameters)
        return fail("%s: out of memory for %zu parameters", path, count);
    memcpy(parameters, bytes + sizeof header, count * sizeof *parameters);
    *checkpoint = (struct checkpoint){
        .seed = header[SEED],
        .batches = header[BATCHES],
        .step = (int)header[STEP],
        .parameters = parameters,
        .count = count,
    };
    return true;
}

bool checkpoint_read(struct checkpoint *checkpoint, const char *path, const struct model_shape *shape,
                     const struct text *text)
{
    size_t length;
    FILE *const stream = fopen(path, "rb");
    if (!stream)
        return checkpoint_fail(path, "cannot be opened");
    unsigned char *const bytes = read_bytes(stream, path, &length);
    fclose(stream);
    const bool done = bytes && take_contents(checkpoint, bytes, length, shape, text, path);
    free(bytes);
    return done;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    free(checkpoint->parameters);
    *checkpoint = (struct checkpoint){0};
}

bool checkpoint_share(struct checkpoint *checkpoint, const struct ranks *ranks, const struct model_shape *shape)
{
    if (ranks->rank > 0) {
        checkpoint->count = model_shape_parameters(shape);
        checkpoint->parameters = malloc(checkpoint->count * sizeof *checkpoint->parameters);
        if (!checkpoint->parameters)
            return fail("out of memory for %zu parameters", checkpoint->count);
    }
    return ranks->broadcast(&checkpoint->seed, sizeof checkpoint->seed) &&
           ranks->broadcast(&checkpoint->batches, sizeof checkpoint->batches) &&
           ranks->broadcast(&checkpoint->step, sizeof checkpoint->step) &&
           ranks->broadcast(checkpoint->parameters, checkpoint->count * sizeof *checkpoint->parameters);
}

bool checkpoint_apply(const struct checkpoint *checkpoint, struct model *model)
{
    const float *from = checkpoint->parameters;
    for (int i = 0; i < model->count; ++i) {
        const struct blob *const parameter = &model->parameters[i];
        float *const to = synced_mem_overwrite_cpu_data(parameter->data);
        if (!to)
            return fail_library(parameter->name);
        memcpy(to, from, (size_t)parameter->count * sizeof *to);
        from += parameter->count;
    }
    return true;
}
