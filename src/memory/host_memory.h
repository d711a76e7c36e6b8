/* Host memory from the system. */
#ifndef SM_HOST_MEMORY_H
#define SM_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Memory of the size, aligned to a power of two up to a page; zeros if asked, which costs nothing where the system
 * hands out zero pages. NULL when there is none. */
void *sm_host_memory_alloc(size_t size, size_t alignment, bool zeroed);
/* The size is that of the allocation. */
void sm_host_memory_free(void *data, size_t size);

#endif
