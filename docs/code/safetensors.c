/* Makes objects of the tensors in a file of safetensors. */
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH = 8, LONGEST_HEADER = 100000000, LONGEST_NAME = 47 };

/* ---- The header ---- */

static bool read_all(struct safetensors *loaded, int fd, void *to, size_t size, off_t offset)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = pread(fd, (char *)to + done, size - done, offset + (off_t)done);
        if (count <= 0)
            return safetensors_refuse(loaded, "%s", count < 0 ? strerror(errno) : "the file has become shorter");
        done += (size_t)count;
    }
    return true;
}

/* The number is little-endian. */
static uint64_t read_length(const unsigned char *bytes)
{
    uint64_t length = 0;
    for (int i = LENGTH - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    return length;
}

static bool read_text(struct safetensors *loaded, int fd, size_t length, uint64_t size)
{
    char *const text = malloc(length + 1);
    if (!text)
        return safetensors_refuse(loaded, "no memory for a header of %zu bytes", length);
    text[length] = 0;
    const bool read = read_all(loaded, fd, text, length, LENGTH) && safetensors_parse(loaded, text, length, size);
    free(text);
    return read;
}

static bool read_header(struct safetensors *loaded, int fd, uint64_t *begin)
{
    unsigned char bytes[LENGTH];
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return safetensors_refuse(loaded, "%s", strerror(errno));
    const uint64_t size = (uint64_t)facts.st_size;
    if (!S_ISREG(facts.st_mode) || size < LENGTH)
        return safetensors_refuse(loaded, "it is no file of at least 8 bytes");
    if (!read_all(loaded, fd, bytes, sizeof bytes, 0))
        return false;
    const uint64_t length = read_length(bytes);
    if (length > LONGEST_HEADER)
        return safetensors_refuse(loaded, "the header has more than 100 MB");
    if (length > size - LENGTH)
        return safetensors_refuse(loaded, "the file ends within its header");
    *begin = LENGTH + length;
    return read_text(loaded, fd, (size_t)length, size - *begin);
}

/* ---- The objects ---- */

static bool fail(struct safetensors *loaded)
{
    return safetensors_refuse(loaded, "%s", synced_mem_last_error_message());
}

/* Returns the end of a name, as far as the library keeps it. The ends of names differ. */
static const char *shorten(const char *name)
{
    const size_t length = strlen(name);
    const char *end = length > LONGEST_NAME ? name + length - LONGEST_NAME : name;
    while (((unsigned char)*end & 0xc0) == 0x80) /* within a character */
        end++;
    return end;
}

/* [objects] */
/* Makes an object of its own for a tensor. begin is the place of the file's first tensor. */
static bool make_object(struct safetensors *loaded, struct safetensor *tensor, synced_mem_file *file, uint64_t begin)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = shorten(tensor->name);
    return (synced_mem_create(&tensor->mem, tensor->end - tensor->begin, &options) == SYNCED_MEM_OK &&
            synced_mem_use_file(tensor->mem, file, begin + tensor->begin) == SYNCED_MEM_OK) ||
           fail(loaded);
}

/* Makes a view for a tensor. The first one makes the object that has all of the file's tensors. */
static bool make_view(struct safetensors *loaded, struct safetensor *tensor, synced_mem_file *file, uint64_t begin)
{
    const uint64_t all = loaded->tensors[loaded->count - 1].end;
    if (!loaded->whole && (synced_mem_create(&loaded->whole, all, NULL) != SYNCED_MEM_OK ||
                           synced_mem_use_file(loaded->whole, file, begin) != SYNCED_MEM_OK))
        return fail(loaded);
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = shorten(tensor->name);
    return synced_mem_view(&tensor->mem, loaded->whole, tensor->begin, tensor->end - tensor->begin, &options) ==
               SYNCED_MEM_OK ||
           fail(loaded);
}

/* Returns whether a pointer to the tensor's view would not be aligned for its type. Headers may have any length, but
 * the object's memory begins at the first tensor. */
static bool is_askew(const struct safetensor *tensor)
{
    return tensor->bits > 8 && tensor->begin % (tensor->bits / 8) != 0;
}
/* [end] */

static bool make_objects(struct safetensors *loaded, int fd, uint64_t begin, enum safetensors_objects objects)
{
    synced_mem_file *file = NULL;
    bool made = synced_mem_file_open(&file, fd) == SYNCED_MEM_OK || fail(loaded);
    for (size_t i = 0; i < loaded->count && made; i++) {
        struct safetensor *const each = &loaded->tensors[i];
        made = (objects == SAFETENSORS_OBJECTS || is_askew(each) ? make_object : make_view)(loaded, each, file, begin);
        /* No file has an object without bytes, and a push needs a valid copy. */
        if (made && each->begin == each->end)
            made = synced_mem_overwrite_cpu_data(each->mem) || fail(loaded);
    }
    (void)synced_mem_file_release(file); /* objects keep it open */
    return made;
}

bool safetensors_load(struct safetensors *loaded, const char *path, enum safetensors_objects objects)
{
    uint64_t begin = 0;
    memset(loaded, 0, sizeof *loaded);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return safetensors_refuse(loaded, "%s", strerror(errno));
    const bool done = read_header(loaded, fd, &begin) && make_objects(loaded, fd, begin, objects);
    (void)close(fd);
    if (!done)
        safetensors_release(loaded);
    return done;
}

void safetensors_release(struct safetensors *loaded)
{
    for (size_t i = 0; i < loaded->count; i++)
        (void)synced_mem_release(loaded->tensors[i].mem);
    (void)synced_mem_release(loaded->whole);
    free(loaded->tensors);
    free(loaded->metadata);
    free(loaded->numbers);
    cJSON_Delete(loaded->tree);
    loaded->tensors = NULL;
    loaded->metadata = NULL;
    loaded->numbers = NULL;
    loaded->whole = NULL;
    loaded->tree = NULL;
    loaded->count = loaded->texts = loaded->numbers_used = 0;
}
