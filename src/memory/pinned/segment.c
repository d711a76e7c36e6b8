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

static char *map(size_t bytes)
{
    void *const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static void unmap(char *start, size_t bytes)
{
    if (bytes > 0)
        (void)munmap(start, bytes);
}

/* Maps memory from a multiple of the huge page's size, and requests huge pages. */
static char *map_huge(size_t bytes)
{
    char *const wide = map(bytes + HUGE_PAGE);
    if (!wide)
        return NULL;
    const size_t before = (0 - (uintptr_t)wide) % HUGE_PAGE;
    unmap(wide, before);
    unmap(wide + before + bytes, HUGE_PAGE - before);
    (void)madvise(wide + before, bytes, MADV_HUGEPAGE);
    return wide + before;
}

static char *map_slab(unsigned place, size_t bytes)
{
    char *const start = bytes < HUGE_PAGE ? map(bytes) : map_huge(bytes);
    if (start && place > 0)
        sm_numa_prefer(start, bytes, (int)place - 1);
    return start;
}

/* Unmaps the segment. If the runtime still takes some of it for page-locked, its addresses are quarantined instead:
 * they must not return as other memory. */
static void let_go(const struct sm_segment *slab)
{
    if (slab->locked > 0)
        sm_count_up(SM_COUNT_quarantined, 1);
    else
        unmap(slab->start, slab->bytes);
}

static synced_mem_status page_lock(struct sm_segment *slab)
{
    slab->start = map_slab(slab->place, slab->bytes);
    if (!slab->start)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for %zu page-locked bytes", slab->bytes);
    sm_prefault(slab->start, slab->bytes);
    const synced_mem_status status = sm_device_host_register(slab->device, slab->start, slab->bytes, &slab->locked);
    if (status != SYNCED_MEM_OK)
        let_go(slab);
    return status;
}

synced_mem_status sm_segment_create(int device, unsigned place, size_t bytes, struct sm_segment **out)
{
    struct sm_segment *const slab = calloc(1, sizeof *slab);
    if (!slab)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a slab's record");
    *slab = (struct sm_segment){.device = device, .place = place, .bytes = bytes};
    const synced_mem_status status = page_lock(slab);
    if (status != SYNCED_MEM_OK) {
        free(slab);
        return status;
    }
    sm_count_up(SM_COUNT_pinned_bytes, bytes);
    *out = slab;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_segment_destroy(struct sm_segment *slab)
{
    const synced_mem_status status = sm_device_host_unregister(slab->device, slab->start, slab->bytes, &slab->locked);
    if (status == SYNCED_MEM_ERR_DEVICE_LOST)
        slab->locked = 0;
    if (slab->locked == slab->bytes)
        return status;
    sm_count_down(SM_COUNT_pinned_bytes, slab->bytes);
    let_go(slab);
    free(slab);
    return SYNCED_MEM_OK;
}
