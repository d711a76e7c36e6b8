#include "kernels.h"

#include "bare.h"
#include "measure.h"
#include "suite.h"

enum { TRIED = 64, MOST_KERNELS = 4096 };

void kernels_launch(const struct kernels *kernels, synced_mem_stream stream)
{
    for (int i = 0; i < kernels->count; i++)
        bare_queue_fill(kernels->filled, i, kernels->bytes, stream);
}

static double time_kernels(const struct kernels *kernels, synced_mem_stream stream)
{
    const double begin = seconds_now();
    kernels_launch(kernels, stream);
    bare_wait(stream);
    return seconds_now() - begin;
}

void kernels_make(struct kernels *kernels, double seconds, synced_mem_stream stream)
{
    *kernels = (struct kernels){.bytes = suite.emulated ? 64 * KIB : 64 * MIB, .count = TRIED};
    kernels->filled = bare_device_alloc(kernels->bytes);
    (void)time_kernels(kernels, stream);
    const double count = seconds * TRIED / time_kernels(kernels, stream);
    kernels->count = suite.emulated || count < 1 ? 1 : count > MOST_KERNELS ? MOST_KERNELS : (int)(count + 0.5);
}

void kernels_free(const struct kernels *kernels)
{
    bare_device_free(kernels->filled);
}
