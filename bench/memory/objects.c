/* Many objects. */
#include "measure.h"
#include "memory.h"
#include "synced_mem.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 4096 };

static size_t resident(void)
{
    FILE *const file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (file) {
        must(fscanf(file, "%*u %lu", &pages) == 1, "/proc/self/statm can't be read");
        (void)fclose(file);
    }
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void round_trip(synced_mem *mem)
{
    char *const host = synced_mem_overwrite_cpu_data(mem);
    must(host != NULL, synced_mem_last_error_message());
    memset(host, 0x5a, DATA);
    must(synced_mem_mutable_gpu_data(mem) != NULL, synced_mem_last_error_message());
    must(synced_mem_cpu_data(mem) != NULL, synced_mem_last_error_message());
}

/* What the runtime keeps on the host for device memory and page-locked memory of that size, without the library. */
static double kept_by_runtime(size_t count)
{
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;
    const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                                .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    void **const data = calloc(count, sizeof *data);
    must(data != NULL, "no memory");
    memset(data, 1, count * sizeof *data);
    must(cudaMemPoolCreate(&pool, &properties) == cudaSuccess, "cudaMemPoolCreate");
    must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep) == cudaSuccess, "threshold");
    const size_t before = resident();
    for (size_t i = 0; i < count; i++)
        must(cudaMallocFromPoolAsync(&data[i], DATA, pool, NULL) == cudaSuccess, "cudaMallocFromPoolAsync");
    const double each = ((double)resident() - (double)before) / (double)count;
    for (size_t i = 0; i < count; i++)
        must(cudaFreeAsync(data[i], NULL) == cudaSuccess, "cudaFreeAsync");
    must(cudaStreamSynchronize(NULL) == cudaSuccess, "cudaStreamSynchronize");
    (void)cudaMemPoolDestroy(pool);
    free(data);
    return each;
}

void measure_objects(size_t count)
{
    must(synced_mem_shutdown() == SYNCED_MEM_OK, synced_mem_last_error_message());
    const double kept = kept_by_runtime(count);
    synced_mem **const mems = malloc(count * sizeof *mems);
    must(mems != NULL, "no memory");
    memset(mems, 0, count * sizeof *mems);
    synced_mem_stats stats = {.struct_size = sizeof stats};
    const size_t before = resident();
    const double begin = seconds_now();
    for (size_t i = 0; i < count; i++)
        must(synced_mem_create(&mems[i], DATA, NULL) == SYNCED_MEM_OK, "synced_mem_create");
    const double created = seconds_now();
    const size_t untouched = resident();
    for (size_t i = 0; i < count; i++)
        must(synced_mem_release(mems[i]) == SYNCED_MEM_OK, "synced_mem_release");
    const double released = seconds_now();
    (void)printf("\n%zu objects of %d bytes\n", count, DATA);
    (void)printf("create   %8.1f ns each\nrelease  %8.1f ns each\nresident %8.1f bytes each, untouched\n",
                 (created - begin) / (double)count * 1e9, (released - created) / (double)count * 1e9,
                 (double)(untouched - before) / (double)count);
    for (size_t i = 0; i < count; i++)
        must(synced_mem_create(&mems[i], DATA, NULL) == SYNCED_MEM_OK, "synced_mem_create");
    round_trip(mems[0]);
    must(synced_mem_get_stats(&stats) == SYNCED_MEM_OK, "synced_mem_get_stats");
    const size_t start = resident();
    const double first = seconds_now();
    for (size_t i = 1; i < count; i++)
        round_trip(mems[i]);
    const double last = seconds_now();
    const double each = (double)(resident() - start) / (double)count;
    const double before_trip = (double)stats.pinned_bytes;
    must(synced_mem_get_stats(&stats) == SYNCED_MEM_OK, "synced_mem_get_stats");
    (void)printf("page-locked %7.1f bytes each, data and what is ready for more\n",
                 ((double)stats.pinned_bytes - before_trip) / (double)count);
    (void)printf("a round trip %8.2f us\nresident %8.1f bytes each after it, of which data %d: beside it %.1f, with "
                 "the object %.1f\n",
                 (last - first) / (double)count * 1e6, each, DATA, each - DATA,
                 each - DATA + (double)(untouched - before) / (double)count);
    for (size_t i = 0; i < count; i++)
        must(synced_mem_release(mems[i]) == SYNCED_MEM_OK, "synced_mem_release");
    free(mems);
    (void)printf("the CUDA runtime's own records of as much device memory, without the library: %.1f bytes each\n",
                 kept);
}
