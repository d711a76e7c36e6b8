/* The head, and the number of transfers so far, after each access. */
#include "check.h"

/* [heads] */
static const char *head_name(const synced_mem *mem)
{
    static const char *const names[] = {"UNINITIALIZED", "AT_CPU", "AT_GPU", "SYNCED"};
    return names[synced_mem_head(mem)];
}

static void show(const char *access, const void *data, const synced_mem *mem)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    CHECK(data != NULL);
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    printf("%-18s  %-6s  %d to the device, %d back\n", access, head_name(mem), (int)stats.h2d_transfers,
           (int)stats.d2h_transfers);
}
/* [end] */

int main(void)
{
    if (synced_mem_device_count() == 0)
        return SKIPPED;

    synced_mem *mem;
    CHECK(synced_mem_create(&mem, 1000, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_head(mem) == SYNCED_MEM_UNINITIALIZED);
    /* [accesses] */
    show("cpu_data", synced_mem_cpu_data(mem), mem); /* fills with zeros: nothing was written yet */
    show("mutable_cpu_data", synced_mem_mutable_cpu_data(mem), mem);
    show("gpu_data", synced_mem_gpu_data(mem), mem);
    show("gpu_data", synced_mem_gpu_data(mem), mem);
    show("cpu_data", synced_mem_cpu_data(mem), mem);
    show("mutable_gpu_data", synced_mem_mutable_gpu_data(mem), mem);
    show("cpu_data", synced_mem_cpu_data(mem), mem);
    show("overwrite_gpu_data", synced_mem_overwrite_gpu_data(mem), mem);
    show("overwrite_cpu_data", synced_mem_overwrite_cpu_data(mem), mem);
    show("overwrite_gpu_data", synced_mem_overwrite_gpu_data(mem), mem);
    show("mutable_cpu_data", synced_mem_mutable_cpu_data(mem), mem);
    /* [end] */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
