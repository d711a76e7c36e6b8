/* Holds: evictable objects stay on a side for as long as they are held there. A hold gets the memory of all its objects
 * at once or none of it, so two of them never evict one another's objects in turn. */
#ifndef SM_HOLD_H
#define SM_HOLD_H

#include "object/evictable.h"
#include "object/transitions.h"

struct sm_hold_call {
    struct synced_mem *const *mems;
    size_t count;
    enum sm_side side;
    enum sm_mode mode;
    synced_mem_stream handle; /* for the device's side */
};

/* Holds the objects, each of which is named once, and gives their copies on the side memory, and but for an overwrite
 * the contents, on the device in the order of the stream. Evicts others if the budget, or the device, has too little
 * memory. Blocks as transfers do, and where memory is short. On failure none is held; what was fetched stays. *failed:
 * the object that the failure is about, or NULL. ERR_INVALID_STATE: an object is not evictable. ERR_INVALID_ARGUMENT:
 * one is named twice. ERR_OUT_OF_DEVICE_MEMORY, ERR_OUT_OF_HOST_MEMORY: the objects are larger than the budget, or
 * others hold too much of it; nothing was evicted. */
synced_mem_status sm_hold(const struct sm_hold_call *call, struct synced_mem **failed);

/* Ends one hold of each object on the side, and there the uses of streams that were given pointers to the device. Does
 * not block. On failure all stay held. ERR_INVALID_STATE: an object is not held. ERR_INVALID_ARGUMENT: one is named
 * twice. */
synced_mem_status sm_unhold(struct synced_mem *const *mems, size_t count, enum sm_side side,
                            struct synced_mem **failed);

/* Hold those of the objects that are evictable, for the time of one call, which brings contents to the side. An object
 * may be named more than once. *held_on: gets the device, or SM_BUDGET_HOST. Errors: as sm_hold(). */
synced_mem_status sm_hold_briefly(struct synced_mem *const *mems, size_t count, enum sm_side side, int *held_on,
                                  struct synced_mem **failed);
void sm_unhold_briefly(struct synced_mem *const *mems, size_t count, int held_on);

#endif
