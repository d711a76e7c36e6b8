/* Finds bytes that the objects of one call have in common. It is an error if the call writes them. */
#ifndef SM_OVERLAP_H
#define SM_OVERLAP_H

#include "object/pair.h"

#include <stddef.h>

/* Checks that the call writes no object, or part of it, that it names a second time. *failed: the object.
 * ERR_INVALID_ARGUMENT, ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_check_names(struct synced_mem *const *to, struct synced_mem *const *from, size_t count,
                                 struct synced_mem **failed);

/* Returns whether the pair uses memory of the caller's, who may have given it to several objects. */
bool sm_pair_has_memory_of_user(const struct sm_pairs *pairs, const struct sm_pair *pair);

/* Checks that no pair writes memory of another object in the call, as the caller may give the same memory to several
 * objects. Needs the locks of all objects. *failed: an object that is written. ERR_INVALID_ARGUMENT,
 * ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                    struct synced_mem **failed);

#endif
