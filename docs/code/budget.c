/* The program of docs/guide/budget.md: layers that together are larger than the device's budget. */
#include "check.h"
#include "synced_mem.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 12, LAYER = 1 << 18, FIT = 4 };

/* [objects] */
static synced_mem *make_layer(int number)
{
    char name[32];
    synced_mem *layer;
    synced_mem_options options;
    synced_mem_options_init(&options);
    (void)snprintf(name, sizeof name, "layer %d", number);
    options.name = name;
    options.device = 0;
    options.evictable = 1;
    CHECK(synced_mem_create(&layer, LAYER, &options) == SYNCED_MEM_OK);
    memset(synced_mem_overwrite_cpu_data(layer), number, LAYER);
    return layer;
}
/* [end] */

/* Stands for a kernel that reads the weights. */
static void launch_layer(const void *weights)
{
    CHECK(weights != NULL);
}

/* [hold] */
static void run_layers(synced_mem *const *layers)
{
    const synced_mem_stream compute = NULL;
    CHECK(synced_mem_hold(layers[0], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY) == SYNCED_MEM_OK);
    for (int i = 0; i < LAYERS; i++) {
        if (i + 1 < LAYERS) /* ahead, on another stream: a prefetch */
            CHECK(synced_mem_hold(layers[i + 1], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY) ==
                  SYNCED_MEM_OK);
        launch_layer(synced_mem_gpu_data_on(layers[i], compute));
        CHECK(synced_mem_unhold(layers[i], SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
    }
}
/* [end] */

int main(void)
{
    synced_mem *layers[LAYERS];
    synced_mem_stats stats = {.struct_size = sizeof stats};
    if (synced_mem_device_count() == 0)
        return 0;
    for (int i = 0; i < LAYERS; i++)
        layers[i] = make_layer(i);
    /* [budget] */
    uint64_t over;
    CHECK(synced_mem_gpu_set_budget(0, (uint64_t)FIT * LAYER, &over) == SYNCED_MEM_OK);
    CHECK(over == 0); /* nothing is on the device yet */
    /* [end] */
    for (int round = 0; round < 3; round++)
        run_layers(layers);
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    CHECK(stats.gpu_bytes <= (uint64_t)FIT * LAYER);
    CHECK(stats.clean_evictions > 0 && stats.dirty_evictions == 0);
    for (int i = 0; i < LAYERS; i++)
        CHECK(synced_mem_release(layers[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
