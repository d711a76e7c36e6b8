/* Protection of memory, for tests. */
#ifndef COMPAT_MMAN_H
#define COMPAT_MMAN_H

#include <stddef.h>

#define PROT_READ 1
#define PROT_WRITE 2

int mprotect(void *start, size_t size, int protection);

#endif
