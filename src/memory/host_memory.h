/* Pageable host memory from the system. */
#ifndef SM_HOST_MEMORY_H
#define SM_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates memory. alignment: a power of two, at most a page. zeroed: all zeros, at no cost where the system provides
 * zero pages. Returns NULL when there is none. */
void *sm_host_memory_alloc(size_t size, size_t alignment, bool zeroed);
/* Frees the memory. size: as allocated. */
void sm_host_memory_free(void *data, size_t size);

#endif
