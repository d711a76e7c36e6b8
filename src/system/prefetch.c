/* Prefetches by the compiler's builtin, which makes no code on processors that have none. */
#include "system/prefetch.h"

#include <stdint.h>

enum { LINE = 64, TO_WRITE = 1, TO_ALL_CACHES = 3 };

void sm_prefetch_lines(void *data, size_t bytes)
{
    char *const first = (char *)data - (uintptr_t)data % LINE;
    for (char *line = first; line < (char *)data + bytes; line += LINE)
        __builtin_prefetch(line, TO_WRITE, TO_ALL_CACHES);
}
