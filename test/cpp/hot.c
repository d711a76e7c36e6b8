/* Hot accessors in C, whose failures go to functions that do not return, as a throw does. */
#include "hot.h"

struct owner {
    synced_mem *mem;
};

_Noreturn __attribute__((cold)) void fail(void);
_Noreturn __attribute__((cold)) void fail_with(synced_mem_status status);

const float *hot_read(const struct owner *owner)
{
    const float *const data = synced_mem_cpu_data(owner->mem);
    if (!data)
        fail();
    return data;
}

float *hot_write_on(struct owner *owner, synced_mem_stream stream)
{
    float *const data = synced_mem_mutable_gpu_data_on(owner->mem, stream);
    if (!data)
        fail();
    return data;
}

float hot_first(const struct owner *owner)
{
    const float *const data = synced_mem_cpu_data(owner->mem);
    if (!data)
        fail();
    return data[0];
}

void hot_push(const struct owner *owner, synced_mem_stream stream)
{
    const synced_mem_status status = synced_mem_async_gpu_push(owner->mem, stream);
    if (status != SYNCED_MEM_OK)
        fail_with(status);
}
