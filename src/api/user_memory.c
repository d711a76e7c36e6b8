/* The public functions that hand in memory of the caller's, in the header's order. */
#include "api/user_memory.h"

#include "api/argument.h"
#include "base/status.h"
#include "copy/inflight.h"
#include "copy/pin.h"
#include "object/reclaim.h"
#include "object/replace.h"

/* ---- Arguments ---- */

static synced_mem_status check_alignment(const synced_mem *mem, const void *data, const char *what)
{
    if (mem->extras && mem->extras->requested_alignment && (uintptr_t)data % mem->extras->requested_alignment != 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s %p is not aligned to %zu bytes, as the options require",
                       what, data, mem->extras->requested_alignment);
    return SYNCED_MEM_OK;
}

static synced_mem_status check_flags(const synced_mem_memory *memory)
{
    const unsigned unknown = memory->flags & ~(SYNCED_MEM_MEMORY_PAGE_LOCK | SYNCED_MEM_MEMORY_READ_ONLY);
    if (unknown)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "memory has unknown flags %#x", unknown);
    if ((memory->flags & SYNCED_MEM_MEMORY_PAGE_LOCK) && !memory->cpu_data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the flags request page-locking, but cpu_data is NULL");
    return SYNCED_MEM_OK;
}

static synced_mem_status check_memory(const synced_mem *mem, const synced_mem_memory *memory)
{
    if (!mem)
        return sm_no_object();
    if (!memory->cpu_data && !memory->gpu_data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the memory is NULL");
    if (memory->cpu_data == memory->gpu_data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "cpu_data and gpu_data are both %p: pass two separate buffers",
                       memory->cpu_data);
    synced_mem_status status = sm_check_changeable(mem);
    if (status == SYNCED_MEM_OK)
        status = sm_check_not_evictable(mem);
    if (status == SYNCED_MEM_OK)
        status = check_flags(memory);
    if (status == SYNCED_MEM_OK)
        status = check_alignment(mem, memory->cpu_data, "host memory");
    return status == SYNCED_MEM_OK ? check_alignment(mem, memory->gpu_data, "device memory") : status;
}

/* ---- Handing in ---- */

/* Handing in host memory does not start CUDA. Memory that is not queried now is queried before its first transfer. */
static synced_mem_status pin_or_query(const synced_mem *mem, const synced_mem_memory *memory, struct sm_copy *copy)
{
    if (memory->flags & SYNCED_MEM_MEMORY_PAGE_LOCK)
        return sm_pin(copy, sm_device(mem));
    if (memory->gpu_data || memory->stream || sm_device_in_use())
        return sm_pin_query(copy, sm_device(mem));
    return SYNCED_MEM_OK;
}

static synced_mem_status wrap_cpu(const synced_mem *mem, const synced_mem_memory *memory, struct sm_copy **out)
{
    SM_TRY(sm_copy_wrap(memory->cpu_data, sm_size(mem), -1, memory->callback, memory->user, out));
    (*out)->read_only = (memory->flags & SYNCED_MEM_MEMORY_READ_ONLY) != 0;
    return pin_or_query(mem, memory, *out);
}

/* Work that fills device memory is the caller's. Without a stream it counts as an open write without a stream. */
static synced_mem_status wrap_gpu(const synced_mem *mem, const synced_mem_memory *memory, struct sm_copy **out)
{
    struct sm_pointer_facts facts;
    SM_TRY(sm_device_query_pointer(sm_device(mem), memory->gpu_data, &facts));
    if (facts.kind != SM_POINTER_DEVICE && facts.kind != SM_POINTER_MANAGED)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "%p is memory of the host, not of a device: pass it as host memory", memory->gpu_data);
    SM_TRY(sm_copy_wrap(memory->gpu_data, sm_size(mem), facts.device, memory->callback, memory->user, out));
    (*out)->read_only = (memory->flags & SYNCED_MEM_MEMORY_READ_ONLY) != 0;
    struct sm_replaced none = {.uses = NULL}; /* the copy is new */
    if (!memory->stream)
        sm_inflight_given(*out, NULL, sm_stream_any(facts.device), true, &none);
    return SYNCED_MEM_OK;
}

static synced_mem_status use_memory(synced_mem *mem, const synced_mem_memory *memory)
{
    struct sm_copy *cpu = NULL;
    struct sm_copy *gpu = NULL;
    synced_mem_status status = check_memory(mem, memory);
    if (status == SYNCED_MEM_OK && memory->cpu_data)
        status = wrap_cpu(mem, memory, &cpu);
    if (status == SYNCED_MEM_OK && memory->gpu_data)
        status = wrap_gpu(mem, memory, &gpu);
    if (status == SYNCED_MEM_OK)
        status = memory->stream ? sm_replace_on(mem, cpu, gpu, memory->stream) : sm_replace(mem, cpu, gpu);
    if (status != SYNCED_MEM_OK) {
        sm_copy_unwrap(cpu);
        sm_copy_unwrap(gpu);
    }
    return status;
}

synced_mem_status sm_use_memory(synced_mem *mem, const synced_mem_memory *memory)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    synced_mem_status status = SM_CHECK_STRUCT(memory, "memory");
    if (status != SYNCED_MEM_OK)
        return status;
    do
        status = use_memory(mem, memory);
    while (sm_reclaim_helps(&reclaim, status));
    return status;
}

/* ---- The functions ---- */

synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data)
{
    return SM_DO(use_memory(mem, &(synced_mem_memory){.cpu_data = data}), mem);
}

synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data)
{
    return SM_DO(use_memory(mem, &(synced_mem_memory){.gpu_data = data}), mem);
}

synced_mem_status synced_mem_use_memory(synced_mem *mem, const synced_mem_memory *memory)
{
    return SM_DO(sm_use_memory(mem, memory), mem);
}
