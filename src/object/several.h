/*
 * Calls on several objects. The locks are taken in the order of their owners' addresses, each once: views have the lock
 * of their root. So two such calls cannot wait for each other. No other call holds more than one such lock.
 */
#ifndef SM_SEVERAL_H
#define SM_SEVERAL_H

#include "object/transaction.h"

#include <stddef.h>
#include <stdlib.h>

/* The objects that have the locks of a call. */
struct sm_owners {
    struct synced_mem **list; /* after sm_owners_sort(): each once, ordered by address */
    size_t count;
};

/* Sorts the owners of this many objects, which may be listed more than once. */
void sm_owners_sort(struct sm_owners *owners, size_t listed);

/* Takes the locks. On failure none is taken. *failed: the object that the failure concerns. Errors: as
 * sm_lock_first(). */
synced_mem_status sm_owners_lock(const struct sm_owners *owners, struct synced_mem **failed);
/* Returns whether any of the locked objects is in parts. */
bool sm_owners_have_parts(const struct sm_owners *owners);
void sm_owners_unlock(const struct sm_owners *owners);

/* Sorts an array. Arrays of objects that were created one after the other mostly are sorted already. */
static inline void sm_sort_unless_sorted(void *array, size_t count, size_t size,
                                         int (*compare)(const void *, const void *))
{
    const char *at = array;
    size_t i = 1;
    for (; i < count && compare(at, at + size) <= 0; i++)
        at += size;
    if (i < count)
        qsort(array, count, size, compare);
}

#endif
