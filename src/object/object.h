/*
 * The object: up to two copies of one piece of contents, and the head. The words:
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
 *    piece         a hidden record for a part of a divided root's bytes, with a head and copies of its own
 *    records       of an object: the pieces that its bytes consist of; an undivided object is its own record (span.h)
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

/* The caller's options beyond size and device. Absent if all have their defaults. */
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
    char name[48];
};

enum sm_kind { SM_WHOLE, SM_VIEW, SM_PIECE };

/* The place of an object among the pieces. first is NULL in an undivided object and in a view of 0 bytes, which is a
 * record of its own. A view begins where its first piece begins, as long as both exist. */
struct sm_position {
    struct synced_mem *first;
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
    };
};

/* The neighbours of a piece, and the objects that consist of it alone. */
struct sm_neighbours {
    struct synced_mem *before;
    struct synced_mem *after;
    struct synced_mem *hot; /* the objects that have the piece's pointers published, linked by next_hot */
};

/*
 * Invariants, which sm_object_is_valid() checks when the lock is released. They hold for each record:
 *
 *    head has the bit of a side        =>  copy[side] exists, and has room for size bytes
 *    copy[SM_GPU] exists               =>  device >= 0, and it is the copy's device
 *    either copy is shared             =>  it is in both slots
 *
 * and for each object that has pointers published, from its only record:
 *
 *    ready[side][...] is set           =>  the head has the side's bit, and ready is copy[side]->data
 *    ready[side][writing] is set       =>  the head has no other bit
 *    on[...] is set                    =>  the head has the device's bit, and the stream was given the copy's pointer
 *    on[writing] is set                =>  the head has no other bit, and that stream may write now
 *
 * Only sm_set_head() in transaction.c changes the head of a record. A record that takes over bytes of another gets its
 * head in piece.c. Only publish.c writes ready and on, and shows the head in objects that are one piece.
 */
struct synced_mem {
    union {
        struct { /* of an object */
            /* The hot path without a stream: the pointer that a read ([0]), or a mutable access or overwrite ([1]), of
             * a side returns at once. NULL: the access takes the lock. */
            _Atomic(void *) ready[SM_SIDES][2];
            /* The hot path on a stream: the stream that gets the device copy's pointer at once. Never NULL. */
            _Atomic(struct sm_stream *) on[2];
        };
        struct { /* of a piece */
            struct synced_mem *root;
            size_t offset; /* in the root */
            union {
                struct synced_mem *next_entered[SM_SIDES]; /* in the lists of concerned.h */
                struct {                                   /* of the first piece, which is in no list */
                    struct sm_piece_node *tree;            /* of piece_tree.h; NULL: there are few pieces */
                    struct sm_piece_node *leaf;            /* the leaf that was found last, or NULL */
                    struct synced_mem *hint;               /* the piece that was found last */
                };
            };
        };
    };
    /* Written with the lock held; the device's is read without it on the hot path. */
    union {
        /* Never NULL. A divided root has the memory here, and its pieces have the work in flight. */
        _Atomic(struct sm_copy *) copy[SM_SIDES];
        struct { /* of a view that has bytes; the records of its pieces may change while the hot path reads */
            _Atomic(void *) gpu_data;
            /* The address at which the hot path on a stream finds the pointer. A copy begins with its own. */
            _Atomic(_Atomic(void *) *) gpu_data_at;
        };
    };
    union {
        struct sm_mutex lock; /* guards all fields that are neither atomic nor constant, also of views and pieces */
        unsigned loose;       /* in the first piece: how many of the others have no holders */
    };
    union {
        atomic_uint references; /* of an object */
        unsigned kept;          /* in the first piece: how often calls keep pieces, see piece.h */
    };
    atomic_size_t size;  /* written with the lock held */
    unsigned generation; /* of the process that created the object; constant */
    union {
        atomic_uint visits; /* counts the walks that visit the object, see objects.c; kept while the cell is free */
        unsigned given;     /* in the first piece: the latest count of its root's copies, see sm_count_given() */
    };
    union {
        atomic_short device; /* SYNCED_MEM_DEVICE_CURRENT until first needed, then constant; of views: unused */
        struct {             /* of a piece */
            bool at_rest;    /* no write was open or in flight on its copies when it was published */
            /* 1 << side is set: that list of concerned.h has it, or is incomplete. SM_MENTIONED: a push or pull that
             * lists its records has listed it (mentions.h). */
            unsigned char entered;
        };
    };
    /* synced_mem_head_kind: bit 1 << side is set where copy[side] holds the contents. SM_HEAD_OF_PIECES: of a view, or a
     * divided root, that has no pointers published. */
    atomic_uchar head;
    unsigned char kind; /* enum sm_kind; constant */
    /* Of a root: its views that have bytes. Of a piece: the borders of views where it begins. Calls that count on a
     * piece count in both. */
    unsigned holders;
    union {
        struct sm_position at;       /* of an object */
        struct sm_neighbours beside; /* of a piece */
    };
    /* While the cell is free, the slab's link is here. */
    union {
        struct sm_extras *extras;       /* of an object; constant */
        struct sm_concerned *concerned; /* of a first piece; NULL: no push or pull of the root has made the lists */
    };
};

enum { SM_HEAD_OF_PIECES = 0xff };
enum { SM_MENTIONED = 0x80 };

enum { SM_DEFAULT_ALIGNMENT = 64 };

/* Returns the object whose bytes the view's or piece's are; the object itself if it is no part. */
static inline struct synced_mem *sm_root(const struct synced_mem *mem)
{
    struct synced_mem *const itself = (struct synced_mem *)(uintptr_t)mem;
    if (mem->kind == SM_PIECE)
        return mem->root;
    if (mem->kind == SM_WHOLE)
        return itself;
    return mem->at.first ? mem->at.first->root : mem->at.empty.root;
}

/* Returns the object that has the memory: the root, or a view of 0 bytes itself. Its lock and device are the root's. */
static inline struct synced_mem *sm_owner(const struct synced_mem *mem)
{
    return mem->kind == SM_VIEW && !mem->at.first ? (struct synced_mem *)(uintptr_t)mem : sm_root(mem);
}

/* Returns the place of a view in its root, in bytes; 0: it is no view. */
static inline size_t sm_offset(const struct synced_mem *mem)
{
    if (mem->kind != SM_VIEW)
        return 0;
    return mem->at.first ? mem->at.first->offset : mem->at.empty.offset;
}

static inline bool sm_is_divided(const struct synced_mem *mem)
{
    return mem->kind != SM_PIECE && mem->at.first;
}

static inline size_t sm_object_alignment(const struct synced_mem *mem)
{
    assert(mem->kind != SM_PIECE);
    return mem->extras ? mem->extras->alignment : SM_DEFAULT_ALIGNMENT;
}

/* Returns the allocator for new memory of the side; NULL: the library obtains its own. */
static inline const struct sm_allocator *sm_object_allocator(const struct synced_mem *mem, enum sm_side side)
{
    assert(mem->kind != SM_PIECE);
    const struct sm_allocator *const own = mem->extras ? mem->extras->allocators[side] : NULL;
    const bool separate = !mem->extras || mem->extras->requested_placement == SYNCED_MEM_PLACEMENT_SEPARATE;
    const bool shareable = mem->extras && mem->extras->sharing;
    return own || !separate || shareable ? own : sm_allocator_of_all(side);
}

/* Returns the object's name, of a piece its root's; "": it has none. */
static inline const char *sm_object_name(const struct synced_mem *mem)
{
    const struct sm_extras *const extras = mem->kind == SM_PIECE ? mem->root->extras : mem->extras;
    return extras ? extras->name : "";
}

/* The next functions read atomics that another thread may change. The values are stable only with the lock held. */
static inline unsigned sm_head(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->head, memory_order_relaxed);
}

static inline int sm_device(const struct synced_mem *mem)
{
    return atomic_load_explicit(&sm_root(mem)->device, memory_order_relaxed);
}

static inline size_t sm_size(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->size, memory_order_relaxed);
}

/* Returns an object, not a piece, as traces name it. */
static inline struct sm_subject sm_subject_of(const struct synced_mem *mem)
{
    struct sm_subject subject = {.object = mem, .name = sm_object_name(mem)};
    if (mem->kind == SM_VIEW) {
        subject.root = sm_root(mem);
        subject.root_name = sm_object_name(sm_root(mem));
        subject.begin = sm_offset(mem);
        subject.end = subject.begin + sm_size(mem);
        subject.is_part = true;
        subject.offset = subject.begin;
    }
    return subject;
}

/* Returns the side's copy, or sm_no_copy, which has no source and no work in flight. */
static inline struct sm_copy *sm_slot_of(const struct synced_mem *mem, enum sm_side side)
{
    assert(mem->kind != SM_VIEW || !mem->at.first);
    return atomic_load_explicit(&mem->copy[side], memory_order_relaxed);
}

/* Returns the side's copy; NULL: there is none. */
static inline struct sm_copy *sm_copy_of(const struct synced_mem *mem, enum sm_side side)
{
    struct sm_copy *const copy = sm_slot_of(mem, side);
    return copy == &sm_no_copy ? NULL : copy;
}

/* Puts the copy into its slot; NULL empties it. A shared copy goes into both slots. */
static inline void sm_put_copy(struct synced_mem *mem, enum sm_side side, struct sm_copy *copy)
{
    atomic_store_explicit(&mem->copy[side], copy ? copy : &sm_no_copy, memory_order_relaxed);
    if (copy && sm_copy_is_shared(copy))
        atomic_store_explicit(&mem->copy[sm_other(side)], copy, memory_order_relaxed);
}

/* Takes the copy out of its slot, and a shared copy out of both. Returns it, or NULL. The caller owns it then. */
static inline struct sm_copy *sm_take_copy(struct synced_mem *mem, enum sm_side side)
{
    struct sm_copy *const copy = sm_copy_of(mem, side);
    atomic_store_explicit(&mem->copy[side], &sm_no_copy, memory_order_relaxed);
    if (copy && sm_copy_is_shared(copy))
        atomic_store_explicit(&mem->copy[sm_other(side)], &sm_no_copy, memory_order_relaxed);
    return copy;
}

/* Returns the bits of the sides that use the side's copy. */
static inline unsigned sm_bits_of(const struct synced_mem *mem, enum sm_side side)
{
    return sm_copy_is_shared(sm_slot_of(mem, side)) ? sm_bit(SM_CPU) | sm_bit(SM_GPU) : sm_bit(side);
}

static inline void sm_put_device(struct synced_mem *mem, int device)
{
    atomic_store_explicit(&sm_root(mem)->device, (short)device, memory_order_relaxed);
}

#endif
