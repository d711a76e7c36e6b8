/* Whether the objects of one call have memory in common: the caller may hand in one piece of memory several times. */
#ifndef SM_OVERLAP_H
#define SM_OVERLAP_H

#include "object/pair.h"

#include <stddef.h>

/* One piece of memory that a call names. */
struct sm_range {
    uintptr_t begin;
    uintptr_t end;
    bool written;
    const struct synced_mem *owner;
};

/* The most ranges of one pair: the copy that is written, and the two that hold the contents. */
enum { SM_RANGES_OF_PAIR = 3 };

/* Checks that no byte is written by a pair and named by another, or by the same pair's other object. With the locks of
 * all objects held. ranges: room for SM_RANGES_OF_PAIR of each pair. *failed: an object that is written.
 * ERR_INVALID_ARGUMENT. */
synced_mem_status sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                    struct sm_range *ranges, struct synced_mem **failed);

#endif
