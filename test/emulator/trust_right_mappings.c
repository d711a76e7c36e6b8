/*
 * Right programs that map memory from cuMemCreate, in one process and in two.
 */
#include "trust_mappings.h"

#include <sys/wait.h>

static void mapping_between_streams(void)
{
    const struct driver_calls cu = driver();
    const cudaStream_t one = new_stream(), two = new_stream();
    const cudaEvent_t event = new_event();
    byte *const memory = new_mapping(&cu), *const host = new_pinned();
    struct sum sum = {.to = memory + SIZE, .from = memory, .plus = 4};

    host_fill(host, 40);
    to_device(memory, host, one);
    after(two, event, one);
    launch(&sum, two);
    to_host(host, memory + SIZE, two);
    MUST(cudaStreamSynchronize(two));
    CHECK(host_finds(host, 44));
    end_mapping(&cu, memory);
    MUST(cudaStreamDestroy(one));
    MUST(cudaStreamDestroy(two));
    MUST(cudaEventDestroy(event));
    MUST(cudaFreeHost(host));
}

/* Reads what the other process wrote, and answers in the same memory. */
static void answer(int file)
{
    const struct driver_calls cu = driver();
    const cudaStream_t stream = new_stream();
    CUmemGenericAllocationHandle handle;
    byte *const host = new_pinned();

    DRIVER_MUST(
        cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    byte *const memory = map_open(&cu, handle);
    struct sum sum = {.to = memory, .from = memory, .plus = 1};

    launch(&sum, stream);
    to_host(host, memory, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 51));
    end_mapping(&cu, memory);
    DRIVER_MUST(cu.cuMemRelease(handle));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(host));
}

/* The second process begins anew, as if it were another program. */
static void mapping_between_processes(void)
{
    int file, status = -1;
    const struct driver_calls cu = driver();
    const cudaStream_t stream = new_stream();
    const CUmemGenericAllocationHandle handle = new_memory(&cu);
    byte *const memory = map_open(&cu, handle), *const host = new_pinned();

    MUST(cudaMemsetAsync(memory, 50, PIECE, stream));
    MUST(cudaStreamSynchronize(stream));
    DRIVER_MUST(cu.cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    const pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        emu_reset(1);
        answer(file);
        _exit(0);
    }
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    to_host(host, memory, stream);
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 51));
    close(file);
    end_mapping(&cu, memory);
    DRIVER_MUST(cu.cuMemRelease(handle));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(host));
}

const struct program right_mapping_programs[] = {
    {"mapping between streams", mapping_between_streams},
    {"mapping between processes", mapping_between_processes},
    {NULL, NULL},
};
