/* The public functions of views. */
#include "api/argument.h"
#include "api/life.h"
#include "api/options.h"
#include "base/status.h"
#include "object/evictable.h"

static synced_mem_status check_view_options(const synced_mem_options *options)
{
    if (!options)
        return SYNCED_MEM_OK;
    SM_TRY(sm_check_options(options));
    if (options->device == SYNCED_MEM_DEVICE_CURRENT && options->alignment == 0 && !options->cpu_allocator &&
        !options->gpu_allocator && options->placement == SYNCED_MEM_PLACEMENT_SEPARATE && !options->shareable &&
        !options->evictable)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "a view has its root's memory: of the options only name and user may differ from the defaults");
}

static synced_mem_status make_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                   const synced_mem_options *options)
{
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!of)
        return sm_no_object();
    SM_TRY(check_view_options(options));
    SM_TRY(sm_check_not_evictable(of));
    return sm_create_view(out, of, offset, size, options);
}

synced_mem_status synced_mem_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                  const synced_mem_options *options)
{
    return SM_DO(make_view(out, of, offset, size, options), of);
}

synced_mem *synced_mem_root(const synced_mem *mem)
{
    if (!mem)
        (void)SM_REPORT(sm_no_object(), mem);
    return mem ? sm_root(mem) : NULL;
}

size_t synced_mem_offset(const synced_mem *mem)
{
    if (!mem)
        (void)SM_REPORT(sm_no_object(), mem);
    return mem ? sm_offset(mem) : 0;
}
