/*
 * Evictable objects: those whose copy on a side may go while nobody holds it there. Their pointers to the device are
 * published only while they are held; while host copies have a budget, that is so on the host too. Such an object has
 * no views, and memory of the library's own alone.
 */
#ifndef SM_EVICTABLE_H
#define SM_EVICTABLE_H

#include "memory/budget.h"
#include "object/object.h"

/* The extras of an evictable object. */
struct sm_evictable {
    struct sm_extras extras; /* the first member of the struct */
    struct sm_member member; /* the device copy */
    struct sm_member host;   /* the host copy */
    struct synced_mem *mem;
    /* Pointers to the side are published, or a stream's use of its copy is open. Written with the object's lock held;
     * see sm_publish_meet(). */
    atomic_bool is_used[SM_SIDES];
};

/* Returns NULL if the object is not evictable. */
static inline struct sm_evictable *sm_evictable_of(const struct synced_mem *mem)
{
    return mem->extras && mem->extras->is_evictable ? (struct sm_evictable *)(void *)mem->extras : NULL;
}

/* Completes the extras of an evictable object that no other thread can find yet. */
static inline void sm_evictable_init(struct synced_mem *mem)
{
    struct sm_evictable *const evictable = sm_evictable_of(mem);
    evictable->mem = mem;
    evictable->host.is_of_host = true;
}

static inline struct sm_evictable *sm_evictable_of_member(struct sm_member *member)
{
    return (struct sm_evictable *)(void *)((char *)member - offsetof(struct sm_evictable, member));
}

static inline struct sm_evictable *sm_evictable_of_host(struct sm_member *member)
{
    return (struct sm_evictable *)(void *)((char *)member - offsetof(struct sm_evictable, host));
}

/* Returns the copy of an evictable object on the side, as budgets know it. */
static inline struct sm_member *sm_member_of(const struct synced_mem *mem, enum sm_side side)
{
    struct sm_evictable *const evictable = sm_evictable_of(mem);
    return side == SM_GPU ? &evictable->member : &evictable->host;
}

static inline bool sm_is_held(const struct sm_evictable *evictable, enum sm_side side)
{
    const struct sm_member *const member = side == SM_GPU ? &evictable->member : &evictable->host;
    return atomic_load_explicit(&member->holds, memory_order_relaxed) > 0;
}

static inline bool sm_is_used(const struct sm_evictable *evictable, enum sm_side side)
{
    return atomic_load_explicit(&evictable->is_used[side], memory_order_relaxed);
}

/* Returns whether the side's pointers of the object may not be given out: its copy there may go. */
static inline bool sm_is_unheld(const struct synced_mem *mem, enum sm_side side)
{
    const struct sm_evictable *const evictable = sm_evictable_of(mem);
    return evictable && !sm_is_held(evictable, side) && (side == SM_GPU || sm_host_budget_on());
}

/* Fails with ERR_INVALID_STATE if the object is held: its memory and its size stay. */
static inline synced_mem_status sm_check_not_held(const struct synced_mem *mem)
{
    const struct sm_evictable *const evictable = sm_evictable_of(mem);
    if (!evictable || (!sm_is_held(evictable, SM_GPU) && !sm_is_held(evictable, SM_CPU)))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is held: its memory and its size stay until it is unheld");
}

/* Fails with ERR_INVALID_STATE if the object is evictable. */
static inline synced_mem_status sm_check_not_evictable(const struct synced_mem *mem)
{
    if (!sm_evictable_of(mem))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "the object is evictable: its memory is the library's own, and it has no views");
}

/* Returns whether the side alone has the contents, and no file is about to, as far as is known without the lock. */
static inline bool sm_is_dirty(const struct synced_mem *mem, enum sm_side side)
{
    return sm_raw_head(&mem->record) == sm_bit(side);
}

/* Returns the bytes that the object's memory on the side has, or would have at most. */
static inline uint64_t sm_evictable_bytes(const struct synced_mem *mem, enum sm_side side)
{
    return side == SM_GPU ? sm_copy_device_bytes(sm_size(mem), sm_object_alignment(mem))
                          : sm_copy_host_bytes(sm_size(mem), sm_object_alignment(mem));
}

#endif
