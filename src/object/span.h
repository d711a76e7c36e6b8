/*
 * The records of an object. An undivided object is its own and only record. A view, and a divided root, consists of
 * pieces. All functions need the root's lock.
 */
#ifndef SM_SPAN_H
#define SM_SPAN_H

#include "object/object.h"

/* Returns where an object or a record begins, in bytes of its root. */
static inline size_t sm_begin_of(const struct synced_mem *mem)
{
    if (mem->kind == SM_PIECE)
        return mem->offset;
    return mem->at.first ? mem->at.first->offset : 0;
}

/* Returns the first record of an object. The record of a record is itself. */
static inline struct synced_mem *sm_first_record(const struct synced_mem *mem)
{
    return sm_is_divided(mem) ? mem->at.first : (struct synced_mem *)(uintptr_t)mem;
}

/* Returns the record of the object that follows this one; NULL: there is none. */
static inline struct synced_mem *sm_next_record(const struct synced_mem *mem, const struct synced_mem *record)
{
    struct synced_mem *const next = record != mem ? record->beside.after : NULL;
    return next && next->offset < sm_begin_of(mem) + sm_size(mem) ? next : NULL;
}

/* Views may cut a record that a call keeps while nothing is locked. Returns the next record that begins before end; NULL:
 * there is none. */
static inline struct synced_mem *sm_next_before(const struct synced_mem *record, size_t end)
{
    struct synced_mem *const next = record->kind == SM_PIECE ? record->beside.after : NULL;
    return next && next->offset < end ? next : NULL;
}

/* Returns whether the record has contents on the other side alone. */
static inline bool sm_is_to_be_moved(const struct synced_mem *record, enum sm_side side)
{
    return sm_head(record) == sm_bit(sm_other(side));
}

/* Counts a call that counts on the contents of the record's side: it gave out the pointer, or brought the contents. Of
 * two pieces of a root, the one that was counted later has the larger count. So it can be told after a join. */
static inline void sm_count_given(const struct synced_mem *record, enum sm_side side)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    if (record->kind != SM_PIECE) {
        copy->given = sm_copy_next_given(copy->given);
        return;
    }
    unsigned *const latest = &record->root->at.first->given;
    *latest = copy->given = sm_copy_next_given(*latest > copy->given ? *latest : copy->given);
}

/* Counts a call that counts on all valid sides of the record. */
static inline void sm_count_valid(const struct synced_mem *record)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_head(record) & sm_bit(side))
            sm_count_given(record, side);
}

/* Returns whether the object has one record. */
static inline bool sm_has_one_record(const struct synced_mem *mem)
{
    return !sm_is_divided(mem) || sm_size(mem->at.first) == sm_size(mem);
}

/* The heads of several records: the bits that all have, and those that any has. */
struct sm_heads {
    unsigned all, any;
};
#define SM_NO_HEADS                                                                                                    \
    {                                                                                                                  \
        .all = SYNCED_MEM_SYNCED, .any = SYNCED_MEM_UNINITIALIZED                                                      \
    }

static inline void sm_add_head(struct sm_heads *heads, unsigned head)
{
    heads->all &= head;
    heads->any |= head;
}

/* Adds the heads of other records. */
static inline void sm_add_heads(struct sm_heads *heads, const struct sm_heads *others)
{
    heads->all &= others->all;
    heads->any |= others->any;
}

/* Returns the bits that all heads have; SYNCED_MEM_MIXED: none, but some record has contents. */
static inline unsigned sm_head_of_all(const struct sm_heads *heads)
{
    return heads->all || !heads->any ? heads->all : (unsigned)SYNCED_MEM_MIXED;
}

/* Returns the bits that the heads of all records have; SYNCED_MEM_MIXED: none, but some record has contents. */
unsigned sm_head_of_records(const struct synced_mem *mem);

#endif
