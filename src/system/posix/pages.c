/* Pages, by POSIX. */
#include "system/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Some systems reserve no memory for pages anyway. */
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

size_t sm_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map_private(size_t bytes, int flags)
{
    void *const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

void *sm_pages_map(size_t bytes)
{
    return map_private(bytes, 0);
}

void *sm_pages_map_huge(size_t bytes, size_t alignment)
{
    const size_t page = sm_page_size();
    const size_t used = (bytes + page - 1) / page * page;
    char *const wide = map_private(used + alignment, 0);
    if (!wide)
        return NULL;
    const size_t before = (0 - (uintptr_t)wide) % alignment;
    if (before > 0)
        (void)munmap(wide, before);
    (void)munmap(wide + before + used, alignment - before);
#ifdef MADV_HUGEPAGE
    (void)madvise(wide + before, used, MADV_HUGEPAGE);
#endif
    return wide + before;
}

void *sm_pages_reserve(size_t bytes)
{
    return map_private(bytes, MAP_NORESERVE);
}

/* The system does so at the first touch. */
bool sm_pages_commit(void *start, size_t bytes)
{
    (void)start, (void)bytes;
    return true;
}

void sm_pages_unmap(void *start, size_t bytes)
{
    (void)munmap(start, bytes);
}

bool sm_pages_protect(void *start, size_t bytes, enum sm_protection protection)
{
    static const int allowed[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
    return mprotect(start, bytes, allowed[protection]) == 0;
}
