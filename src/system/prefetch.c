/* Prefetches by the compiler's builtin, which makes no code on processors that have none. */
#include "system/prefetch.h"

#include <stdint.h>

enum { LINE = 64, TO_WRITE = 1, TO_ALL_CACHES = 3 };

void sm_prefetch_lines(void *data, size_t bytes)
{
    const uintptr_t end = (uintptr_t)data + bytes;
    for (uintptr_t line = (uintptr_t)data / LINE * LINE; line < end; line += LINE)
        __builtin_prefetch((const void *)line, TO_WRITE, TO_ALL_CACHES);
}
