/* Contents that are not zeros and differ from word to word, so that transfers can be checked. */
#ifndef PATTERN_H
#define PATTERN_H

#include "measure.h"

#include <stddef.h>
#include <stdint.h>

static inline uint64_t pattern_word(size_t index, uint64_t seed)
{
    return (index + seed) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* Sizes are multiples of 8. */
static inline void pattern_fill(void *data, size_t size, uint64_t seed)
{
    uint64_t *const words = data;
    for (size_t i = 0; i < size / sizeof *words; i++)
        words[i] = pattern_word(i, seed);
}

static inline void pattern_check(const void *data, size_t size, uint64_t seed)
{
    const uint64_t *const words = data;
    for (size_t i = 0; i < size / sizeof *words; i++)
        must(words[i] == pattern_word(i, seed), "wrong result: the contents differ from those written");
}

#endif
