/* Pages, by VirtualAlloc(). */
#include "system/pages.h"

#include <stdint.h>
#include <windows.h>

size_t sm_page_size(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

void *sm_pages_map(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

/* A part of a reservation can't be given back. So a wide one shows where there is room, and another thread may take
 * that room before it is reserved again. Pages of the system's large size need a right that programs do not have. */
void *sm_pages_map_huge(size_t bytes, size_t alignment)
{
    enum { TRIES = 16 };
    char *start = NULL;
    for (int i = 0; !start && i < TRIES; i++) {
        char *const wide = VirtualAlloc(NULL, bytes + alignment, MEM_RESERVE, PAGE_NOACCESS);
        if (!wide)
            return NULL;
        (void)VirtualFree(wide, 0, MEM_RELEASE);
        start = VirtualAlloc(wide + (0 - (uintptr_t)wide) % alignment, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    }
    return start;
}

void *sm_pages_reserve(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE, PAGE_READWRITE);
}

bool sm_pages_commit(void *start, size_t bytes)
{
    return VirtualAlloc(start, bytes, MEM_COMMIT, PAGE_READWRITE) != NULL;
}

void sm_pages_unmap(void *start, size_t bytes)
{
    (void)bytes;
    (void)VirtualFree(start, 0, MEM_RELEASE);
}

/* A private view of a file can't be made plainly writable: the first write to a page copies it. */
static DWORD get_allowed(const MEMORY_BASIC_INFORMATION *region, enum sm_protection protection)
{
    static const DWORD allowed[] = {PAGE_READWRITE, PAGE_READONLY, PAGE_NOACCESS};
    const bool copies =
        region->AllocationProtect == PAGE_WRITECOPY || region->AllocationProtect == PAGE_EXECUTE_WRITECOPY;
    return protection == SM_PROTECT_NOTHING && copies ? PAGE_WRITECOPY : allowed[protection];
}

/* One call of VirtualProtect() does not reach beyond the memory that one call has reserved, or one view of a file. */
bool sm_pages_protect(void *start, size_t bytes, enum sm_protection protection)
{
    const uintptr_t end = (uintptr_t)start + bytes;
    MEMORY_BASIC_INFORMATION region;
    DWORD before;
    for (uintptr_t at = (uintptr_t)start; at < end; at = (uintptr_t)region.BaseAddress + region.RegionSize) {
        if (VirtualQuery((void *)at, &region, sizeof region) == 0)
            return false;
        const uintptr_t region_end = (uintptr_t)region.BaseAddress + region.RegionSize;
        const size_t inside = (region_end < end ? region_end : end) - at;
        if (!VirtualProtect((void *)at, inside, get_allowed(&region, protection), &before))
            return false;
    }
    return true;
}
