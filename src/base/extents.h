/*
 * Extents: ranges of bytes of a file, in a tree that finds those that overlap another one. They may overlap each other.
 * The user has the structs and the lock. Each function takes time that grows as the logarithm of their number, and
 * sm_extents_visit() as the number of those that it visits besides.
 */
#ifndef SM_EXTENTS_H
#define SM_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

struct sm_extent {
    uint64_t begin;
    uint64_t end; /* behind the last byte, and larger than begin */
    /* The tree uses the rest. */
    uint64_t last_end; /* of all extents below this one, and its own */
    uint64_t rank;     /* an extent has a higher one than those below it */
    struct sm_extent *below[2];
};

/* All zeros: there are none. */
struct sm_extents {
    struct sm_extent *top;
    uint64_t state; /* of the ranks */
};

void sm_extents_add(struct sm_extents *extents, struct sm_extent *extent);
/* Removes an extent that is there. */
void sm_extents_remove(struct sm_extents *extents, struct sm_extent *extent);

/* Calls visit() for each extent that overlaps the range, until it returns false. Returns false then. */
bool sm_extents_visit(const struct sm_extents *extents, uint64_t begin, uint64_t end,
                      bool (*visit)(struct sm_extent *extent, void *user), void *user);

#endif
