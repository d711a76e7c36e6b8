/* Host memory from the system: pages of its own for what is large, the C library's heap for what is small. In debug mode
 * everything gets pages of its own. */
#include "host_memory.h"

#include "debug.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Below this a fill costs less than the page faults and the two system calls of an own mapping. */
enum { OWN_PAGES_BYTES = 65536 };

void *sm_host_memory_alloc(size_t size, size_t alignment, bool zeroed)
{
    if (size >= OWN_PAGES_BYTES || sm_debug_on()) {
        void *const pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return pages == MAP_FAILED ? NULL : pages;
    }
    const size_t rounded = (size + alignment - 1) / alignment * alignment;
    void *const data = aligned_alloc(alignment, rounded);
    if (data && zeroed)
        memset(data, 0, size);
    return data;
}

void sm_host_memory_free(void *data, size_t size)
{
    if (size >= OWN_PAGES_BYTES || sm_debug_on())
        (void)munmap(data, size);
    else
        free(data);
}
