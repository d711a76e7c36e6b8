/* Recognizable contents: each pattern differs from every other, and from zeros, in most bytes. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A pattern has equal blocks but for the start: byte i is i * 7 + i / 251 + pattern * 37. */
enum { PATTERN_BLOCK = 251 };

static inline unsigned char pattern_byte(size_t i, unsigned pattern)
{
    return (unsigned char)(pattern == 0 ? 0 : i * 7 + i / PATTERN_BLOCK + pattern * 37);
}

/* Returns the bytes of a block. Multiples of 7 reach every byte, so each block is a part of one sequence. 7 * 183 is 1
 * modulo 256. */
static inline const unsigned char *pattern_block(size_t block, unsigned pattern)
{
#define PATTERN_4(k) (7 * (k)) & 255, (7 * (k) + 7) & 255, (7 * (k) + 14) & 255, (7 * (k) + 21) & 255
#define PATTERN_16(k) PATTERN_4(k), PATTERN_4((k) + 4), PATTERN_4((k) + 8), PATTERN_4((k) + 12)
#define PATTERN_64(k) PATTERN_16(k), PATTERN_16((k) + 16), PATTERN_16((k) + 32), PATTERN_16((k) + 48)
    static const unsigned char sequence[] = {PATTERN_64(0),   PATTERN_64(64),  PATTERN_64(128), PATTERN_64(192),
                                             PATTERN_64(256), PATTERN_64(320), PATTERN_64(384), PATTERN_64(448)};
    return sequence + pattern_byte(block * PATTERN_BLOCK, pattern) * 183 % 256;
}

/* Pattern 0 is zeros. */
static inline void pattern_write(void *data, size_t size, unsigned pattern)
{
    unsigned char *const bytes = data;
    if (pattern == 0 && size > 0)
        memset(data, 0, size);
    for (size_t at = 0; pattern != 0 && at < size; at += PATTERN_BLOCK)
        memcpy(bytes + at, pattern_block(at / PATTERN_BLOCK, pattern),
               size - at < PATTERN_BLOCK ? size - at : PATTERN_BLOCK);
}

static inline bool pattern_is(const void *data, size_t size, unsigned pattern)
{
    static const unsigned char zeros[PATTERN_BLOCK];
    const unsigned char *const bytes = data;
    for (size_t at = 0; at < size; at += PATTERN_BLOCK)
        if (memcmp(bytes + at, pattern == 0 ? zeros : pattern_block(at / PATTERN_BLOCK, pattern),
                   size - at < PATTERN_BLOCK ? size - at : PATTERN_BLOCK) != 0)
            return false;
    return true;
}

#endif
