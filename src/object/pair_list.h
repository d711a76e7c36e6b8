/*
 * The pairs of one call. The caller's pairs are objects and views, which may be in parts. The list cuts each
 * target at the borders of its source, so that each pair of the list has one record on each side. It holds these
 * records (object/piece.h) until sm_pair_list_end(). Other calls may cut them further while nothing is locked. So a
 * call lists the pairs again each time it has taken the locks. All functions need the locks, unless stated otherwise.
 */
#ifndef SM_PAIR_LIST_H
#define SM_PAIR_LIST_H

#include "object/pair.h"

struct sm_pair_list {
    struct synced_mem *const *to; /* the caller's pairs */
    struct synced_mem *const *from;
    size_t count;
    struct sm_pair *pairs; /* ordered by the caller's pair and the offset in it */
    size_t length;
    void *block; /* the pairs' memory; NULL: they are in one */
    struct sm_pair one;
    bool has_pieces;             /* some of the records are held, as they are pieces */
    size_t direct;               /* the number of direct pairs */
    struct sm_expected expected; /* their transfers */
    bool has_memory_of_user;     /* the memory of pairs may overlap */
};

/* Lists the pairs, takes lost contents out of the heads of their records, and plans them (pair.h). has_parts: an object
 * is in parts, or was when they were listed before. What was done of the pairs listed before stays done. No pair has a
 * begun transfer. On failure the list is as before. ERR_INVALID_ARGUMENT: two objects differ in size; *failed is the
 * target. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_pair_list_fill(struct sm_pair_list *list, const struct sm_pairs *common, bool has_parts,
                                    struct synced_mem **failed);

/* Does the check of sizes alone. */
synced_mem_status sm_pair_list_check_sizes(const struct sm_pair_list *list, struct synced_mem **failed);

/* Lets go of the records, and frees the list. No lock may be held: it takes and releases them. */
void sm_pair_list_end(struct sm_pair_list *list);

#endif
