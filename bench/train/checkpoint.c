/* Checkpoints: a file with the parameters, the seed and the number of steps done. */
#include "checkpoint.h"

#include "failure.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    MAGIC,
    VERSION,
    LENGTH, /* of the file, in bytes */
    VOCABULARY,
    CONTEXT,
    EMBED,
    HIDDEN,
    LAYERS,
    SYMBOLS, /* checksum of the text's characters */
    SEED,
    BATCHES,
    STEP,
    HEADER_SUM, /* checksum of all before it */
    HEADER_WORDS
};

static const uint64_t magic = UINT64_C(0x31656c6974706d73); /* its bytes show whether the byte order is the same */
static const uint64_t version = 1;

/* The checksum at the end of the file. */
typedef uint64_t file_sum;

static uint64_t checksum(uint64_t before, const void *data, size_t size)
{
    return crc32_z((uLong)before, data, size);
}

static size_t file_length(size_t parameters)
{
    return HEADER_WORDS * sizeof(uint64_t) + parameters * sizeof(float) + sizeof(file_sum);
}

static bool fail_file(const char *path, const char *what)
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
        fail_file(path, "cannot be read");
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
    if (header[MAGIC] != magic || header[VERSION] != version)
        return fail("%s: not a checkpoint of this version of the trainer, or of a machine of another byte order", path);
    if (header[HEADER_SUM] != checksum(0, bytes, HEADER_SUM * sizeof(uint64_t)))
        return fail("%s: damaged: the checksum of the header differs", path);
    if (header[LENGTH] != length)
        return fail("%s: %s: %zu bytes instead of %llu", path, header[LENGTH] > length ? "cut short" : "damaged",
                    length, (unsigned long long)header[LENGTH]);
    file_sum sum;
    memcpy(&sum, bytes + length - sizeof sum, sizeof sum);
    if (sum != checksum(0, bytes, length - sizeof sum))
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
    if (header[SYMBOLS] != checksum(0, text->symbols, sizeof text->symbols))
        return fail("%s: of a text with other characters", path);
    if (header[LENGTH] != file_length(model_shape_parameters(shape)) || header[STEP] > INT_MAX)
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
        return fail_file(path, "cannot be opened");
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

/* ---- Writing ---- */

static bool write_bytes(FILE *stream, const void *data, size_t size, uint64_t *sum, const char *path)
{
    *sum = checksum(*sum, data, size);
    return fwrite(data, 1, size, stream) == size || fail_file(path, "cannot be written");
}

static bool write_header(const struct checkpoint *checkpoint, FILE *stream, const struct model_shape *shape,
                         const struct text *text, uint64_t *sum, const char *path)
{
    uint64_t header[HEADER_WORDS] = {
        [MAGIC] = magic,
        [VERSION] = version,
        [LENGTH] = file_length(model_shape_parameters(shape)),
        [VOCABULARY] = (uint64_t)shape->vocabulary,
        [CONTEXT] = (uint64_t)shape->context,
        [EMBED] = (uint64_t)shape->embed,
        [HIDDEN] = (uint64_t)shape->hidden,
        [LAYERS] = (uint64_t)shape->layers,
        [SYMBOLS] = checksum(0, text->symbols, sizeof text->symbols),
        [SEED] = checkpoint->seed,
        [BATCHES] = checkpoint->batches,
        [STEP] = (uint64_t)checkpoint->step,
    };
    header[HEADER_SUM] = checksum(0, header, HEADER_SUM * sizeof header[0]);
    return write_bytes(stream, header, sizeof header, sum, path);
}

static bool write_parameters(FILE *stream, struct model *model, uint64_t *sum, const char *path)
{
    for (int i = 0; i < model->count; ++i) {
        const struct blob *const parameter = &model->parameters[i];
        const void *const data = synced_mem_cpu_data(parameter->data);
        if (!data)
            return fail_library(parameter->name);
        if (!write_bytes(stream, data, (size_t)parameter->count * BLOB_ELEMENT, sum, path))
            return false;
    }
    return true;
}

static bool write_file(const struct checkpoint *checkpoint, struct model *model, const struct text *text,
                       const char *path)
{
    FILE *const stream = fopen(path, "wb");
    if (!stream)
        return fail_file(path, "cannot be opened");
    uint64_t sum = 0, ignored = 0;
    bool done = write_header(checkpoint, stream, &model->shape, text, &sum, path) &&
                write_parameters(stream, model, &sum, path) && write_bytes(stream, &sum, sizeof sum, &ignored, path);
    if (done && (fflush(stream) != 0 || fsync(fileno(stream)) != 0))
        done = fail_file(path, "cannot be written");
    if (fclose(stream) != 0 && done)
        done = fail_file(path, "cannot be written");
    return done;
}

/* Returns the folder's descriptor, or -1. */
static int open_folder(const char *path)
{
    char *const copy = strdup(path);
    const int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder < 0)
        fail_file(path, "its folder cannot be opened");
    free(copy);
    return folder;
}

bool checkpoint_can_write(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return fail("%s: not a regular file, and would be replaced", path);
    const int folder = open_folder(path);
    if (folder < 0)
        return false;
    const bool done = faccessat(folder, ".", W_OK | X_OK, 0) == 0 || fail_file(path, "its folder cannot be written");
    close(folder);
    return done;
}

/* The new name is on the disk when its folder is. */
static bool sync_folder(const char *path)
{
    const int folder = open_folder(path);
    if (folder < 0)
        return false;
    const bool done = fsync(folder) == 0 || errno == EINVAL || fail_file(path, "its folder cannot be written");
    close(folder);
    return done;
}

bool checkpoint_write(const struct checkpoint *checkpoint, const char *path, struct model *model,
                      const struct text *text)
{
    static const char suffix[] = ".partial";
    const size_t length = strlen(path) + sizeof suffix;
    char *const partial = malloc(length);
    if (!partial)
        return fail("%s: out of memory", path);
    snprintf(partial, length, "%s%s", path, suffix);
    bool done = write_file(checkpoint, model, text, partial);
    if (done && rename(partial, path) != 0)
        done = fail_file(path, "cannot be replaced");
    if (!done)
        unlink(partial);
    free(partial);
    return done && sync_folder(path);
}
