/* Finds bytes that the objects of one call have in common. It is an error if the call writes them. */
#ifndef SM_OVERLAP_H
#define SM_OVERLAP_H

#include "object/pair.h"

#include <stddef.h>

/* Bytes of one object in the call. */
struct sm_range {
    const struct synced_mem *space; /* the owner that begin and end are offsets in; NULL: they are addresses */
    uintptr_t begin;
    uintptr_t end;
    bool written;
    struct synced_mem *object;
};

/* The most ranges of one pair: the copy that is written, and the two that hold the contents. */
enum { SM_RANGES_OF_PAIR = 3 };

/* Checks that the call writes no object, or part of it, that it names a second time. ranges: room for two of each
 * object in to. *failed: the object. ERR_INVALID_ARGUMENT. */
synced_mem_status sm_check_names(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                 struct sm_range *ranges, struct synced_mem **failed);

/* Checks that no pair writes memory of another object in the call, as the caller may give the same memory to several
 * objects. Needs the locks of all objects. ranges: room for SM_RANGES_OF_PAIR of each pair. *failed: an object that is
 * written. ERR_INVALID_ARGUMENT. */
synced_mem_status sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                    struct sm_range *ranges, struct synced_mem **failed);

#endif
