/*
 * The random test without forks: one sequence of random calls, then rounds of threads, in this process. A failure ends
 * it, and is not shrunk.
 *
 *     random SEED CALLS
 */
#include "random.h"

#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

enum { FREE_ROUNDS = 6 };

static void describe_machine(void)
{
    const int devices = gpu_start(0);
    synced_mem_device_info info = {.struct_size = sizeof info};
    machine.devices = devices < DEVICES ? devices : DEVICES;
    machine.gpu = devices > 0;
    machine.per_thread = machine.gpu && gpu_has_per_thread_stream();
    machine.managed = machine.gpu;
    for (int device = 0; device < machine.devices; device++)
        machine.managed = machine.managed && synced_mem_get_device_info(device, &info) == SYNCED_MEM_OK &&
                          info.concurrent_managed_access;
}

int main(int count, char **words)
{
    static const unsigned long nothing[2];
    struct generator generator;
    const uint64_t seed = count > 1 ? strtoull(words[1], NULL, 0) : 1;
    const unsigned long calls = count > 2 ? strtoul(words[2], NULL, 0) : 10000;
    shared = calloc(1, sizeof *shared);
    if (!shared)
        return EXIT_FAILURE;
    describe_machine();
    if (calls > 0)
        play(source_random(&generator, seed * 1000003, calls, nothing, THREADS), (unsigned)seed, false);
    else
        play_freely(seed, FREE_ROUNDS);
    (void)printf("%lu calls\n", shared->calls);
    return EXIT_SUCCESS;
}
