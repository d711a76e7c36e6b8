/* The defaults of options, and checks of options and sizes. */
#include "api/options.h"

#include "api/argument.h"
#include "base/status.h"

#include <stdint.h>

enum { MAX_ALIGNMENT = 2 << 20, MAX_DEVICE = 32767 };

void synced_mem_options_init(synced_mem_options *options)
{
    if (options)
        *options = (synced_mem_options){.struct_size = sizeof *options, .device = SYNCED_MEM_DEVICE_CURRENT};
}

synced_mem_status sm_check_options(const synced_mem_options *options)
{
    SM_TRY(SM_CHECK_STRUCT(options, "options"));
    if (options->device < SYNCED_MEM_DEVICE_CURRENT || options->device > MAX_DEVICE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "device %d is not valid: pass 0 to %d, or SYNCED_MEM_DEVICE_CURRENT", options->device,
                       MAX_DEVICE);
    if ((options->alignment & (options->alignment - 1)) != 0 || options->alignment > MAX_ALIGNMENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "alignment %zu is not a power of two up to %d",
                       options->alignment, MAX_ALIGNMENT);
    if ((unsigned)options->placement > SYNCED_MEM_PLACEMENT_AUTOMATIC)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "placement %d is not a synced_mem_placement_kind",
                       (int)options->placement);
    if (options->placement && (options->cpu_allocator || options->gpu_allocator))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "cpu_allocator and gpu_allocator work with separate placement only");
    if (options->shareable > SYNCED_MEM_SHAREABLE_ANY_USER)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "shareable %u is not known", options->shareable);
    if (options->shareable && (options->placement || options->cpu_allocator || options->gpu_allocator))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "shareable works with separate placement and without allocators only");
    if (options->evictable > 1)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "evictable %u is neither 0 nor 1", options->evictable);
    if (options->evictable &&
        (options->placement || options->cpu_allocator || options->gpu_allocator || options->shareable))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "evictable works with separate placement, and neither with allocators nor with shareable");
    return SYNCED_MEM_OK;
}

synced_mem_status sm_check_size(size_t size)
{
    if (size > (size_t)PTRDIFF_MAX - MAX_ALIGNMENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "size %zu is more than one buffer can have", size);
    return SYNCED_MEM_OK;
}
