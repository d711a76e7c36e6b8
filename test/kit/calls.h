/* The calls on one object that tables of calls name, beside the accesses. */
#ifndef CALLS_H
#define CALLS_H

#include "accesses.h"
#include "fixture.h"

/* A suite numbers calls of its own from CALLS on. */
enum call {
    PUSH = ACCESSES,
    PUSH_TWICE, /* with the object twice in the list */
    PULL,
    PULL_AND_WAIT,
    FREE_CPU,
    FREE_GPU,
    FREE_DATA,
    CALLS
};

/* Makes an access or another call of the table. A call without a stream ignores the stream. */
static inline synced_mem_status make_call(synced_mem *mem, int call, synced_mem_stream stream)
{
    synced_mem *const twice[] = {mem, mem};
    synced_mem_status status;
    switch (call) {
    case PUSH:
        return synced_mem_async_gpu_push(mem, stream);
    case PUSH_TWICE:
        return synced_mem_async_gpu_push_n(twice, 2, stream);
    case PULL:
        return synced_mem_async_cpu_pull(mem, stream);
    case PULL_AND_WAIT:
        status = synced_mem_async_cpu_pull(mem, stream);
        return status == SYNCED_MEM_OK ? synced_mem_wait(mem) : status;
    case FREE_CPU:
        return synced_mem_release_cpu_data(mem);
    case FREE_GPU:
        return synced_mem_release_gpu_data(mem);
    case FREE_DATA:
        return synced_mem_release_data(mem);
    default:
        return status_of(do_access(mem, (enum access)call, stream));
    }
}

#endif
