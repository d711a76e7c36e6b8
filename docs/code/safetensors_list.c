/*
 * safetensors_list [--objects] FILE...: lists the tensors of files, with a checksum (CRC-32) of each from the device;
 * from the host where there is none. --objects: with no more than one tensor on the device at a time.
 */
#include "check.h"
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <string.h>

enum { CHUNK = 1 << 20 };

/* ---- Checksums ---- */

static uint32_t add_to_checksum(uint32_t sum, const unsigned char *data, size_t size)
{
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256 && table[255] == 0; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
    }
    sum = ~sum;
    for (size_t i = 0; i < size; i++)
        sum = sum >> 8 ^ table[(sum ^ data[i]) & 0xff];
    return ~sum;
}

static bool sum_on_host(synced_mem *mem, uint32_t *sum)
{
    const void *const data = synced_mem_cpu_data(mem);
    if (data)
        *sum = add_to_checksum(0, data, synced_mem_size(mem));
    return data != NULL;
}

/* [sum] */
static bool sum_on_device(synced_mem *mem, cudaStream_t stream, uint32_t *sum)
{
    static unsigned char chunk[CHUNK];
    const size_t size = synced_mem_size(mem);
    const char *const data = synced_mem_gpu_data_on(mem, stream); /* reads what the file alone has */
    *sum = 0;
    for (size_t at = 0; data && at < size; at += CHUNK) {
        const size_t bytes = size - at < CHUNK ? size - at : CHUNK;
        CHECK(cudaMemcpyAsync(chunk, data + at, bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        *sum = add_to_checksum(*sum, chunk, bytes);
    }
    return data != NULL;
}
/* [end] */

/* ---- Lists ---- */

/* Prints a text as in JSON: a name may have any character. */
static void print_text(const char *text)
{
    cJSON *const item = cJSON_CreateStringReference(text);
    char *const quoted = item ? cJSON_PrintUnformatted(item) : NULL;
    CHECK(quoted);
    printf("%s", quoted);
    cJSON_free(quoted);
    cJSON_Delete(item);
}

static void print_tensor(const struct safetensor *tensor, uint32_t sum)
{
    print_text(tensor->name);
    printf(" %s [", tensor->dtype);
    for (size_t i = 0; i < tensor->dimensions; i++)
        printf("%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
    printf("] %" PRIu64 " bytes, checksum %08" PRIx32 "\n", tensor->end - tensor->begin, sum);
}

static bool list_tensors(const struct safetensors *loaded, bool releases, cudaStream_t stream)
{
    for (size_t i = 0; i < loaded->count; i++) {
        synced_mem *const mem = loaded->tensors[i].mem;
        uint32_t sum;
        if (!(stream ? sum_on_device(mem, stream, &sum) : sum_on_host(mem, &sum)))
            return false;
        print_tensor(&loaded->tensors[i], sum);
        if (releases)
            CHECK(synced_mem_release_data(mem) == SYNCED_MEM_OK); /* moves nothing: the file has the contents */
    }
    return true;
}

/* [push] */
/* Reads all tensors to the device, in the file's order, by one call. */
static bool push_all(const struct safetensors *loaded, cudaStream_t stream)
{
    synced_mem **const mems = malloc((loaded->count + 1) * sizeof *mems);
    CHECK(mems);
    for (size_t i = 0; i < loaded->count; i++)
        mems[i] = loaded->tensors[i].mem;
    const synced_mem_status status = synced_mem_async_gpu_push_n(mems, loaded->count, stream);
    free(mems);
    return status == SYNCED_MEM_OK;
}
/* [end] */

static bool list_file(const char *path, enum safetensors_objects objects, cudaStream_t stream)
{
    struct safetensors loaded;
    if (!safetensors_load(&loaded, path, objects)) {
        fprintf(stderr, "%s: %s\n", path, loaded.message);
        return false;
    }
    for (size_t i = 0; i < loaded.texts; i++) {
        print_text(loaded.metadata[i].name);
        printf(": ");
        print_text(loaded.metadata[i].text);
        printf("\n");
    }
    const bool whole = objects == SAFETENSORS_VIEWS;
    const bool listed = (!whole || !stream || push_all(&loaded, stream)) && list_tensors(&loaded, !whole, stream);
    if (!listed)
        fprintf(stderr, "%s: %s\n", path, synced_mem_last_error_message());
    safetensors_release(&loaded);
    return listed;
}

int main(int argc, char **argv)
{
    const bool objects = argc > 1 && strcmp(argv[1], "--objects") == 0;
    cudaStream_t stream = NULL;
    bool listed = true;
    if (argc < 2 + objects) {
        fprintf(stderr, "usage: %s [--objects] FILE...\n", argv[0]);
        return 2;
    }
    if (synced_mem_device_count() > 0)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (int i = 1 + objects; i < argc; i++)
        listed = list_file(argv[i], objects ? SAFETENSORS_OBJECTS : SAFETENSORS_VIEWS, stream) && listed;
    if (stream) {
        CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
        CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return listed ? EXIT_SUCCESS : EXIT_FAILURE;
}
