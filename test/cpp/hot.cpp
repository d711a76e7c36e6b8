// The functions of hot.c by synced_mem.hpp.
#include "hot.h"

#include <synced_mem.hpp>

struct owner {
    synced::memory mem;
};

const float *hot_read(const owner *owner)
{
    return owner->mem.cpu_data<float>();
}

float *hot_write_on(owner *owner, synced_mem_stream stream)
{
    return owner->mem.mutable_gpu_data_on<float>(stream);
}

float hot_first(const owner *owner)
{
    return owner->mem.cpu_data<float>()[0];
}

void hot_push(const owner *owner, synced_mem_stream stream)
{
    owner->mem.async_gpu_push(stream);
}
