/*
 * Calls on several objects. Such a call takes the lock of each root of its objects, once: views have the lock of their
 * root. First it tries all locks in the order of its list of roots, and waits for none. If one is taken, by another call
 * or as the root is listed twice, it releases those that it has, sorts the roots by address, and takes their locks in
 * this order, and waits for each. A call that has sorted its roots itself waits at once. So two such calls cannot wait
 * for each other. No other call holds more than one such lock.
 */
#ifndef SM_SEVERAL_H
#define SM_SEVERAL_H

#include "object/transaction.h"
#include "stream/shared_ends.h"

#include <stddef.h>
#include <stdlib.h>

/* The roots of a call's objects, which have the locks. */
struct sm_roots {
    struct synced_mem **list; /* has room for SM_ROOTS_ROOM times as many as are listed */
    size_t count;
    bool is_sorted; /* by address, and each is listed once */
};
enum { SM_ROOTS_ROOM = 2 };

/* Lists the roots of these objects, behind those that are listed. Lists a root once that objects side by side have. */
void sm_roots_list(struct sm_roots *roots, struct synced_mem *const *mems, size_t count);
/* Sorts the roots by address, and lists each once. */
void sm_roots_sort(struct sm_roots *roots);

/* Returns whether any of the roots is in parts. */
bool sm_roots_have_parts(const struct sm_roots *roots);

/*
 * A round: the call locks all objects, does what it can, and unlocks them. Its work there shares the ends of uses. If
 * the round returns SM_AGAIN, the call waits with nothing locked and runs another one.
 */
struct sm_round {
    struct sm_roots roots;
    bool has_parts;            /* one of the roots was in parts when the round began */
    struct synced_mem *failed; /* the object that a failure of the round is about; NULL: any of them */
    struct sm_waits waits;     /* for work; found by the round */
    /* Set if the round returns SM_AGAIN without waits: an owner whose memory is obtained with no other object
     * locked. */
    struct synced_mem *alone;
    struct sm_stream *alone_stream; /* device memory that is obtained so is usable in this stream's order */
    struct sm_shared_ends ends;
};

/* Begins a round, which must have no waits: takes the locks. Afterwards each root is listed once, perhaps in another
 * order. On failure no lock is taken. Errors: as sm_check_and_lock(). */
synced_mem_status sm_round_begin(struct sm_round *round);
/* Ends it: releases the locks. The caller has published all records. */
void sm_round_end(struct sm_round *round);
/* If the round's status is SM_AGAIN, waits for what the round has found, and returns OK or why that failed; else
 * returns the status. Blocks. There are no waits afterwards. side: of the memory to obtain. No lock may be held. */
synced_mem_status sm_round_wait(struct sm_round *round, enum sm_side side, synced_mem_status status);

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
