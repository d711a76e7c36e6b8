/* The object. Its size matters: frameworks have a million of them, most untouched. */
#ifndef SM_OBJECT_H
#define SM_OBJECT_H

#include "copy.h"

#include <pthread.h>

enum sm_side { SM_CPU, SM_GPU, SM_SIDES };

/* What the caller gave at creation beyond size and device; absent when all is default. */
struct sm_extras {
    size_t asked; /* the alignment of the options; 0: any will do for memory of the caller */
    size_t alignment;
    void *user;
    char name[48];
};

/*
 * Invariants, checked by sm_object_is_valid() while the lock is held:
 *   head has the bit of a side        =>  copy[side] is there
 *   copy[SM_GPU] is there             =>  device >= 0, and it is the copy's device
 *   ready[side][...] is set           =>  the head has the side's bit, and it is copy[side]->data
 *   ready[side][writing] is set       =>  the head has no other bit
 * head is written by commit() in coherence.c and nowhere else; ready by publish(), likewise.
 */
struct synced_mem {
    /* The hot path: what a read, or a mutable or overwrite, of a side may return without any further look. NULL: take
     * the lock and see. */
    _Atomic(void *) ready[SM_SIDES][2];
    pthread_mutex_t lock; /* guards all that is neither atomic nor constant */
    size_t size;          /* constant */
    atomic_uint references;
    atomic_uchar head; /* synced_mem_state: bit 1 << side is set where copy[side] holds the contents */
    atomic_int device; /* SYNCED_MEM_DEVICE_CURRENT until first needed, then constant */
    struct sm_copy *copy[SM_SIDES];
    struct sm_extras *extras; /* constant */
    void *slab_link;          /* the slab's, while the cell is free */
};

enum { SM_DEFAULT_ALIGNMENT = 64 };

static inline size_t sm_object_alignment(const struct synced_mem *mem)
{
    return mem->extras ? mem->extras->alignment : SM_DEFAULT_ALIGNMENT;
}

bool sm_object_is_valid(const struct synced_mem *mem);

#endif
