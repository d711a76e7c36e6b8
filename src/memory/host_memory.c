/*
 * Host memory from the system. Most memory comes from the C library's heap: reused memory causes no page faults, and
 * new memory needs no fill. Sizes that the heap would map each time get pages of their own. In debug mode all sizes do.
 */
#include "memory/host_memory.h"

#include "memory/guard.h"

#include <stdint.h>
#include <stdlib.h>

/* From this size on, glibc does not use its heap. */
enum { OWN_PAGES_BYTES = 33554432 };

static bool needs_own_pages(size_t size)
{
    return size >= OWN_PAGES_BYTES || sm_guard_on();
}

/* The heap aligns to 16 bytes only. The start of its memory is stored in front of the aligned pointer. */
static void **get_base_slot(void *data)
{
    return (void **)data - 1;
}

void *sm_host_memory_alloc(size_t size, size_t alignment, bool zeroed)
{
    if (needs_own_pages(size))
        return sm_pages_map(size);
    const size_t room = alignment > sizeof(void *) ? alignment : sizeof(void *);
    char *const base = zeroed ? calloc(1, size + room) : malloc(size + room);
    if (!base)
        return NULL;
    void *const data = base + room - (uintptr_t)base % room;
    *get_base_slot(data) = base;
    return data;
}

void sm_host_memory_free(void *data, size_t size)
{
    if (!needs_own_pages(size))
        free(*get_base_slot(data));
    else
        sm_pages_unmap(data, size);
}
