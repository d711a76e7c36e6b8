/* A model whose weights are in a file, and its checkpoints. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 8, LAYER = 40 << 10, HEADER = 100 };

static void write_weights(const char *path)
{
    FILE *const file = fopen(path, "wb");
    CHECK(file);
    for (int i = 0; i < HEADER; i++)
        CHECK(fputc('h', file) == 'h');
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < LAYER; i++)
            CHECK(fputc(layer + 1, file) == layer + 1);
    CHECK(fclose(file) == 0);
}

/* [open] */
static synced_mem_file *open_file(const char *path)
{
    synced_mem_file *file = NULL;
    const int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK(synced_mem_file_open(&file, fd) == SYNCED_MEM_OK);
    CHECK(close(fd) == 0); /* the library has a descriptor of its own */
    return file;
}
/* [end] */

/* [views] */
struct model {
    synced_mem *whole; /* all of the file behind its header */
    synced_mem *layers[LAYERS];
};

static void make_model(struct model *model, synced_mem_file *weights)
{
    CHECK(synced_mem_create(&model->whole, (size_t)LAYERS * LAYER, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_use_file(model->whole, weights, HEADER) == SYNCED_MEM_OK); /* reads nothing */
    for (size_t i = 0; i < LAYERS; i++)
        CHECK(synced_mem_view(&model->layers[i], model->whole, i * LAYER, LAYER, NULL) == SYNCED_MEM_OK);
}
/* [end] */

static void free_model(struct model *model)
{
    for (int i = 0; i < LAYERS; i++)
        CHECK(synced_mem_release(model->layers[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(model->whole) == SYNCED_MEM_OK);
}

static void read_and_change(struct model *model)
{
    /* [read] */
    const unsigned char *const first = synced_mem_cpu_data(model->layers[0]); /* reads this layer alone */
    CHECK(first && first[0] == 1);
    CHECK(synced_mem_head(model->layers[0]) == SYNCED_MEM_AT_CPU && synced_mem_in_file(model->layers[0]));
    CHECK(synced_mem_head(model->layers[1]) == SYNCED_MEM_UNINITIALIZED && synced_mem_in_file(model->layers[1]));
    /* [end] */

    /* [change] */
    unsigned char *const changed = synced_mem_mutable_cpu_data(model->layers[2]); /* leaves the file */
    CHECK(changed && changed[0] == 3);
    memset(changed, 33, LAYER);
    CHECK(!synced_mem_in_file(model->layers[2]) && synced_mem_in_file(model->layers[3]));
    /* [end] */
}

/* [device] */
static void load_to_device(struct model *model, cudaStream_t stream)
{
    CHECK(synced_mem_async_gpu_push_n(model->layers, LAYERS, stream) == SYNCED_MEM_OK);
    for (int i = 0; i < LAYERS; i++) /* kernels on the stream come after the contents */
        CHECK(synced_mem_gpu_data_on(model->layers[i], stream));
}
/* [end] */

/* [checkpoint] */
/* Begins to write a checkpoint beside training. The stream's later work does not change what is written. */
static synced_mem_file *begin_checkpoint(struct model *model, const char *path, synced_mem_stream stream)
{
    uint64_t offsets[LAYERS];
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    synced_mem_file *file = NULL;
    CHECK(fd >= 0);
    CHECK(synced_mem_file_open(&file, fd) == SYNCED_MEM_OK);
    CHECK(close(fd) == 0);
    for (uint64_t i = 0; i < LAYERS; i++)
        offsets[i] = i * LAYER;
    CHECK(synced_mem_async_write_file_n(model->layers, file, offsets, LAYERS, stream) == SYNCED_MEM_OK);
    return file;
}

/* Ends it: the file has the old checkpoint or the new one, whenever the machine stops. */
static void end_checkpoint(synced_mem_file *file, const char *written, const char *path)
{
    CHECK(synced_mem_file_wait(file) == SYNCED_MEM_OK); /* or the first error, such as a full disk */
    CHECK(synced_mem_file_release(file) == SYNCED_MEM_OK);
    const int fd = open(written, O_RDWR);
    CHECK(fd >= 0 && fsync(fd) == 0 && close(fd) == 0);
    CHECK(rename(written, path) == 0);
}
/* [end] */

/* [store] */
/* Gives memory back. The layer that was changed goes to the file first, and is read again when it is used. */
static void store_layer(synced_mem *layer, synced_mem_file *file, uint64_t offset)
{
    CHECK(synced_mem_async_store_in_file(layer, file, offset, SYNCED_MEM_NO_STREAM) == SYNCED_MEM_OK);
    CHECK(synced_mem_file_wait(file) == SYNCED_MEM_OK);
    CHECK(synced_mem_in_file(layer));
    const unsigned char *const read = synced_mem_cpu_data(layer); /* changes nothing */
    CHECK(read && read[0] == 33 && synced_mem_in_file(layer));
}
/* [end] */

static void check_checkpoint(const char *path)
{
    FILE *const file = fopen(path, "rb");
    CHECK(file);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < LAYER; i++)
            CHECK(fgetc(file) == (layer == 2 ? 33 : layer + 1));
    CHECK(fgetc(file) == EOF && fclose(file) == 0);
}

/* [error] */
static void meet_an_error(synced_mem_file *weights)
{
    synced_mem *layer;
    CHECK(synced_mem_create(&layer, LAYER, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_use_file(layer, weights, HEADER + (uint64_t)LAYERS * LAYER) == SYNCED_MEM_ERR_FILE);
    CHECK(strstr(synced_mem_last_error_message(), "does not have 40960 bytes at offset 327780"));
    CHECK(synced_mem_release(layer) == SYNCED_MEM_OK);
}
/* [end] */

int main(void)
{
    struct model model;
    char path[64], written[64], checkpoint[64];
    cudaStream_t stream = NULL;
    (void)snprintf(path, sizeof path, "files-weights.%ld", (long)getpid());
    (void)snprintf(written, sizeof written, "files-written.%ld", (long)getpid());
    (void)snprintf(checkpoint, sizeof checkpoint, "files-checkpoint.%ld", (long)getpid());
    write_weights(path);
    synced_mem_file *const weights = open_file(path);
    make_model(&model, weights);
    read_and_change(&model);
    if (synced_mem_device_count() > 0) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
        load_to_device(&model, stream);
    }
    end_checkpoint(begin_checkpoint(&model, written, stream ? stream : SYNCED_MEM_NO_STREAM), written, checkpoint);
    check_checkpoint(checkpoint);
    store_layer(model.layers[2], weights, HEADER + (uint64_t)2 * LAYER);
    meet_an_error(weights);
    free_model(&model);
    CHECK(synced_mem_file_release(weights) == SYNCED_MEM_OK);
    if (stream) {
        CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
        CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    }
    CHECK(remove(path) == 0 && remove(checkpoint) == 0);
    return synced_mem_shutdown() != SYNCED_MEM_OK;
}
