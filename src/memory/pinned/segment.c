/* Segments of page-locked memory. */
#include "memory/pinned/segment.h"

#include "device/device.h"
#include "memory/pinned/numa_nodes.h"
#include "base/stats.h"
#include "base/status.h"
#include "memory/pinned/prefault.h"

#include <stdlib.h>
#include <sys/mman.h>

static const size_t HUGE_PAGE = (size_t)2 << 20;

static char *map_pages(size_t bytes)
{
    void *const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static void unmap_pages(char *start, size_t bytes)
{
    if (bytes > 0)
        (void)munmap(start, bytes);
}

/* Maps memory from a multiple of the huge page's size, and requests huge pages. */
static char *map_huge_pages(size_t bytes)
{
    char *const wide = map_pages(bytes + HUGE_PAGE);
    if (!wide)
        return NULL;
    const size_t before = (0 - (uintptr_t)wide) % HUGE_PAGE;
    unmap_pages(wide, before);
    unmap_pages(wide + before + bytes, HUGE_PAGE - before);
    (void)madvise(wide + before, bytes, MADV_HUGEPAGE);
    return wide + before;
}

/* Unmaps the segment. If the runtime still takes some of it for page-locked, its addresses are quarantined instead:
 * they must not return as other memory. */
static void unmap_or_quarantine_segment(const struct sm_segment *segment)
{
    if (segment->locked > 0)
        sm_count_up(SM_COUNT_quarantined, 1);
    else
        unmap_pages(segment->start, segment->bytes);
}

static synced_mem_status map_and_lock_segment(struct sm_segment *segment)
{
    segment->start = segment->bytes < HUGE_PAGE ? map_pages(segment->bytes) : map_huge_pages(segment->bytes);
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
