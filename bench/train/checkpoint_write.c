/*
 * Checkpoints that are written beside the training. The parameters are pulled, because the next step, which changes
 * those on the device, would wait for a write of these. The library's threads write the pulled ones. A thread of this
 * file waits for them, adds header and checksum, and renames the file when it is on the disk.
 */
#include "checkpoint.h"
#include "checkpoint_format.h"
#include "failure.h"

#include "synced_mem/files.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

struct checkpoint_writing {
    pthread_t thread;
    char *path;
    char *partial; /* the name until the file is complete */
    int descriptor;
    synced_mem_file *file;
    uint64_t header[HEADER_WORDS];
    bool done; /* of the thread: it has succeeded */
};

/* ---- The folder ---- */

/* Returns the folder's descriptor, or -1. */
static int open_folder(const char *path)
{
    char *const copy = strdup(path);
    const int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder < 0)
        checkpoint_fail(path, "its folder cannot be opened");
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
    const bool done =
        faccessat(folder, ".", W_OK | X_OK, 0) == 0 || checkpoint_fail(path, "its folder cannot be written");
    close(folder);
    return done;
}

/* The new name is on the disk when its folder is. */
static bool sync_folder(const char *path)
{
    const int folder = open_folder(path);
    if (folder < 0)
        return false;
    const bool done = fsync(folder) == 0 || errno == EINVAL || checkpoint_fail(path, "its folder cannot be written");
    close(folder);
    return done;
}

/* ---- The thread ---- */

static bool write_at(const struct checkpoint_writing *writing, const void *data, size_t size, size_t offset)
{
    const char *from = data;
    while (size > 0) {
        const ssize_t wrote = pwrite(writing->descriptor, from, size, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return checkpoint_fail(writing->partial, "cannot be written");
        from += wrote;
        size -= (size_t)wrote;
        offset += (size_t)wrote;
    }
    return true;
}

/* Adds the bytes of the file from begin to end to the sum. They are in the system's cache. */
static bool sum_file(const struct checkpoint_writing *writing, size_t begin, size_t end, uint64_t *sum)
{
    unsigned char *const bytes = malloc(CHUNK);
    if (!bytes)
        return fail("%s: out of memory for %d bytes", writing->partial, CHUNK);
    while (begin < end) {
        const size_t wanted = end - begin < CHUNK ? end - begin : CHUNK;
        const ssize_t got = pread(writing->descriptor, bytes, wanted, (off_t)begin);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *sum = checkpoint_sum(*sum, bytes, (size_t)got);
        begin += (size_t)got;
    }
    free(bytes);
    return begin == end || fail("%s: cannot be read again", writing->partial);
}

static bool complete(const struct checkpoint_writing *writing)
{
    const size_t header_length = sizeof writing->header;
    const size_t end = (size_t)writing->header[LENGTH] - sizeof(file_sum);
    file_sum sum = checkpoint_sum(0, writing->header, header_length);
    if (synced_mem_file_wait(writing->file) != SYNCED_MEM_OK)
        return fail_library(writing->partial);
    if (!sum_file(writing, header_length, end, &sum) || !write_at(writing, writing->header, header_length, 0) ||
        !write_at(writing, &sum, sizeof sum, end))
        return false;
    if (fsync(writing->descriptor) != 0)
        return checkpoint_fail(writing->partial, "cannot be written");
    return rename(writing->partial, writing->path) == 0 || checkpoint_fail(writing->path, "cannot be replaced");
}

static void *run_thread(void *argument)
{
    struct checkpoint_writing *const writing = argument;
    writing->done = complete(writing);
    if (!writing->done)
        unlink(writing->partial);
    writing->done = writing->done && sync_folder(writing->path);
    return NULL;
}

/* ---- The begin, and the end ---- */

/* Pulls the parameters that only the device has. */
static bool pull_parameters(struct model *model)
{
    synced_mem *pulled[MODEL_MAX_PARAMETERS];
    size_t count = 0;
    for (int i = 0; i < model->count; ++i) {
        synced_mem *const data = model->parameters[i].data;
        if (synced_mem_head(data) == SYNCED_MEM_AT_GPU)
            pulled[count++] = data;
    }
    return synced_mem_async_cpu_pull_n(pulled, count, model->backend->stream) == SYNCED_MEM_OK ||
           fail_library("pull of the parameters");
}

static bool write_parameters(struct model *model, synced_mem_file *file)
{
    synced_mem *list[MODEL_MAX_PARAMETERS];
    uint64_t offsets[MODEL_MAX_PARAMETERS];
    uint64_t offset = HEADER_WORDS * sizeof(uint64_t);
    for (int i = 0; i < model->count; ++i) {
        list[i] = model->parameters[i].data;
        offsets[i] = offset;
        offset += (uint64_t)model->parameters[i].count * BLOB_ELEMENT;
    }
    return synced_mem_async_write_file_n(list, file, offsets, (size_t)model->count, SYNCED_MEM_NO_STREAM) ==
               SYNCED_MEM_OK ||
           fail_library("checkpoint");
}

static void fill_header(uint64_t header[HEADER_WORDS], const struct checkpoint *checkpoint,
                        const struct model_shape *shape, const struct text *text)
{
    header[MAGIC] = CHECKPOINT_MAGIC;
    header[VERSION] = CHECKPOINT_VERSION;
    header[LENGTH] = checkpoint_length(model_shape_parameters(shape));
    header[VOCABULARY] = (uint64_t)shape->vocabulary;
    header[CONTEXT] = (uint64_t)shape->context;
    header[EMBED] = (uint64_t)shape->embed;
    header[HIDDEN] = (uint64_t)shape->hidden;
    header[LAYERS] = (uint64_t)shape->layers;
    header[SYMBOLS] = checkpoint_sum(0, text->symbols, sizeof text->symbols);
    header[SEED] = checkpoint->seed;
    header[BATCHES] = checkpoint->batches;
    header[STEP] = (uint64_t)checkpoint->step;
    header[HEADER_SUM] = checkpoint_sum(0, header, HEADER_SUM * sizeof header[0]);
}

static bool name_files(struct checkpoint_writing *writing, const char *path)
{
    static const char suffix[] = ".partial";
    const size_t length = strlen(path) + sizeof suffix;
    writing->path = strdup(path);
    writing->partial = malloc(length);
    if (!writing->path || !writing->partial)
        return fail("%s: out of memory", path);
    snprintf(writing->partial, length, "%s%s", path, suffix);
    return true;
}

static bool open_file(struct checkpoint_writing *writing)
{
    writing->descriptor = open(writing->partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writing->descriptor < 0)
        return checkpoint_fail(writing->partial, "cannot be opened");
    return synced_mem_file_open(&writing->file, writing->descriptor) == SYNCED_MEM_OK || fail_library(writing->partial);
}

/* Also of what was opened in part. */
static void free_writing(struct checkpoint_writing *writing)
{
    if (writing->file)
        (void)synced_mem_file_release(writing->file);
    if (writing->descriptor >= 0)
        close(writing->descriptor);
    free(writing->partial);
    free(writing->path);
    free(writing);
}

static bool begin(struct checkpoint_writing *writing, const char *path, struct model *model)
{
    if (!name_files(writing, path) || !open_file(writing))
        return false;
    if (!pull_parameters(model) || !write_parameters(model, writing->file)) {
        unlink(writing->partial);
        return false;
    }
    if (pthread_create(&writing->thread, NULL, run_thread, writing) == 0)
        return true;
    (void)synced_mem_file_wait(writing->file);
    unlink(writing->partial);
    return fail("%s: the system has no thread for it", path);
}

bool checkpoint_begin_write(const struct checkpoint *checkpoint, const char *path, struct model *model,
                            const struct text *text, struct checkpoint_writing **out)
{
    if (!checkpoint_end_write(out))
        return false;
    struct checkpoint_writing *const writing = calloc(1, sizeof *writing);
    if (!writing)
        return fail("%s: out of memory", path);
    writing->descriptor = -1;
    fill_header(writing->header, checkpoint, &model->shape, text);
    if (!begin(writing, path, model)) {
        free_writing(writing);
        return false;
    }
    *out = writing;
    return true;
}

bool checkpoint_end_write(struct checkpoint_writing **writing)
{
    struct checkpoint_writing *const ended = *writing;
    *writing = NULL;
    if (!ended)
        return true;
    pthread_join(ended->thread, NULL);
    const bool done = ended->done;
    free_writing(ended);
    return done;
}
