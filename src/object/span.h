/*
 * The records of an object. An undivided object has its own record alone. A view, and a divided root, has those of its
 * pieces. All functions need the root's lock.
 */
#ifndef SM_SPAN_H
#define SM_SPAN_H

#include "copy/inflight.h"
#include "memory/guard.h"
#include "object/object.h"

/* Returns where a record begins, in bytes of the object that has its memory. */
static inline size_t sm_begin_of(const struct sm_record *record)
{
    return record->kind == SM_PIECE ? sm_piece_of(record)->offset : 0;
}

/* Returns where an object begins, in bytes of the object that has its memory. */
static inline size_t sm_object_begin(const struct synced_mem *mem)
{
    return mem->at.first ? mem->at.first->offset : 0;
}

/* Returns where an object ends. */
static inline size_t sm_object_end(const struct synced_mem *mem)
{
    return sm_object_begin(mem) + sm_size(mem);
}

static inline struct synced_mem *sm_root_of(const struct sm_record *record)
{
    return record->kind == SM_PIECE ? sm_piece_of(record)->root : sm_root(sm_owner_of(record));
}

static inline struct sm_record *sm_first_record(const struct synced_mem *mem)
{
    return mem->at.first ? &mem->at.first->record : (struct sm_record *)(uintptr_t)&mem->record;
}

/* Returns the next record that begins before end, in bytes of the root; NULL: there is none. */
static inline struct sm_record *sm_next_before(const struct sm_record *record, size_t end)
{
    struct sm_piece *const next = record->kind == SM_PIECE ? sm_piece_of(record)->after : NULL;
    return next && next->offset < end ? &next->record : NULL;
}

/* Returns the record of the object that follows this one; NULL: there is none, as of an undivided object. */
static inline struct sm_record *sm_next_record(const struct synced_mem *mem, const struct sm_record *record)
{
    return record->kind == SM_PIECE ? sm_next_before(record, sm_object_end(mem)) : NULL;
}

/* Those records of an object that a call works on, while the root stays locked. */
struct sm_records {
    struct sm_record **list;
    size_t count;
};

/* Begins to load the parts of a listed piece that comes soon. A part is one cache line. */
static inline void sm_prefetch_parts(const struct sm_record *piece, unsigned sides)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sides & sm_bit(side))
            __builtin_prefetch(sm_slot_of(piece, side), 1);
}

/* Begins to load records that come soon in a walk over the list, and the copies of those that come next. Several listed
 * records are pieces. */
static inline void sm_prefetch_listed(const struct sm_records *records, size_t i, unsigned sides)
{
    if (i + 2 * SM_AHEAD < records->count)
        __builtin_prefetch(records->list[i + 2 * SM_AHEAD], 1);
    if (i + SM_AHEAD < records->count)
        sm_prefetch_parts(records->list[i + SM_AHEAD], sides);
}

/* Does so in a walk from the end to the begin. Of several walks over a long list every second one goes backwards: it
 * begins with the records that are still in the processor's cache. */
static inline void sm_prefetch_listed_back(const struct sm_records *records, size_t i, unsigned sides)
{
    if (i >= 2 * SM_AHEAD)
        __builtin_prefetch(records->list[i - 2 * SM_AHEAD], 1);
    if (i >= SM_AHEAD)
        sm_prefetch_parts(records->list[i - SM_AHEAD], sides);
}

/* While a call that holds a record has nothing locked, other calls may divide its object or cut the piece. Returns the
 * record that has the first of its bytes now. */
static inline struct sm_record *sm_first_of(struct sm_record *record)
{
    return record->kind == SM_PIECE ? record : sm_first_record(sm_owner_of(record));
}

/* Returns whether a transfer to the side has contents to move: they are on the other side alone, or in a file alone. */
static inline bool sm_is_to_be_moved(const struct sm_record *record, enum sm_side side)
{
    return sm_head(record) == sm_bit(sm_other(side)) || sm_is_in_file_alone(record);
}

/* Returns whether a transfer to the side concerns the piece: its contents need it, or a write of its copies was open or
 * in flight when it was published. */
static inline bool sm_is_concerned(const struct sm_piece *piece, enum sm_side side)
{
    return !piece->record.at_rest || sm_is_to_be_moved(&piece->record, side);
}

/* Returns the bits of the sides whose transfers concern the piece. */
static inline unsigned sm_concerned_sides(const struct sm_piece *piece)
{
    const unsigned head = sm_head(&piece->record);
    const unsigned both = sm_bit(SM_CPU) | sm_bit(SM_GPU);
    if (!piece->record.at_rest || sm_is_in_file_alone(&piece->record))
        return both;
    return head == sm_bit(SM_CPU) || head == sm_bit(SM_GPU) ? head ^ both : 0;
}

/* Returns whether the stream has the record's device pointer in this mode, and may use it at once, as on the hot path.
 * An access by it has nothing to do for the record. stream: may be sm_stream_any(). A write would have ended an open
 * read. */
static inline bool sm_is_published_to(const struct sm_record *record, const struct sm_stream *stream, bool writing)
{
    const struct sm_copy *const gpu = sm_slot_of(record, SM_GPU);
    const struct sm_use *const read = gpu->reads;
    if (!writing)
        return (sm_head(record) & sm_bit(SM_GPU)) && read && read->by == stream && !read->fence;
    return sm_raw_head(record) == sm_bit(SM_GPU) && gpu->writer == stream && !gpu->writer_fence && !gpu->read_only &&
           !sm_inflight_is_blocked(gpu, true) && !sm_guard_on();
}

/* Counts for a piece's copy in sm_count_given(). latest: that of the division. */
static inline void sm_count_given_of_part(struct sm_copy *part, unsigned *latest)
{
    *latest = part->given = sm_copy_next_given(*latest > part->given ? *latest : part->given);
}

/* Counts a call that counts on the contents of the record's side: it gave out the pointer, or brought the contents. Of
 * two pieces of a root, the one that was counted later has the larger count. So it can be told after a join. */
static inline void sm_count_given(const struct sm_record *record, enum sm_side side)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    if (record->kind != SM_PIECE)
        copy->given = sm_copy_next_given(copy->given);
    else
        sm_count_given_of_part(copy, &sm_division_of(sm_piece_of(record)->root)->given);
}

/* Counts a call that counts on all valid sides of the record. */
static inline void sm_count_valid(const struct sm_record *record)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_head(record) & sm_bit(side))
            sm_count_given(record, side);
}

/* Returns whether the object has one record. */
static inline bool sm_has_one_record(const struct synced_mem *mem)
{
    return !mem->at.first || sm_size_of(&mem->at.first->record) == sm_size(mem);
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

/* Returns the bits of sides that all heads have, which may be whole; SYNCED_MEM_MIXED: none, but some has one. */
static inline unsigned sm_head_of_all(const struct sm_heads *heads)
{
    const unsigned all = heads->all & SYNCED_MEM_SYNCED;
    return all || !(heads->any & SYNCED_MEM_SYNCED) ? all : (unsigned)SYNCED_MEM_MIXED;
}

/* Returns the bits that the heads of all records have; SYNCED_MEM_MIXED: none, but some record has contents. */
unsigned sm_head_of_records(const struct synced_mem *mem);

#endif
