/* The hash of the library's tables. */
#ifndef SM_HASH_H
#define SM_HASH_H

#include <stdint.h>

/* Returns a hash of the key, by a product with 2^64 divided by the golden ratio (Knuth, The Art of Computer
 * Programming, 6.4). The upper bits are the best: a table of 2^n buckets takes those. */
static inline uint64_t sm_hash(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

#endif
