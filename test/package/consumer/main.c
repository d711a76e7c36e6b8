/* A user's program, in C or C++, compiled as the installed files say. Checks that the header and the library have the
 * same version, and that the library works. */
#include <stdio.h>
#include <string.h>

#include <synced_mem.h>
#include <synced_mem/dlpack.h>

static int fail(const char *what)
{
    (void)fprintf(stderr, "failed: %s (%s)\n", what, synced_mem_last_error_message());
    return 1;
}

static int check_version(void)
{
    char header[32];
    (void)snprintf(header, sizeof header, "%d.%d.%d", SYNCED_MEM_VERSION_MAJOR, SYNCED_MEM_VERSION_MINOR,
                   SYNCED_MEM_VERSION_PATCH);
    if (strcmp(header, PACKAGE_VERSION) != 0)
        return fail("the header's version is the package's");
    if (synced_mem_version() !=
        SYNCED_MEM_VERSION_MAJOR * 10000 + SYNCED_MEM_VERSION_MINOR * 100 + SYNCED_MEM_VERSION_PATCH)
        return fail("the library's version is the header's");
    return 0;
}

static int check_device(synced_mem *mem)
{
    if (synced_mem_device_count() == 0)
        return !synced_mem_gpu_data(mem) && synced_mem_last_error() == SYNCED_MEM_ERR_NO_GPU
                   ? 0
                   : fail("without a GPU there is no device copy");
    return synced_mem_gpu_data(mem) && synced_mem_head(mem) == SYNCED_MEM_SYNCED ? 0
                                                                                 : fail("contents go to the device");
}

static int check_object(synced_mem *mem)
{
    if (synced_mem_head(mem) != SYNCED_MEM_UNINITIALIZED || synced_mem_size(mem) != 100)
        return fail("a new object is not initialized");
    void *const written = synced_mem_overwrite_cpu_data(mem);
    if (!written || synced_mem_head(mem) != SYNCED_MEM_AT_CPU)
        return fail("the host copy is the current one");
    memset(written, 7, 100);
    if (check_device(mem) != 0)
        return 1;
    const unsigned char *const data = (const unsigned char *)synced_mem_cpu_data(mem);
    return data && data[0] == 7 && data[99] == 7 ? 0 : fail("what was written is read");
}

static int check_tensors(synced_mem *mem)
{
    struct DLManagedTensorVersioned *tensor;
    return synced_mem_to_dlpack(&tensor, mem, NULL) == SYNCED_MEM_ERR_INVALID_ARGUMENT && !tensor
               ? 0
               : fail("a tensor needs options");
}

int main(void)
{
    synced_mem *mem;
    if (check_version() != 0)
        return 1;
    if (synced_mem_create(&mem, 100, NULL) != SYNCED_MEM_OK)
        return fail("create");
    const int failed = check_object(mem) || check_tensors(mem);
    if (synced_mem_release(mem) != SYNCED_MEM_OK || synced_mem_shutdown() != SYNCED_MEM_OK)
        return fail("release and shutdown");
    return failed;
}
