/*
 * The stream in whose order device memory is freed. No free waits for work that it is independent of:
 *
 *    nothing in flight            an internal stream that never waits
 *    all on one caller's stream   that very stream, without an event; the next allocation there gets the memory
 *    else                         one of several internal streams, which is made to wait for all of the work
 */
#include "copy/free.h"

#include "copy/inflight.h"
#include "memory/accounting.h"

synced_mem_status sm_free_order(struct sm_copy *copy, struct sm_stream **internal)
{
    const bool idle = sm_inflight_is_idle(copy);
    const synced_mem_status status = idle ? sm_internal_stream(copy->device, SM_INTERNAL_FREE, internal)
                                          : sm_internal_stream_behind(copy->device, SM_INTERNAL_FREE_BEHIND, internal);
    return status == SYNCED_MEM_OK && !idle ? sm_inflight_order(copy, true, *internal) : status;
}

static synced_mem_status free_on_internal(struct sm_copy *copy)
{
    struct sm_stream *internal;
    const synced_mem_status status = sm_free_order(copy, &internal);
    return status == SYNCED_MEM_OK ? sm_device_free(copy->device, sm_allocation_of(copy)->base, internal->handle)
                                   : status;
}

synced_mem_status sm_free_device(struct sm_copy *copy)
{
    const struct sm_allocation *const own = sm_allocation_of(copy);
    struct sm_stream *const only = sm_device_frees_in_order(copy->device) ? sm_inflight_only_stream(copy) : NULL;
    bool freed = false;
    synced_mem_status status = only ? sm_stream_free(only, own->base, &freed) : SYNCED_MEM_OK;
    if (status == SYNCED_MEM_OK && !freed)
        status = free_on_internal(copy);
    if (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_DEVICE_LOST)
        (own->is_cached ? sm_gpu_spare_freed : sm_gpu_freed)(copy->device, own->bytes);
    return status;
}

bool sm_free_device_on(struct sm_copy *copy, struct sm_stream *stream)
{
    const struct sm_allocation *const own = sm_allocation_of(copy);
    bool freed = stream->kind == SM_STREAM_INTERNAL;
    if (!sm_device_frees_in_order(copy->device) || sm_inflight_order(copy, true, stream) != SYNCED_MEM_OK)
        return false;
    const synced_mem_status status =
        freed ? sm_device_free(copy->device, own->base, stream->handle) : sm_stream_free(stream, own->base, &freed);
    if (status != SYNCED_MEM_OK || !freed)
        return false;
    sm_gpu_freed(copy->device, own->bytes);
    return true;
}
