/* The public functions that copy contents between objects, and the one that gives up contents. */
#include "api/argument.h"
#include "base/status.h"
#include "object/copying.h"

static synced_mem_status check_pairs(synced_mem *const *to, synced_mem *const *from, size_t count)
{
    if ((!to || !from) && count > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", to ? "from" : "to");
    if (count == 1 && (!to[0] || !from[0]))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", to[0] ? "from" : "to");
    for (size_t i = 0; i < count; i++)
        if (!to[i] || !from[i])
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s[%zu] of %zu objects is NULL", to[i] ? "from" : "to", i,
                           count);
    return SYNCED_MEM_OK;
}

static synced_mem_status copy_pairs(synced_mem *const *to, synced_mem *const *from, size_t count, enum sm_side side,
                                    synced_mem_stream stream, const char *function)
{
    struct synced_mem *failed = NULL;
    sm_caller_begin(function, count == 1 && to ? to[0] : NULL);
    synced_mem_status status = check_pairs(to, from, count);
    if (status == SYNCED_MEM_OK)
        status = sm_copy_objects(to, from, count, side, stream, &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? synced_mem_name(failed) : NULL);
}

synced_mem_status synced_mem_async_gpu_copy(synced_mem *to, synced_mem *from, synced_mem_stream stream)
{
    return copy_pairs(&to, &from, 1, SM_GPU, stream, __func__);
}

synced_mem_status synced_mem_async_gpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count,
                                              synced_mem_stream stream)
{
    return copy_pairs(to, from, count, SM_GPU, stream, __func__);
}

synced_mem_status synced_mem_cpu_copy(synced_mem *to, synced_mem *from)
{
    return copy_pairs(&to, &from, 1, SM_CPU, NULL, __func__);
}

synced_mem_status synced_mem_cpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count)
{
    return copy_pairs(to, from, count, SM_CPU, NULL, __func__);
}

synced_mem_status synced_mem_clear(synced_mem *mem)
{
    return SM_DO(mem ? sm_clear(mem) : sm_no_object(), mem);
}
