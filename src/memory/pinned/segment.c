/* Segments of page-locked memory. */
#include "memory/pinned/segment.h"

#include "device/device.h"
#include "base/stats.h"
#include "base/status.h"
#include "memory/pinned/prefault.h"
#include "system/numa.h"
#include "system/pages.h"

#include <stdlib.h>

static const size_t HUGE_PAGE = (size_t)2 << 20;

/* Unmaps the segment. If the runtime still takes some of it for page-locked, its addresses are quarantined instead:
 * they must not return as other memory. */
static void unmap_or_quarantine_segment(const struct sm_segment *segment)
{
    if (segment->locked > 0)
        sm_count_up(SM_COUNT_quarantined, 1);
    else
        sm_pages_unmap(segment->start, segment->bytes);
}

static synced_mem_status map_and_lock_segment(struct sm_segment *segment)
{
    segment->start =
        segment->bytes < HUGE_PAGE ? sm_pages_map(segment->bytes) : sm_pages_map_huge(segment->bytes, HUGE_PAGE);
    if (!segment->start)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for %zu page-locked bytes", segment->bytes);
    if (segment->place > 0)
        sm_numa_prefer(segment->start, segment->bytes, (int)segment->place - 1);
    sm_prefault(segment->start, segment->bytes);
    const synced_mem_status status =
        sm_device_host_register(segment->device, segment->start, segment->bytes, false, &segment->locked);
    if (status != SYNCED_MEM_OK)
        unmap_or_quarantine_segment(segment);
    return status;
}

synced_mem_status sm_segment_create(int device, unsigned place, size_t bytes, struct sm_segment **out)
{
    struct sm_segment *const segment = calloc(1, sizeof *segment);
    if (!segment)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a segment's record");
    *segment = (struct sm_segment){.device = device, .place = place, .bytes = bytes};
    const synced_mem_status status = map_and_lock_segment(segment);
    if (status != SYNCED_MEM_OK) {
        free(segment);
        return status;
    }
    sm_count_up(SM_COUNT_pinned_bytes, bytes);
    *out = segment;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_segment_destroy(struct sm_segment *segment)
{
    const synced_mem_status status =
        sm_device_host_unregister(segment->device, segment->start, segment->bytes, &segment->locked);
    if (status == SYNCED_MEM_ERR_DEVICE_LOST)
        segment->locked = 0;
    if (segment->locked == segment->bytes)
        return status;
    sm_count_down(SM_COUNT_pinned_bytes, segment->bytes);
    unmap_or_quarantine_segment(segment);
    free(segment);
    return SYNCED_MEM_OK;
}
