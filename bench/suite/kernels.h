/* Kernels of a given length: the runtime's fills, which need no compiler for device code. */
#ifndef KERNELS_H
#define KERNELS_H

#include "synced_mem.h"

#include <stddef.h>

struct kernels {
    char *filled;
    size_t bytes; /* that each fills */
    int count;    /* that are launched together */
};

/* Makes kernels that together take about so many seconds. */
void kernels_make(struct kernels *kernels, double seconds, synced_mem_stream stream);
void kernels_free(const struct kernels *kernels);
void kernels_launch(const struct kernels *kernels, synced_mem_stream stream);

#endif
