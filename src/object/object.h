/* The object. Its size matters: frameworks have a million of them, most untouched. */
#ifndef SM_OBJECT_H
#define SM_OBJECT_H

#include "memory/allocator.h"
#include "copy/copy.h"
#include "base/mutex.h"
#include "object/transitions.h"

/* What the caller gave at creation beyond size and device; absent when all is default. */
struct sm_extras {
    size_t asked; /* the alignment of the options; 0: any will do for memory of the caller */
    size_t alignment;
    void *user;
    const struct sm_allocator *allocators[SM_SIDES]; /* NULL: as for all objects */
    unsigned char asked_placement;                   /* synced_mem_placement_kind */
    atomic_uchar placement; /* that, until it is decided what it is here; written with the lock held */
    bool placed;            /* it is decided; guarded by the lock */
    char name[48];
};

/*
 * Invariants, checked by sm_object_is_valid() when the lock is let go of:
 *   head has the bit of a side        =>  copy[side] is there, and has room for size bytes
 *   copy[SM_GPU] is there             =>  device >= 0, and it is the copy's device
 *   either copy is shared             =>  it is both
 *   ready[side][...] is set           =>  the head has the side's bit, and it is copy[side]->data
 *   ready[side][writing] is set       =>  the head has no other bit
 *   on[...] is set                    =>  the head has the device copy's bit, and the stream was given its pointer
 *   on[writing] is set                =>  the head has no other bit, and that stream may write now
 * head is written by commit() in transaction.c and nowhere else; ready and on by publish(), likewise.
 */
struct synced_mem {
    /* The hot path without a stream: what a read, or a mutable or overwrite, of a side may return without any further
     * look. NULL: take the lock and see. */
    _Atomic(void *) ready[SM_SIDES][2];
    /* The hot path on a stream: which one may have the device copy's pointer so. Never NULL. */
    _Atomic(struct sm_stream *) on[2];
    _Atomic(struct sm_copy *)
        copy[SM_SIDES];   /* written with the lock held; read without it on the hot path; never NULL */
    struct sm_mutex lock; /* guards all that is neither atomic nor constant */
    atomic_uint references;
    atomic_size_t size;    /* written with the lock held */
    unsigned generation;   /* of the process that made it; constant */
    atomic_uint visits;    /* of walks that look at it, see objects.c; kept while the cell is free */
    atomic_short device;   /* SYNCED_MEM_DEVICE_CURRENT until first needed, then constant */
    atomic_uchar head;     /* synced_mem_state: bit 1 << side is set where copy[side] holds the contents */
    char to_two_lines[29]; /* of the cache */
    /* Constant. While the cell is free the slab's link is here. */
    struct sm_extras *extras;
};

enum { SM_DEFAULT_ALIGNMENT = 64 };

static inline size_t sm_object_alignment(const struct synced_mem *mem)
{
    return mem->extras ? mem->extras->alignment : SM_DEFAULT_ALIGNMENT;
}

/* Who is asked for new memory of the side; NULL: nobody, the library has its own. */
static inline const struct sm_allocator *sm_object_allocator(const struct synced_mem *mem, enum sm_side side)
{
    const struct sm_allocator *const own = mem->extras ? mem->extras->allocators[side] : NULL;
    const bool separate = !mem->extras || mem->extras->asked_placement == SYNCED_MEM_PLACEMENT_SEPARATE;
    return own || !separate ? own : sm_allocator_of_all(side);
}

/* "": it has none. */
static inline const char *sm_object_name(const struct synced_mem *mem)
{
    return mem->extras ? mem->extras->name : "";
}

/* What another thread may be changing is only read so with the lock held. */
static inline unsigned sm_head(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->head, memory_order_relaxed);
}

static inline int sm_device(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->device, memory_order_relaxed);
}

static inline size_t sm_size(const struct synced_mem *mem)
{
    return atomic_load_explicit(&mem->size, memory_order_relaxed);
}

static inline struct sm_copy *sm_copy_of(const struct synced_mem *mem, enum sm_side side)
{
    struct sm_copy *const copy = atomic_load_explicit(&mem->copy[side], memory_order_relaxed);
    return copy == &sm_no_copy ? NULL : copy;
}

/* A shared one goes into both slots. */
static inline void sm_put_copy(struct synced_mem *mem, enum sm_side side, struct sm_copy *copy)
{
    atomic_store_explicit(&mem->copy[side], copy ? copy : &sm_no_copy, memory_order_relaxed);
    if (copy && sm_copy_is_shared(copy))
        atomic_store_explicit(&mem->copy[sm_other(side)], copy, memory_order_relaxed);
}

/* Takes the copy out of its slot, a shared one out of both. */
static inline struct sm_copy *sm_take_copy(struct synced_mem *mem, enum sm_side side)
{
    struct sm_copy *const copy = sm_copy_of(mem, side);
    atomic_store_explicit(&mem->copy[side], &sm_no_copy, memory_order_relaxed);
    if (copy && sm_copy_is_shared(copy))
        atomic_store_explicit(&mem->copy[sm_other(side)], &sm_no_copy, memory_order_relaxed);
    return copy;
}

/* The sides that use the side's copy. */
static inline unsigned sm_bits_of(const struct synced_mem *mem, enum sm_side side)
{
    const struct sm_copy *const copy = sm_copy_of(mem, side);
    return copy && sm_copy_is_shared(copy) ? sm_bit(SM_CPU) | sm_bit(SM_GPU) : sm_bit(side);
}

static inline void sm_put_device(struct synced_mem *mem, int device)
{
    atomic_store_explicit(&mem->device, (short)device, memory_order_relaxed);
}

#endif
