/*
 * The object: up to two copies of the same contents, and the head. The words:
 *
 *    side          the host (CPU) or the device (GPU); the object has one slot for a copy on each
 *    head          the sides that hold the contents: none, one, or both (SYNCED)
 *    stale         a copy whose bit the head lacks; its memory stays as capacity
 *    access        a call that makes a side's copy ready and returns its pointer
 *    transition    the work that an access needs, and the next head (transitions.h)
 *    fetch         give a side its memory and the contents (fetch.h)
 *    transaction   the frame of every call on an object, with its lock held (transaction.h)
 *    set the head  sm_set_head() alone does it
 *    publish       store the pointers and streams that the hot path may use without the lock
 *    extras        options that differ from the defaults
 *    view          an object whose bytes are a part of another's, its root's
 *    divided       of a root: it has views, so its contents are cut into pieces (piece.h)
 *    piece         a part of a divided root's bytes, with a head and copies of its own
 *    record        what has a head and work in flight: an undivided object's own, or a piece's (span.h)
 *    in file       of a record: a file has the contents, at the place that its backing names (backing.h)
 *    promised      of a record: a write has begun that makes a file its place, if nobody changes the contents
 *
 * The size of the struct matters: frameworks have a million objects, most of them untouched.
 */
#ifndef SM_OBJECT_H
#define SM_OBJECT_H

#include "memory/allocator.h"
#include "copy/copy.h"
#include "base/mutex.h"
#include "object/transitions.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(offsetof(struct sm_copy, data) == 0, "the hot path finds the pointer where a copy begins");
_Static_assert(sizeof(void *) < 8 || sizeof(struct sm_copy) == 64, "a part is one cache line");

/* The caller's options beyond size and device. Absent if all have their defaults. */
struct sm_backing;
struct sm_sharing;
struct sm_extras {
    struct sm_sharing *sharing; /* of a shareable object, see shareable.h; else NULL */
    size_t requested_alignment; /* the alignment in the options; 0: memory of the caller may have any */
    size_t alignment;
    void *user;
    const struct sm_allocator *allocators[SM_SIDES]; /* NULL: the allocators of all objects serve */
    unsigned char requested_placement;               /* synced_mem_placement_kind */
    atomic_uchar placement; /* the same until it is decided, then the one in effect; written with the lock held */
    bool placed;            /* the placement is decided; guarded by the lock */
    bool is_evictable;      /* constant; these are the extras of a struct sm_evictable (evictable.h) */
    char name[48];
};

enum sm_kind { SM_WHOLE, SM_VIEW, SM_PIECE };

/*
 * A record: what has a head and work in flight. It is the first member of a piece, and a member of each other object.
 * An undivided object, and a view of 0 bytes, is described by its own record. A divided root keeps its memory in its
 * own record, and its pieces have the heads and the work in flight.
 *
 * Invariants of each record while the lock is free. sm_object_is_valid() checks them at the end of most calls:
 *
 *    head has the bit of a side        =>  copy[side] exists, and has room for size bytes
 *    copy[SM_GPU] exists               =>  device >= 0, and it is the copy's device
 *    either copy is shared             =>  it is in both slots
 *
 * Only sm_set_head() in head.h changes the head of a record. A record that takes over bytes of another gets its
 * head in piece.c.
 */
struct sm_record {
    _Atomic(struct sm_copy *) copy[SM_SIDES]; /* never NULL; written with the lock held, and read by the hot path */
    atomic_size_t size;                       /* written with the lock held */
    /* Of a root: its views that have bytes. Of a piece: the borders of views where it begins. Calls that count on a
     * piece count in both. */
    unsigned holders;
    /* synced_mem_head_kind: bit 1 << side is set where copy[side] holds the contents. With SM_IN_FILE and SM_PROMISED.
     * SM_HEAD_OF_PIECES: of a view or a divided root that has no pointers published. */
    atomic_uchar head;
    unsigned char kind; /* enum sm_kind; constant */
    union {
        atomic_short device; /* of a root: SYNCED_MEM_DEVICE_CURRENT until first needed, then constant */
        struct {             /* of a piece */
            bool at_rest;    /* no write was open or in flight on its copies when it was published */
            /* 1 << i is set: it has the mark i (piece_tree.h). SM_MENTIONED: a push or pull that lists its records has
             * listed it (mentions.h). */
            unsigned char marks;
        };
    };
};

/* A part of a divided root's bytes. A walk that passes by a piece reads its first cache line alone. */
struct sm_piece {
    _Alignas(64) struct sm_record record;
    struct synced_mem *root;
    size_t offset; /* in the root */
    struct sm_piece *after;
    struct synced_mem *hot; /* the objects that have the piece's pointers published, linked by next_hot */
    struct sm_piece *before;
    struct sm_piece_node *leaf; /* that has the piece; NULL: there is no tree */
    struct sm_backing *backing; /* NULL: the piece is not in a file */
};

/* The first piece of a divided root, which the root keeps until it is whole again, and what the root has for all. */
struct sm_division {
    struct sm_piece first;
    struct sm_piece_node *tree; /* of piece_tree.h; NULL: there are few pieces */
    struct sm_piece_node *leaf; /* the leaf that was found last, or NULL */
    struct sm_piece *hint;      /* the piece that was found last */
    unsigned loose;             /* how many of the other pieces have no holders */
    unsigned held;              /* how often calls hold pieces, see piece.h */
    unsigned given;             /* the latest count of the root's copies, see sm_count_given() */
    /* The stream that was given the pointers of all pieces last, to read and to write, for marks (piece_tree.h). NULL:
     * there is none. May be gone if all pieces are marked. */
    const struct sm_stream *user[2];
};

/* The place of an object among the pieces. first is NULL in an undivided object and in a view of 0 bytes. A view begins
 * where its first piece begins, as long as both exist. */
struct sm_position {
    struct sm_piece *first;
    union {
        struct {
            /* While pointers are published from the first piece: the place in that piece's list. */
            struct synced_mem *next_hot;
            struct synced_mem **hot_link; /* NULL: none are published */
        };
        struct { /* of a view of 0 bytes */
            struct synced_mem *root;
            size_t offset;
        } empty;
        struct sm_backing *backing; /* of an undivided root; NULL: it is not in a file. hot_link is NULL then */
    };
};

/*
 * An object: a root or a view. Invariants of each object that has pointers published, from its only record:
 *
 *    ready[side][...] is set           =>  the head has the side's bit, and ready is copy[side]->data
 *    ready[side][writing] is set       =>  the head has no other bit
 *    on[...] is set                    =>  the head has the device's bit, and the stream was given the copy's pointer, or
 *                                          each stream of the set was
 *    on[writing] is set                =>  the head has no other bit, and that stream may write now
 *
 * Only publish.c writes ready and on, and shows the head in objects that are one piece.
 */
struct synced_mem {
    /* The hot path without a stream: the pointer that a read ([0]), or a mutable access or overwrite ([1]), of a side
     * returns at once. NULL: the access takes the lock. */
    _Atomic(void *) ready[SM_SIDES][2];
    /* The hot path on a stream: the stream that gets the device copy's pointer at once, or to read a set of streams
     * (stream_set.h). Never NULL. */
    _Atomic(struct sm_stream *) on[2];
    union {
        struct sm_record record; /* a view that has bytes uses size, head and kind of it */
        struct { /* of a view that has bytes; the records of its pieces may change while the hot path reads */
            _Atomic(void *) gpu_data;
            /* The address at which the hot path on a stream finds the pointer. A copy begins with its own. */
            _Atomic(_Atomic(void *) *) gpu_data_at;
        };
    };
    struct sm_mutex lock; /* of a root and its views: guards all that is neither atomic nor constant, also in pieces */
    atomic_uint references;
    unsigned generation; /* of the process that created the object; constant */
    atomic_uint visits;  /* counts the walks that visit the object, see objects.c; kept while the cell is free */
    struct sm_position at;
    struct sm_extras *extras; /* constant; while the cell is free, the slab's link is here */
};

_Static_assert(sizeof(void *) < 8 || sizeof(struct synced_mem) == 128, "an untouched object is two cache lines");
_Static_assert(sizeof(void *) < 8 || offsetof(struct sm_piece, before) == 64, "a walk reads one cache line");
_Static_assert(offsetof(struct sm_piece, record) == 0 && offsetof(struct sm_division, first) == 0,
               "sm_piece_of() and sm_division_of() convert pointers");

enum { SM_HEAD_OF_PIECES = 0xff };
enum { SM_MENTIONED = 0x80 };

/* A bit of a record's head, beside those of the sides: the contents are in a file. Pointers to write are published only
 * without it, so that no write goes unnoticed. */
enum { SM_IN_FILE = 1 << SM_SIDES };
/* Another one, with the same effect: a write of the contents has begun that puts them into a file. Its backing is a
 * promise (backing.h). */
enum { SM_PROMISED = 2 << SM_SIDES };

enum { SM_DEFAULT_ALIGNMENT = 64 };

/* Returns the piece of a record that is one. */
static inline struct sm_piece *sm_piece_of(const struct sm_record *record)
{
    assert(record->kind == SM_PIECE);
    return (struct sm_piece *)(uintptr_t)record;
}

static inline struct sm_division *sm_division_of(const struct synced_mem *root)
{
    assert(root->record.kind == SM_WHOLE);
    return (struct sm_division *)(void *)root->at.first;
}

/* Returns the object whose bytes a view's are; the object itself if it is no view. */
static inline struct synced_mem *sm_root(const struct synced_mem *mem)
{
    if (mem->record.kind == SM_WHOLE)
        return (struct synced_mem *)(uintptr_t)mem;
    return mem->at.first ? mem->at.first->root : mem->at.empty.root;
}

static inline bool sm_is_divided(const struct synced_mem *mem)
{
    return mem->at.first != NULL;
}

/* Returns the record in the object itself, which has its memory. */
static inline struct sm_record *sm_own_record(const struct synced_mem *mem)
{
    assert(mem->record.kind == SM_WHOLE || !mem->at.first);
    return (struct sm_record *)(uintptr_t)&mem->record;
}

/* Returns the object that has the memory: the root, or a view of 0 bytes itself. Its lock and device are the root's. */
static inline struct synced_mem *sm_owner(const struct synced_mem *mem)
{
    return mem->record.kind == SM_VIEW && !mem->at.first ? (struct synced_mem *)(uintptr_t)mem : sm_root(mem);
}

/* Returns the object that has a record's memory: a piece's root, or the object that the record is in. */
static inline struct synced_mem *sm_owner_of(const struct sm_record *record)
{
    if (record->kind == SM_PIECE)
        return sm_piece_of(record)->root;
    return (struct synced_mem *)((uintptr_t)record - offsetof(struct synced_mem, record));
}

/* Returns the place of a view in its root, in bytes; 0: it is no view. */
static inline size_t sm_offset(const struct synced_mem *mem)
{
    if (mem->record.kind != SM_VIEW)
        return 0;
    return mem->at.first ? mem->at.first->offset : mem->at.empty.offset;
}

static inline size_t sm_object_alignment(const struct synced_mem *mem)
{
    return mem->extras ? mem->extras->alignment : SM_DEFAULT_ALIGNMENT;
}

/* Returns the allocator for new memory of the side; NULL: the library obtains its own. */
static inline const struct sm_allocator *sm_object_allocator(const struct synced_mem *mem, enum sm_side side)
{
    const struct sm_allocator *const own = mem->extras ? mem->extras->allocators[side] : NULL;
    const bool separate = !mem->extras || mem->extras->requested_placement == SYNCED_MEM_PLACEMENT_SEPARATE;
    const bool own_memory = mem->extras && (mem->extras->sharing || mem->extras->is_evictable);
    return own || !separate || own_memory ? own : sm_allocator_of_all(side);
}

/* Returns the object's name; "": it has none. */
static inline const char *sm_object_name(const struct synced_mem *mem)
{
    return mem->extras ? mem->extras->name : "";
}

/* The next functions read atomics that another thread may change. The values are stable only with the lock held. */

/* Returns all bits of the head. */
static inline unsigned sm_raw_head(const struct sm_record *record)
{
    return atomic_load_explicit(&record->head, memory_order_relaxed);
}

/* Returns the bits that say where the contents are. */
static inline unsigned sm_whole_head(const struct sm_record *record)
{
    return sm_raw_head(record) & ~(unsigned)SM_PROMISED;
}

/* Returns the bits of the sides. */
static inline unsigned sm_head(const struct sm_record *record)
{
    return sm_whole_head(record) & SYNCED_MEM_SYNCED;
}

static inline bool sm_is_in_file(const struct sm_record *record)
{
    return (sm_whole_head(record) & SM_IN_FILE) != 0;
}

/* Returns whether a file has the contents, or is about to. */
static inline bool sm_has_backing(const struct sm_record *record)
{
    return (sm_raw_head(record) & (SM_IN_FILE | SM_PROMISED)) != 0;
}

/* Returns whether neither side has the contents, but a file does. */
static inline bool sm_is_in_file_alone(const struct sm_record *record)
{
    return sm_whole_head(record) == SM_IN_FILE;
}

static inline size_t sm_size_of(const struct sm_record *record)
{
    return atomic_load_explicit(&record->size, memory_order_relaxed);
}

static inline size_t sm_size(const struct synced_mem *mem)
{
    return sm_size_of(&mem->record);
}

static inline int sm_device(const struct synced_mem *mem)
{
    return atomic_load_explicit(&sm_root(mem)->record.device, memory_order_relaxed);
}

static inline void sm_put_device(struct synced_mem *mem, int device)
{
    atomic_store_explicit(&sm_root(mem)->record.device, (short)device, memory_order_relaxed);
}

/* Returns the object as traces name it. */
static inline struct sm_subject sm_subject_of(const struct synced_mem *mem)
{
    struct sm_subject subject = {.object = mem, .name = sm_object_name(mem)};
    if (mem->record.kind == SM_VIEW) {
        subject.root = sm_root(mem);
        subject.root_name = sm_object_name(sm_root(mem));
        subject.begin = sm_offset(mem);
        subject.end = subject.begin + sm_size(mem);
        subject.is_part = true;
        subject.offset = subject.begin;
    }
    return subject;
}

/* Begins to load a record into the processor's cache. */
static inline void sm_prefetch_record(const struct sm_record *record)
{
    __builtin_prefetch(record, 1);
    __builtin_prefetch((const char *)(record + 1) - 1, 1);
}

/* Returns the side's copy, or sm_no_copy, which has no source and no work in flight. */
static inline struct sm_copy *sm_slot_of(const struct sm_record *record, enum sm_side side)
{
    return atomic_load_explicit(&record->copy[side], memory_order_relaxed);
}

/* Returns the side's copy; NULL: there is none. */
static inline struct sm_copy *sm_copy_of(const struct sm_record *record, enum sm_side side)
{
    struct sm_copy *const copy = sm_slot_of(record, side);
    return copy == &sm_no_copy ? NULL : copy;
}

enum { SM_BOTH_SIDES = SYNCED_MEM_SYNCED };

/* Begins to load a record's copies on some sides, as bits of a head. The record is loaded. Of a record that is read, its
 * head says which. */
static inline void sm_prefetch_copies(const struct sm_record *record, unsigned sides)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sides & sm_bit(side))
            sm_prefetch_copy(sm_slot_of(record, side));
}

/* Puts the copy into its slot; NULL empties it. A shared copy goes into both slots. */
static inline void sm_put_copy(struct sm_record *record, enum sm_side side, struct sm_copy *copy)
{
    atomic_store_explicit(&record->copy[side], copy ? copy : &sm_no_copy, memory_order_relaxed);
    if (copy && sm_copy_is_shared(copy))
        atomic_store_explicit(&record->copy[sm_other(side)], copy, memory_order_relaxed);
}

/* Takes the copy out of its slot, and a shared copy out of both. Returns it, or NULL. The caller owns it then. */
static inline struct sm_copy *sm_take_copy(struct sm_record *record, enum sm_side side)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    atomic_store_explicit(&record->copy[side], &sm_no_copy, memory_order_relaxed);
    if (copy && sm_copy_is_shared(copy))
        atomic_store_explicit(&record->copy[sm_other(side)], &sm_no_copy, memory_order_relaxed);
    return copy;
}

/* Returns the bits of the sides that use the side's copy. */
static inline unsigned sm_bits_of(const struct sm_record *record, enum sm_side side)
{
    return sm_copy_is_shared(sm_slot_of(record, side)) ? sm_bit(SM_CPU) | sm_bit(SM_GPU) : sm_bit(side);
}

#endif
