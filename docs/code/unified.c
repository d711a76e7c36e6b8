/* Unified placement: one memory that the host and the device use. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { SIZE = 1 << 16 };

int main(void)
{
    /* [make] */
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.placement = SYNCED_MEM_PLACEMENT_MAPPED;
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, &options) == SYNCED_MEM_OK);
    /* [end] */

    /* [use] */
    char *const host = synced_mem_overwrite_cpu_data(mem);
    CHECK(host);
    memset(host, 1, SIZE);
    char *const device = synced_mem_mutable_gpu_data(mem); /* the same address as host; NULL without a GPU */
    CHECK(device == host || synced_mem_last_error() == SYNCED_MEM_ERR_NO_GPU);
    if (device)
        CHECK(cudaMemsetAsync(device, 2, SIZE / 2, NULL) == cudaSuccess);
    else
        memset(host, 2, SIZE / 2);
    const char *const result = synced_mem_cpu_data(mem); /* waits for the memset; transfers nothing */
    CHECK(result == host && result[0] == 2 && result[SIZE - 1] == 1);
    /* [end] */

    /* [which] */
    CHECK(synced_mem_placement(mem) == (device ? SYNCED_MEM_PLACEMENT_MAPPED : SYNCED_MEM_PLACEMENT_SEPARATE));
    synced_mem_stats stats = {.struct_size = sizeof stats};
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    CHECK(stats.h2d_transfers == 0 && stats.d2h_transfers == 0);
    /* [end] */

    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
