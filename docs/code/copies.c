/* Copies contents between objects, and gives up contents. */
#include "check.h"

#include <string.h>

enum { LAYERS = 3, SIZE = 1 << 16 };

static synced_mem *make_object(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    return mem;
}

static void copy_on_device(synced_mem *const *weights, synced_mem *const *saved)
{
    /* [n] */
    CHECK(synced_mem_async_gpu_copy_n(saved, weights, LAYERS, NULL) == SYNCED_MEM_OK); /* one event for all */
    CHECK(synced_mem_head(saved[0]) == SYNCED_MEM_AT_GPU);
    /* [end] */
}

int main(void)
{
    synced_mem *weights[LAYERS];
    synced_mem *saved[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        weights[i] = make_object();
        saved[i] = make_object();
        memset(synced_mem_overwrite_cpu_data(weights[i]), i + 1, SIZE);
    }

    /* [host] */
    CHECK(synced_mem_cpu_copy(saved[0], weights[0]) == SYNCED_MEM_OK); /* saved[0] is AT_CPU; weights[0] is as before */
    /* [end] */

    if (synced_mem_device_count() > 0)
        copy_on_device(weights, saved);

    const char *const data = synced_mem_cpu_data(saved[0]);
    CHECK(data && data[0] == 1 && data[SIZE - 1] == 1);

    /* [clear] */
    CHECK(synced_mem_clear(weights[0]) == SYNCED_MEM_OK); /* fills nothing; the memory stays */
    const char *const zeros = synced_mem_cpu_data(weights[0]);
    CHECK(zeros && zeros[0] == 0);
    /* [end] */

    for (int i = 0; i < LAYERS; i++) {
        CHECK(synced_mem_release(weights[i]) == SYNCED_MEM_OK);
        CHECK(synced_mem_release(saved[i]) == SYNCED_MEM_OK);
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
