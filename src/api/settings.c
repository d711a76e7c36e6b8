/* The public functions that set values for the whole process. */
#include "memory/allocator.h"
#include "api/argument.h"
#include "api/environment.h"
#include "object/reclaim.h"
#include "base/status.h"
#include "copy/kernel_way.h"
#include "copy/staging.h"

synced_mem_status synced_mem_set_allocators(const synced_mem_allocator *cpu, const synced_mem_allocator *gpu)
{
    return sm_report(sm_allocator_set_for_all(cpu, gpu), __func__, NULL);
}

void synced_mem_set_out_of_memory_handler(synced_mem_out_of_memory_handler call, void *user)
{
    sm_reclaim_set_handler(call, user);
}

synced_mem_status synced_mem_get_staging(synced_mem_staging *staging)
{
    const synced_mem_status status = SM_CHECK_STRUCT(staging, "staging");
    if (status == SYNCED_MEM_OK)
        sm_staging_get(staging);
    return sm_report(status, __func__, NULL);
}

synced_mem_status synced_mem_set_staging(const synced_mem_staging *staging)
{
    const synced_mem_status status = SM_CHECK_STRUCT(staging, "staging");
    return sm_report(status == SYNCED_MEM_OK ? sm_staging_set(staging) : status, __func__, NULL);
}

synced_mem_status synced_mem_set_kernel_blocks(int blocks)
{
    if (blocks < SM_BLOCKS_BY_DEVICE || blocks > SM_MOST_BLOCKS)
        return sm_report(sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "a kernel has %d to %d blocks, not %d",
                                 SM_BLOCKS_BY_DEVICE, SM_MOST_BLOCKS, blocks),
                         __func__, NULL);
    sm_read_environment(); /* which would change the setting later */
    sm_kernel_way_set(blocks);
    return SYNCED_MEM_OK;
}
