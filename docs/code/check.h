/* The checks that the examples make on themselves. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <synced_mem.h>

/* The exit status on a machine without a GPU, if the example needs one. Meson then reports the example as skipped. */
enum { SKIPPED = 77 };

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

static inline void check_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: %s does not hold\n%s\n", file, line, condition, synced_mem_last_error_message());
    exit(EXIT_FAILURE);
}

#endif
