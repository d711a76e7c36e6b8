/*
 * Wrong programs that map memory from cuMemCreate.
 */
#include "trust_mappings.h"
#include "trust_wrong.h"

#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static void copied_without_access(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = map_closed(&cu, new_memory(&cu)), *const host = new_pinned();

    cudaMemcpyAsync(memory, host, SIZE, cudaMemcpyDefault, new_stream());
}

static void filled_without_access(void)
{
    const struct driver_calls cu = driver();

    cudaMemset(map_closed(&cu, new_memory(&cu)), 0, SIZE);
}

static void unmapped_too_early(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = new_mapping(&cu);

    MUST(cudaMemsetAsync(memory, 1, SIZE, new_stream()));
    cu.cuMemUnmap((uintptr_t)memory, PIECE);
}

/* The work has run, but the host has not waited for it. */
static void unmapped_unordered(void)
{
    const struct driver_calls cu = driver();
    const cudaStream_t stream = new_stream();
    byte *const memory = new_mapping(&cu);

    MUST(cudaMemsetAsync(memory, 1, SIZE, stream));
    emu_run_all();
    cu.cuMemUnmap((uintptr_t)memory, PIECE);
}

static void unmapped_twice(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = new_mapping(&cu);

    DRIVER_MUST(cu.cuMemUnmap((uintptr_t)memory, PIECE));
    cu.cuMemUnmap((uintptr_t)memory, PIECE);
}

static void exported_by_importer(void)
{
    const struct driver_calls cu = driver();
    CUmemGenericAllocationHandle imported;
    int file, again = -1;

    DRIVER_MUST(cu.cuMemExportToShareableHandle(&file, new_memory(&cu), FD_TYPE, 0));
    DRIVER_MUST(cu.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file, FD_TYPE));
    CHECK(cu.cuMemExportToShareableHandle(&again, imported, FD_TYPE, 0) == CUDA_ERROR_INVALID_VALUE && again == -1);
}

static void used_after_unmap(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = new_mapping(&cu);

    end_mapping(&cu, memory);
    cudaMemset(memory, 0, SIZE);
}

static void range_freed_under_mapping(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = new_mapping(&cu);

    cu.cuMemAddressFree((uintptr_t)memory, PIECE);
}

static void released_twice(void)
{
    const struct driver_calls cu = driver();
    const CUmemGenericAllocationHandle handle = new_memory(&cu);

    DRIVER_MUST(cu.cuMemRelease(handle));
    cu.cuMemRelease(handle);
}

static void mapped_after_release(void)
{
    const struct driver_calls cu = driver();
    const CUmemGenericAllocationHandle handle = new_memory(&cu);

    DRIVER_MUST(cu.cuMemRelease(handle));
    (void)map_closed(&cu, handle);
}

static void touched_by_the_host(void)
{
    const struct driver_calls cu = driver();
    volatile byte *const memory = new_mapping(&cu);

    memory[0] = 1;
}

static void handle_leaked(void)
{
    const struct driver_calls cu = driver();

    (void)new_memory(&cu);
}

static void range_leaked(void)
{
    const struct driver_calls cu = driver();
    CUdeviceptr start;

    DRIVER_MUST(cu.cuMemAddressReserve(&start, PIECE, 0, 0, 0));
}

static void kernel_without_access(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = map_closed(&cu, new_memory(&cu));
    const cudaStream_t stream = new_stream();
    struct sum sum = {.to = memory, .from = memory, .plus = 1};

    launch(&sum, stream);
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
}

static void fills_unordered(void)
{
    const struct driver_calls cu = driver();
    byte *const memory = new_mapping(&cu);

    MUST(cudaMemsetAsync(memory, 1, SIZE, new_stream()));
    MUST(cudaMemsetAsync(memory, 2, SIZE, new_stream()));
}

const struct wrong wrong_mapping_programs[] = {
    {{"mapping copied without access", copied_without_access}, ABORTS, SEEDS, {"cudaMemcpyAsync", "cuMemSetAccess"}},
    {{"mapping filled without access", filled_without_access}, ABORTS, SEEDS, {"cudaMemset", "cuMemSetAccess"}},
    {{"mapping used by a kernel without access", kernel_without_access}, TELLS, SEEDS, {NULL, NULL}},
    {{"mapping unmapped too early", unmapped_too_early}, ABORTS, 1, {"cuMemUnmap", "cudaMemsetAsync"}},
    {{"mapping unmapped unordered", unmapped_unordered}, RACES, RACE_SEEDS, {"cuMemUnmap", "cudaMemsetAsync"}},
    {{"mapping unmapped twice", unmapped_twice}, ABORTS, SEEDS, {"cuMemUnmap", "nothing is mapped"}},
    {{"memory exported by its importer", exported_by_importer}, TELLS, SEEDS, {NULL, NULL}},
    {{"mapping used after unmap", used_after_unmap}, ABORTS, SEEDS, {"cudaMemset", "no longer, allocated"}},
    {{"mapping filled by unordered streams", fills_unordered}, RACES, RACE_SEEDS, {"cudaMemsetAsync", "cuMemMap"}},
    {{"address range freed under a mapping", range_freed_under_mapping},
     ABORTS,
     SEEDS,
     {"cuMemAddressFree", "cuMemMap"}},
    {{"memory released twice", released_twice}, ABORTS, SEEDS, {"cuMemRelease", "a handle of memory"}},
    {{"memory mapped after release", mapped_after_release}, ABORTS, SEEDS, {"cuMemMap", "a handle of memory"}},
    {{"mapping touched by the host", touched_by_the_host}, FAULTS, 1, {"fault: ", "which the host may not access"}},
    {{"handle of memory leaked", handle_leaked}, LEAKS, 1, {"handle of memory", "cuMemCreate"}},
    {{"address range leaked", range_leaked}, LEAKS, 1, {"address range", "cuMemAddressReserve"}},
    {{NULL, NULL}, TELLS, 0, {NULL, NULL}},
};
