/* How fast memory is obtained and moved, beside the plain calls of the CUDA runtime, in one run.
 *
 *     memory [--largest BYTES] [--objects COUNT] [--sweep] [ROW...]
 *
 * Rows: device, life, pageable, objects; all of them by default. --sweep: copy threads and buffers of staged transfers.
 */
#include "measure.h"
#include "memory.h"
#include "synced_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
    size_t largest = (size_t)1 << 30;
    size_t objects = 1000000;
    unsigned rows = 0;
    bool sweep = false;
    static const char *const names[] = {"device", "life", "pageable", "objects"};
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--largest") == 0 && i + 1 < count)
            largest = strtoull(arguments[++i], NULL, 0);
        else if (strcmp(arguments[i], "--objects") == 0 && i + 1 < count)
            objects = strtoull(arguments[++i], NULL, 0);
        else if (strcmp(arguments[i], "--sweep") == 0)
            sweep = true;
        else
            for (unsigned row = 0; row < sizeof names / sizeof *names; row++)
                rows |= strcmp(arguments[i], names[row]) == 0 ? 1u << row : 0;
    }
    if (synced_mem_device_count() == 0) {
        (void)printf("memory: skipped: no GPU\n");
        return 77;
    }
    rows = rows ? rows : ~0u;
    if (sweep)
        sweep_staging(largest);
    else if (rows)
        (void)printf("Medians; the ratios are of the first column to the others\n");
    if (!sweep && (rows & 8)) /* first: what others leave behind would be counted */
        measure_objects(objects);
    if (!sweep && (rows & 1))
        measure_device_allocation(largest);
    if (!sweep && (rows & 2))
        measure_life(largest);
    if (!sweep && (rows & 4))
        measure_pageable(largest);
    must(synced_mem_shutdown() == SYNCED_MEM_OK, synced_mem_last_error_message());
    return EXIT_SUCCESS;
}
