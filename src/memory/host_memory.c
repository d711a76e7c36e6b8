/*
 * Host memory from the system: from the C library's heap, where what was used before comes without page faults, and
 * what is new without a fill; pages of its own for what is so large that the heap would map it each time, and in debug
 * mode for everything.
 */
#include "memory/host_memory.h"

#include "memory/guard.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The most that glibc takes from its heap. */
enum { OWN_PAGES_BYTES = 33554432 };

static bool has_own_pages(size_t size)
{
    return size >= OWN_PAGES_BYTES || sm_guard_on();
}

/* The heap aligns to 16 bytes only: where its memory begins stands in front of what is given on. */
static void **front_of(void *data)
{
    return (void **)data - 1;
}

static void *take_from_heap(size_t size, size_t alignment, bool zeroed)
{
    const size_t room = alignment > sizeof(void *) ? alignment : sizeof(void *);
    char *const base = zeroed ? calloc(1, size + room) : malloc(size + room);
    if (!base)
        return NULL;
    void *const data = base + room - (uintptr_t)base % room;
    *front_of(data) = base;
    return data;
}

void *sm_host_memory_alloc(size_t size, size_t alignment, bool zeroed)
{
    if (!has_own_pages(size))
        return take_from_heap(size, alignment, zeroed);
    void *const pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void sm_host_memory_free(void *data, size_t size)
{
    if (!has_own_pages(size))
        free(*front_of(data));
    else
        (void)munmap(data, size);
}
