/* Unified placement. */
#include "object/unified.h"

#include "copy/inflight.h"
#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

/* ---- Where memory is placed ---- */

synced_mem_placement_kind sm_placement(const struct synced_mem *mem)
{
    const struct sm_extras *const extras = sm_owner(mem)->extras;
    if (!extras)
        return SYNCED_MEM_PLACEMENT_SEPARATE;
    return (synced_mem_placement_kind)atomic_load_explicit(&extras->placement, memory_order_relaxed);
}

static void set_placement(const struct synced_mem *mem, synced_mem_placement_kind placement)
{
    if (!mem->extras)
        return;
    atomic_store_explicit(&mem->extras->placement, (unsigned char)placement, memory_order_relaxed);
    mem->extras->placed = true;
}

static synced_mem_status choose_placement_on(int device, synced_mem_placement_kind *placement)
{
    struct sm_unified_facts facts;
    if (*placement == SYNCED_MEM_PLACEMENT_MAPPED)
        return SYNCED_MEM_OK;
    SM_TRY(sm_device_unified_facts(device, &facts));
    if (*placement == SYNCED_MEM_PLACEMENT_MANAGED && !facts.managed)
        return sm_fail(
            SYNCED_MEM_ERR_INVALID_STATE,
            "device %d does not support managed placement (concurrentManagedAccess is 0): use mapped placement",
            device);
    if (*placement == SYNCED_MEM_PLACEMENT_AUTOMATIC && !facts.integrated)
        *placement = SYNCED_MEM_PLACEMENT_SEPARATE;
    if (*placement == SYNCED_MEM_PLACEMENT_AUTOMATIC)
        *placement = facts.managed ? SYNCED_MEM_PLACEMENT_MANAGED : SYNCED_MEM_PLACEMENT_MAPPED;
    return SYNCED_MEM_OK;
}

/* Without a usable device there is only the host's side. */
static bool has_no_device(synced_mem_status status)
{
    return status == SYNCED_MEM_ERR_NO_GPU || status == SYNCED_MEM_ERR_FORKED ||
           status == SYNCED_MEM_ERR_INVALID_DEVICE || status == SYNCED_MEM_ERR_DEVICE_LOST;
}

static synced_mem_status choose_placement(const struct synced_mem *mem, int wanted,
                                          synced_mem_placement_kind *placement, int *device)
{
    *placement = sm_placement(mem);
    *device = sm_device(mem);
    if (*placement == SYNCED_MEM_PLACEMENT_SEPARATE || mem->extras->placed)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_device_resolve(wanted, device);
    if (has_no_device(status)) {
        *placement = SYNCED_MEM_PLACEMENT_SEPARATE;
        return SYNCED_MEM_OK;
    }
    return status == SYNCED_MEM_OK ? choose_placement_on(*device, placement) : status;
}

synced_mem_status sm_unified_obtain(const struct synced_mem *mem, int wanted, size_t size, bool zeroed,
                                    struct sm_copy **out)
{
    synced_mem_placement_kind placement;
    int device;
    *out = NULL;
    synced_mem_status status = choose_placement(mem, wanted, &placement, &device);
    if (status == SYNCED_MEM_OK && placement != SYNCED_MEM_PLACEMENT_SEPARATE)
        status = sm_copy_obtain_shared(size, sm_object_alignment(mem), device,
                                       placement == SYNCED_MEM_PLACEMENT_MANAGED, zeroed, out);
    if (status == SYNCED_MEM_OK)
        set_placement(mem, placement);
    return status;
}

/* Automatic placement queries the device, since a unified object refuses the memory. The answer stays, even if the call
 * fails later: another call would get the same one from this device. */
synced_mem_status sm_unified_check_user_memory(const struct synced_mem *mem)
{
    synced_mem_placement_kind placement = SYNCED_MEM_PLACEMENT_SEPARATE;
    int device;
    if (!mem->extras)
        return SYNCED_MEM_OK;
    const synced_mem_placement_kind requested = (synced_mem_placement_kind)mem->extras->requested_placement;
    if (requested == SYNCED_MEM_PLACEMENT_AUTOMATIC) {
        const synced_mem_status status = choose_placement(mem, sm_device(mem), &placement, &device);
        if (status != SYNCED_MEM_OK)
            return status;
    }
    if (requested == SYNCED_MEM_PLACEMENT_MAPPED || requested == SYNCED_MEM_PLACEMENT_MANAGED ||
        placement != SYNCED_MEM_PLACEMENT_SEPARATE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                       "the object's placement is unified: only an object with separate placement can use this memory");
    set_placement(mem, placement);
    return SYNCED_MEM_OK;
}

/* ---- Order in place of transfers ---- */

synced_mem_status sm_unified_check_contents(const struct sm_copy *shared)
{
    if (!sm_inflight_is_lost(shared))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_DEVICE_LOST, "device %d was lost before it had written the contents at %p",
                   shared->device, sm_copy_data(shared));
}

/* Prefetching is a hint: if it fails, pages move when they are touched. Only a lost device is a failure. */
static synced_mem_status prefetch_copy(const struct sm_copy *shared, size_t size, bool host,
                                       const struct sm_stream *stream)
{
    if (size == 0)
        return SYNCED_MEM_OK;
    const synced_mem_status status =
        sm_device_managed_prefetch(shared->device, sm_copy_data(shared), size, host, stream->handle);
    if (status == SYNCED_MEM_OK) {
        sm_count_up(SM_COUNT_prefetches, 1);
        sm_trace_prefetch(shared->source, size, host, sm_stream_traced(stream));
    }
    return status == SYNCED_MEM_ERR_DEVICE_LOST ? status : SYNCED_MEM_OK;
}

/* If nothing is queued, only sm_device_check_mapped() notices a lost device. Without it the head would count on that
 * device. */
synced_mem_status sm_unified_move(const struct sm_record *record, enum sm_side side, struct sm_stream *stream)
{
    struct sm_copy *const shared = sm_shared_copy(record);
    synced_mem_status status = SYNCED_MEM_OK;
    if (side == SM_CPU)
        status = sm_inflight_settle(shared, false, NULL);
    if (status == SYNCED_MEM_OK && side == SM_CPU)
        status = sm_unified_check_contents(shared);
    if (status == SYNCED_MEM_OK && stream)
        status = sm_inflight_order(shared, false, stream);
    if (status == SYNCED_MEM_OK && shared->source == SYNCED_MEM_SOURCE_MANAGED)
        return prefetch_copy(shared, sm_size_of(record), side == SM_CPU, stream);
    if (status == SYNCED_MEM_OK && side == SM_GPU && !stream)
        return sm_device_check_mapped(shared->device, sm_copy_data(shared));
    return status;
}

/* Returns whether there is a write besides the open write: a fill that was untracked for a while. */
static bool has_other_write(const struct sm_copy *shared)
{
    return !shared->write_is_covered && sm_fence_is_open(shared->write);
}

static struct sm_stream *order_internal_stream(struct sm_copy *shared)
{
    struct sm_stream *internal;
    synced_mem_status status = sm_internal_stream_behind(shared->device, SM_INTERNAL_MOVE_BEHIND, &internal);
    if (status == SYNCED_MEM_OK)
        status = sm_inflight_order(shared, false, internal);
    return status == SYNCED_MEM_OK ? internal : NULL;
}

/* If no event can follow a prefetch, nothing is lost: the pages also come without it. */
void sm_unified_arrive(struct sm_copy *shared, struct sm_stream *stream)
{
    struct sm_stream *const behind =
        stream || !shared->writer_fence || !has_other_write(shared) ? stream : order_internal_stream(shared);
    struct sm_fence *fence;
    if (behind && sm_stream_record(behind, &fence) == SYNCED_MEM_OK)
        sm_inflight_arrives(shared, fence);
    else if (shared->writer_fence && !has_other_write(shared))
        sm_inflight_arrives(shared, sm_fence_hold(shared->writer_fence));
}
