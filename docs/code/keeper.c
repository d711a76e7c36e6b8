/*
 * Weights that outlive their process. A keeper loads a model once, and gives it to servers, which may crash and start
 * again.
 *
 *     keeper keep FOLDER LIST DATA    loads the tensors of the file DATA that LIST names, and keeps them until it is
 *                                     killed. A line of LIST: name type offset bytes dimension...
 *     keeper serve FOLDER [DATA]      gets the weights, and waits. Compares them with DATA, again for each line of
 *                                     input. "spoil" instead of "serve" tries to write them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct ucred */
#endif
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DIMENSIONS = 8, NAME = 128, TYPE = 16, ALIGNMENT = 256, CHUNK = 16 << 20, TIMEOUT_MS = 1000 };

static const uint64_t MAGIC = 0x737468676965774b; /* "Kweights" */

struct tensor {
    char name[NAME];
    char type[TYPE];
    uint64_t in_file; /* where it begins there */
    uint64_t offset;  /* where it begins in the weights */
    uint64_t bytes;
    uint64_t ndim;
    uint64_t shape[MOST_DIMENSIONS];
};

/* [manifest] */
/* The contents of an object on the host alone, which goes with the weights. */
struct manifest {
    uint64_t magic;
    uint64_t count;
    uint64_t bytes; /* of the weights */
    struct tensor tensors[];
};
/* [end] */

static _Noreturn void fail(const char *what, const char *name)
{
    fprintf(stderr, "keeper: %s: %s\n", name, what);
    exit(EXIT_FAILURE);
}

static synced_mem_side get_side(void)
{
    return synced_mem_device_count() > 0 ? SYNCED_MEM_SIDE_GPU : SYNCED_MEM_SIDE_CPU;
}

static size_t get_part(uint64_t bytes, uint64_t done)
{
    return bytes - done < CHUNK ? (size_t)(bytes - done) : CHUNK;
}

/* ---- The list ---- */

static uint64_t parse_number(char **rest, const char *line)
{
    char *end = NULL;
    const char *const word = strtok_r(NULL, " \n", rest);
    errno = 0;
    const unsigned long long number = word ? strtoull(word, &end, 10) : 0;
    if (!word || *end || *word == '-' || errno != 0)
        fail("a number is missing or malformed, or the name has a space", line);
    return number;
}

static struct tensor parse_line(char *line)
{
    struct tensor tensor = {.ndim = 0};
    char *rest;
    const char *const name = strtok_r(line, " \n", &rest);
    const char *const type = strtok_r(NULL, " \n", &rest);
    if (!name || !type)
        fail("a line needs a name, a type, an offset and a number of bytes", name ? name : "");
    if (strlen(name) >= NAME || strlen(type) >= TYPE)
        fail("the name has more than 127 bytes, or the type more than 15", name);
    strcpy(tensor.name, name);
    strcpy(tensor.type, type);
    tensor.in_file = parse_number(&rest, name);
    tensor.bytes = parse_number(&rest, name);
    while (*(rest += strspn(rest, " \n"))) {
        if (tensor.ndim == MOST_DIMENSIONS)
            fail("too many dimensions", name);
        tensor.shape[tensor.ndim++] = parse_number(&rest, name);
    }
    return tensor;
}

/* Reads the list, and lays out the weights. */
static struct manifest *read_list(const char *path, uint64_t file_bytes)
{
    struct manifest *manifest = calloc(1, sizeof *manifest);
    FILE *const list = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    if (!list)
        fail(strerror(errno), path);
    while (getline(&line, &room, list) > 0) {
        struct tensor tensor = parse_line(line);
        if (tensor.in_file > file_bytes || tensor.bytes > file_bytes - tensor.in_file)
            fail("the file is too short", tensor.name);
        tensor.offset = manifest->bytes;
        manifest->bytes += (tensor.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        manifest = realloc(manifest, sizeof *manifest + (manifest->count + 1) * sizeof tensor);
        CHECK(manifest);
        manifest->tensors[manifest->count++] = tensor;
    }
    manifest->magic = MAGIC;
    free(line);
    fclose(list);
    return manifest;
}

/* ---- Loading ---- */

static synced_mem *make_shareable(size_t bytes, int device)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    options.device = device;
    CHECK(synced_mem_create(&mem, bytes, &options) == SYNCED_MEM_OK); /* in this process's turn to write */
    return mem;
}

/* [load] */
/* A private object of at most 16 MiB reads a part of the file, straight to the device if there is one. */
static void load_part(synced_mem *weights, uint64_t offset, size_t bytes, synced_mem_file *file, uint64_t in_file)
{
    synced_mem *part, *chunk;
    CHECK(synced_mem_view(&part, weights, (size_t)offset, bytes, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_create(&chunk, bytes, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_use_file(chunk, file, in_file) == SYNCED_MEM_OK);
    if (get_side() == SYNCED_MEM_SIDE_GPU)
        CHECK(synced_mem_async_gpu_copy(part, chunk, SYNCED_MEM_STREAM_LIBRARY) == SYNCED_MEM_OK);
    else
        CHECK(synced_mem_cpu_copy(part, chunk) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(chunk) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(part) == SYNCED_MEM_OK);
}

/* All bytes become valid on one side, also those between tensors. Otherwise the end of the turn would bring the
 * contents to the host. */
static synced_mem *load_weights(const struct manifest *manifest, synced_mem_file *file)
{
    const bool has_gpu = get_side() == SYNCED_MEM_SIDE_GPU;
    synced_mem *const weights = make_shareable((size_t)manifest->bytes, has_gpu ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    CHECK(has_gpu ? synced_mem_overwrite_gpu_data(weights) : synced_mem_overwrite_cpu_data(weights));
    for (uint64_t i = 0; i < manifest->count; i++) {
        const struct tensor *const tensor = &manifest->tensors[i];
        for (uint64_t done = 0; done < tensor->bytes; done += CHUNK)
            load_part(weights, tensor->offset + done, get_part(tensor->bytes, done), file, tensor->in_file + done);
    }
    return weights;
}

/* A turn to read that never ends makes the contents immutable. */
static void keep_for_good(synced_mem *mem, synced_mem_side side)
{
    CHECK(synced_mem_end_turn(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_begin_turn(mem, side, SYNCED_MEM_TURN_READ, TIMEOUT_MS) == SYNCED_MEM_OK);
}
/* [end] */

static synced_mem *make_manifest(const struct manifest *manifest)
{
    const size_t bytes = sizeof *manifest + (size_t)manifest->count * sizeof manifest->tensors[0];
    synced_mem *const mem = make_shareable(bytes, SYNCED_MEM_DEVICE_CURRENT);
    void *const data = synced_mem_overwrite_cpu_data(mem);
    CHECK(data);
    memcpy(data, manifest, bytes);
    return mem;
}

static synced_mem_file *open_data(const char *path, uint64_t *bytes)
{
    synced_mem_file *file;
    struct stat facts;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0)
        fail(strerror(errno), path);
    CHECK(synced_mem_file_open(&file, fd) == SYNCED_MEM_OK);
    close(fd);
    *bytes = (uint64_t)facts.st_size;
    return file;
}

/* ---- The folder and its socket ---- */

/* The folder is this user's alone, so nobody else can put a socket there. */
static void enter_folder(const char *folder, bool makes_it)
{
    struct stat facts;
    if (makes_it && mkdir(folder, 0700) != 0 && errno != EEXIST)
        fail(strerror(errno), folder);
    if (lstat(folder, &facts) != 0)
        fail(strerror(errno), folder);
    if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 07777) != 0700)
        fail("the folder is another user's, or has not the mode 0700", folder);
    if (chdir(folder) != 0)
        fail(strerror(errno), folder);
}

/* The lock ends with the process, so a socket that is there under the lock is a dead keeper's. */
static void lock_folder(void)
{
    const int lock = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0)
        fail(errno == EWOULDBLOCK ? "another keeper has the folder" : strerror(errno), "lock");
}

static struct sockaddr_un get_address(void)
{
    return (struct sockaddr_un){.sun_family = AF_UNIX, .sun_path = "socket"};
}

static int open_socket(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    return fd;
}

static int listen_in_folder(void)
{
    const struct sockaddr_un address = get_address();
    const int listener = open_socket();
    const mode_t mask = umask(0177); /* the socket gets the mode 0600 */
    unlink(address.sun_path);
    CHECK(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0);
    umask(mask);
    CHECK(listen(listener, 64) == 0);
    return listener;
}

static bool is_of_this_user(int connection)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* ---- The keeper ---- */

/* [give] */
static void give(int connection, synced_mem *manifest, synced_mem *weights)
{
    if (!is_of_this_user(connection))
        fprintf(stderr, "keeper: another user was refused\n");
    else if (synced_mem_share(manifest, connection, TIMEOUT_MS) != SYNCED_MEM_OK ||
             synced_mem_share(weights, connection, TIMEOUT_MS) != SYNCED_MEM_OK)
        fprintf(stderr, "keeper: %s\n", synced_mem_last_error_message()); /* the server may have died */
    close(connection);
}
/* [end] */

static void keep(const char *folder, const char *list, const char *data)
{
    uint64_t bytes;
    synced_mem_file *const file = open_data(data, &bytes);
    struct manifest *const layout = read_list(list, bytes);
    enter_folder(folder, true);
    lock_folder();
    synced_mem *const weights = load_weights(layout, file);
    synced_mem *const manifest = make_manifest(layout);
    keep_for_good(weights, get_side());
    keep_for_good(manifest, SYNCED_MEM_SIDE_CPU);
    CHECK(synced_mem_file_release(file) == SYNCED_MEM_OK);
    const int listener = listen_in_folder();
    printf("keeps %llu tensors, %llu bytes\n", (unsigned long long)layout->count, (unsigned long long)layout->bytes);
    fflush(stdout);
    free(layout);
    for (;;) {
        const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0)
            give(connection, manifest, weights);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            usleep(10000);
    }
}

/* ---- A server ---- */

struct model {
    synced_mem *manifest, *weights;
    const struct manifest *facts;
    synced_mem **views; /* one for each tensor */
    const void **data;
};

/* The keeper is trusted as far as its user is. The manifest is checked all the same, as any input. */
static void check_manifest(const struct model *model)
{
    const struct manifest *const facts = model->facts;
    const size_t size = synced_mem_size(model->manifest);
    CHECK(size >= sizeof *facts && facts->magic == MAGIC && facts->bytes == synced_mem_size(model->weights));
    CHECK(facts->count == (size - sizeof *facts) / sizeof facts->tensors[0]);
    for (uint64_t i = 0; i < facts->count; i++) {
        const struct tensor *const tensor = &facts->tensors[i];
        CHECK(tensor->offset <= facts->bytes && tensor->bytes <= facts->bytes - tensor->offset);
        CHECK(memchr(tensor->name, 0, NAME) && memchr(tensor->type, 0, TYPE) && tensor->ndim <= MOST_DIMENSIONS);
    }
}

static int connect_to_keeper(void)
{
    const struct sockaddr_un address = get_address();
    const int connection = open_socket();
    if (connect(connection, (const struct sockaddr *)&address, sizeof address) != 0)
        fail(strerror(errno), address.sun_path);
    return connection;
}

/* [get] */
static void get_model(struct model *model, int connection)
{
    const synced_mem_side side = get_side();
    CHECK(synced_mem_receive(&model->manifest, connection, TIMEOUT_MS) == SYNCED_MEM_OK);
    CHECK(synced_mem_receive(&model->weights, connection, TIMEOUT_MS) == SYNCED_MEM_OK);
    CHECK(synced_mem_begin_turn(model->manifest, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, TIMEOUT_MS) ==
          SYNCED_MEM_OK);
    CHECK(synced_mem_begin_turn(model->weights, side, SYNCED_MEM_TURN_READ, TIMEOUT_MS) == SYNCED_MEM_OK);
    model->facts = synced_mem_cpu_data(model->manifest);
    check_manifest(model);
    model->views = calloc((size_t)model->facts->count + 1, sizeof *model->views);
    model->data = calloc((size_t)model->facts->count + 1, sizeof *model->data);
    CHECK(model->views && model->data);
    if (side == SYNCED_MEM_SIDE_GPU) /* the views inherit that the stream has the pointer: half the work for each */
        CHECK(synced_mem_gpu_data_on(model->weights, NULL) || model->facts->bytes == 0);
    for (uint64_t i = 0; i < model->facts->count; i++) {
        const struct tensor *const tensor = &model->facts->tensors[i];
        CHECK(synced_mem_view(&model->views[i], model->weights, (size_t)tensor->offset, (size_t)tensor->bytes, NULL) ==
              SYNCED_MEM_OK);
        model->data[i] = side == SYNCED_MEM_SIDE_GPU ? synced_mem_gpu_data_on(model->views[i], NULL)
                                                     : synced_mem_cpu_data(model->views[i]);
        CHECK(model->data[i] || tensor->bytes == 0);
    }
}
/* [end] */

/* Compares a part of a tensor with the file. */
static void compare_part(const struct model *model, uint64_t tensor, uint64_t done, size_t bytes, int fd)
{
    synced_mem *part, *own;
    char *const expected = malloc(bytes);
    const off_t at = (off_t)(model->facts->tensors[tensor].in_file + done);
    CHECK(expected && pread(fd, expected, bytes, at) == (ssize_t)bytes);
    CHECK(synced_mem_view(&part, model->views[tensor], (size_t)done, bytes, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_create(&own, bytes, NULL) == SYNCED_MEM_OK);
    if (get_side() == SYNCED_MEM_SIDE_GPU)
        CHECK(synced_mem_async_gpu_copy(own, part, SYNCED_MEM_STREAM_LIBRARY) == SYNCED_MEM_OK);
    else
        CHECK(synced_mem_cpu_copy(own, part) == SYNCED_MEM_OK);
    CHECK(memcmp(synced_mem_cpu_data(own), expected, bytes) == 0);
    CHECK(synced_mem_release(own) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(part) == SYNCED_MEM_OK);
    free(expected);
}

static void compare(const struct model *model, int fd)
{
    for (uint64_t i = 0; fd >= 0 && i < model->facts->count; i++)
        for (uint64_t done = 0; done < model->facts->tensors[i].bytes; done += CHUNK)
            compare_part(model, i, done, get_part(model->facts->tensors[i].bytes, done), fd);
    printf("%llu tensors are right\n", (unsigned long long)model->facts->count);
    fflush(stdout);
}

/* The release ends the turn. */
static void release_received(synced_mem *manifest, synced_mem *weights)
{
    CHECK(synced_mem_release(manifest) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(weights) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
}

static void release_model(struct model *model)
{
    for (uint64_t i = 0; i < model->facts->count; i++)
        CHECK(synced_mem_release(model->views[i]) == SYNCED_MEM_OK);
    free(model->views);
    free(model->data);
    release_received(model->manifest, model->weights);
}

/* The context takes longer than all that follows. */
static void start_cuda(void)
{
    synced_mem *any;
    if (get_side() == SYNCED_MEM_SIDE_CPU)
        return;
    CHECK(synced_mem_create(&any, 1, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_overwrite_gpu_data(any));
    CHECK(synced_mem_release(any) == SYNCED_MEM_OK);
}

static double get_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void serve(const char *folder, const char *data)
{
    struct model model;
    const int fd = data ? open(data, O_RDONLY | O_CLOEXEC) : -1;
    if (data && fd < 0)
        fail(strerror(errno), data);
    enter_folder(folder, false);
    start_cuda();
    const int connection = connect_to_keeper();
    const double begin = get_ms();
    get_model(&model, connection);
    printf("has them after %.2f ms\n", get_ms() - begin);
    close(connection);
    do
        compare(&model, fd);
    while (getchar() != EOF);
    release_model(&model);
    if (fd >= 0)
        close(fd);
}

static void spoil(const char *folder)
{
    synced_mem *manifest, *weights;
    enter_folder(folder, false);
    const int connection = connect_to_keeper();
    CHECK(synced_mem_receive(&manifest, connection, TIMEOUT_MS) == SYNCED_MEM_OK);
    CHECK(synced_mem_receive(&weights, connection, TIMEOUT_MS) == SYNCED_MEM_OK);
    CHECK(synced_mem_begin_turn(weights, get_side(), SYNCED_MEM_TURN_WRITE, 100) == SYNCED_MEM_ERR_TIMEOUT);
    CHECK(synced_mem_begin_consumed_turn(weights, get_side(), 100) == SYNCED_MEM_ERR_TIMEOUT);
    release_received(manifest, weights);
    close(connection);
    printf("can't write them\n");
}

int main(int count, char **words)
{
    if (count == 5 && strcmp(words[1], "keep") == 0)
        keep(words[2], words[3], words[4]);
    else if ((count == 3 || count == 4) && strcmp(words[1], "serve") == 0)
        serve(words[2], count == 4 ? words[3] : NULL);
    else if (count == 3 && strcmp(words[1], "spoil") == 0)
        spoil(words[2]);
    else
        fail("keep FOLDER LIST DATA, or serve FOLDER [DATA]", words[0]);
    return EXIT_SUCCESS;
}
