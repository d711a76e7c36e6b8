#include "classic.h"

#include "bare.h"
#include "measure.h"

#include <stdlib.h>
#include <string.h>

struct classic *classic_create(size_t size, bool on_gpu)
{
    struct classic *const mem = malloc(sizeof *mem);
    must(mem != NULL, "no memory");
    *mem = (struct classic){.size = size, .on_gpu = on_gpu};
    return mem;
}

void classic_destroy(struct classic *mem)
{
    if (mem->cpu && mem->on_gpu)
        bare_host_free(mem->cpu);
    else
        free(mem->cpu);
    if (mem->gpu)
        bare_device_free(mem->gpu);
    free(mem);
}

static void allocate_cpu(struct classic *mem)
{
    mem->cpu = mem->on_gpu ? bare_host_alloc(mem->size) : malloc(mem->size);
    must(mem->cpu != NULL, "no memory");
}

static void to_cpu(struct classic *mem)
{
    switch (mem->head) {
    case CLASSIC_UNINITIALIZED:
        allocate_cpu(mem);
        memset(mem->cpu, 0, mem->size);
        mem->head = CLASSIC_AT_CPU;
        break;
    case CLASSIC_AT_GPU:
        if (!mem->cpu)
            allocate_cpu(mem);
        bare_copy_down(mem->cpu, mem->gpu, mem->size);
        mem->head = CLASSIC_SYNCED;
        break;
    case CLASSIC_AT_CPU:
    case CLASSIC_SYNCED:
        break;
    }
}

static void to_gpu(struct classic *mem)
{
    switch (mem->head) {
    case CLASSIC_UNINITIALIZED:
        mem->gpu = bare_device_alloc(mem->size);
        bare_queue_fill(mem->gpu, 0, mem->size, NULL);
        mem->head = CLASSIC_AT_GPU;
        break;
    case CLASSIC_AT_CPU:
        if (!mem->gpu)
            mem->gpu = bare_device_alloc(mem->size);
        bare_copy_up(mem->gpu, mem->cpu, mem->size);
        mem->head = CLASSIC_SYNCED;
        break;
    case CLASSIC_AT_GPU:
    case CLASSIC_SYNCED:
        break;
    }
}

const void *classic_cpu_data(struct classic *mem)
{
    to_cpu(mem);
    return mem->cpu;
}

void *classic_mutable_cpu_data(struct classic *mem)
{
    to_cpu(mem);
    mem->head = CLASSIC_AT_CPU;
    return mem->cpu;
}

const void *classic_gpu_data(struct classic *mem)
{
    to_gpu(mem);
    return mem->gpu;
}

void *classic_mutable_gpu_data(struct classic *mem)
{
    to_gpu(mem);
    mem->head = CLASSIC_AT_GPU;
    return mem->gpu;
}
