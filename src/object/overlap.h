/* Finds memory that the objects of one call have in common. The caller may give several objects one piece of memory. */
#ifndef SM_OVERLAP_H
#define SM_OVERLAP_H

#include "object/pair.h"

#include <stddef.h>

/* The memory of one copy in the call. */
struct sm_range {
    uintptr_t begin;
    uintptr_t end;
    bool written;
    struct synced_mem *owner;
};

/* The most ranges of one pair: the copy that is written, and the two that hold the contents. */
enum { SM_RANGES_OF_PAIR = 3 };

/* Checks that no pair writes memory of another object in the call. Needs the locks of all objects. ranges: room for
 * SM_RANGES_OF_PAIR of each pair. *failed: an object that is written. ERR_INVALID_ARGUMENT: two ranges overlap. */
synced_mem_status sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                    struct sm_range *ranges, struct synced_mem **failed);

#endif
