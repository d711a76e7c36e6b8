/* Recognizable contents: each pattern differs from every other, and from zeros, in most bytes. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>

static inline unsigned char pattern_byte(size_t i, unsigned pattern)
{
    return (unsigned char)(pattern == 0 ? 0 : i * 7 + i / 251 + pattern * 37);
}

/* Pattern 0 is zeros. */
static inline void pattern_write(void *data, size_t size, unsigned pattern)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)data)[i] = pattern_byte(i, pattern);
}

static inline bool pattern_is(const void *data, size_t size, unsigned pattern)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)data)[i] != pattern_byte(i, pattern))
            return false;
    return true;
}

#endif
