/*
 * A fuzz target: bytes become a file, which the example that loads safetensors loads or refuses. The tensors of a file
 * that is loaded must have its bytes, each byte behind the header once.
 */
#include "../../docs/code/safetensors.h"
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

static int make_file(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(fd >= 0);
    for (size_t done = 0; done < size;) {
        const ssize_t count = write(fd, data + done, size - done);
        MUST(count > 0);
        done += (size_t)count;
    }
    return fd;
}

static void check_tensor(const struct safetensor *tensor, const uint8_t *data)
{
    const size_t size = synced_mem_size(tensor->mem);
    MUST(tensor->begin + size == tensor->end);
    const void *const contents = synced_mem_cpu_data(tensor->mem);
    MUST(contents && (size == 0 || memcmp(contents, data + tensor->begin, size) == 0));
    MUST(tensor->bits < 16 || (uintptr_t)contents % (tensor->bits / 8) == 0);
}

static void check_file(const char *path, enum safetensors_objects objects, const uint8_t *data, size_t size)
{
    struct safetensors loaded;
    if (!safetensors_load(&loaded, path, objects)) {
        MUST(loaded.message[0] && !strchr(loaded.message, '\n') && !loaded.tensors && !loaded.whole && !loaded.tree);
        return;
    }
    size_t length = 0, bytes = 0;
    MUST(size >= 8);
    for (size_t i = 0; i < 8; i++)
        length |= (size_t)data[i] << 8 * i;
    for (size_t i = 0; i < loaded.count; i++) {
        MUST(loaded.tensors[i].begin == bytes);
        bytes = loaded.tensors[i].end;
        MUST(8 + length + bytes <= size);
        check_tensor(&loaded.tensors[i], data + 8 + length);
    }
    MUST(8 + length + bytes == size);
    safetensors_release(&loaded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = make_file(data, size);
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_file(path, SAFETENSORS_VIEWS, data, size);
    check_file(path, SAFETENSORS_OBJECTS, data, size);
    (void)close(fd);
    return 0;
}
