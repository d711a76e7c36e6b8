/* The program of docs/guide/budget.md: layers that together are larger than the budget for host copies. */
#include "check.h"
#include "synced_mem.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 12, LAYER = 1 << 18, FIT = 4 };

/* [budget] */
/* Returns false if the folder is in memory, where a scratch file would save nothing. */
static bool limit_host_copies(const char *path, uint64_t bytes)
{
    synced_mem_file *scratch;
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && unlink(path) == 0);
    CHECK(synced_mem_file_open(&scratch, fd) == SYNCED_MEM_OK && close(fd) == 0);
    const bool limited = synced_mem_cpu_set_budget(bytes, scratch, NULL) == SYNCED_MEM_OK;
    CHECK(synced_mem_file_release(scratch) == SYNCED_MEM_OK); /* the library keeps it open */
    return limited;
}
/* [end] */

/* [access] */
static void add_to_layer(synced_mem *layer, unsigned char number)
{
    CHECK(synced_mem_hold(layer, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, NULL) == SYNCED_MEM_OK);
    unsigned char *const bytes = synced_mem_mutable_cpu_data(layer);
    for (size_t i = 0; i < LAYER; i++)
        bytes[i] = (unsigned char)(bytes[i] + number);
    CHECK(synced_mem_unhold(layer, SYNCED_MEM_SIDE_CPU) == SYNCED_MEM_OK);
}
/* [end] */

int main(void)
{
    synced_mem *layers[LAYERS];
    synced_mem_stats stats = {.struct_size = sizeof stats};
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.evictable = 1;
    for (int i = 0; i < LAYERS; i++)
        CHECK(synced_mem_create(&layers[i], LAYER, &options) == SYNCED_MEM_OK);
    const bool limited = limit_host_copies("host_budget.scratch", (uint64_t)FIT * LAYER);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < LAYERS; i++)
            add_to_layer(layers[i], (unsigned char)i);
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    CHECK(!limited || (stats.pageable_bytes <= (uint64_t)FIT * LAYER && stats.spills > 0));
    for (int i = 0; i < LAYERS; i++) {
        CHECK(synced_mem_hold(layers[i], SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL) == SYNCED_MEM_OK);
        CHECK(((const unsigned char *)synced_mem_cpu_data(layers[i]))[LAYER - 1] == 3 * i);
        CHECK(synced_mem_unhold(layers[i], SYNCED_MEM_SIDE_CPU) == SYNCED_MEM_OK);
        CHECK(synced_mem_release(layers[i]) == SYNCED_MEM_OK);
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
