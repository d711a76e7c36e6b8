/* Holds: evictable objects stay on the device for as long as they are held. A hold gets the memory of all its objects
 * at once or none of it, so two of them never evict one another's objects in turn. */
#ifndef SM_HOLD_H
#define SM_HOLD_H

#include "object/evictable.h"
#include "object/transitions.h"

struct sm_hold_call {
    struct synced_mem *const *mems;
    size_t count;
    enum sm_mode mode;
    synced_mem_stream handle;
};

/* Holds the objects, each of which is named once, and gives their device copies memory, and but for an overwrite the
 * contents, in the order of the stream. Evicts others if the budget, or the device, has too little memory. Blocks as
 * transfers do, and where memory is short. On failure none is held; what was fetched stays. *failed: the object that
 * the failure is about, or NULL. ERR_INVALID_STATE: an object is not evictable. ERR_INVALID_ARGUMENT: one is named
 * twice. ERR_OUT_OF_DEVICE_MEMORY: the objects are larger than the budget, or others hold too much of it; nothing was
 * evicted. */
synced_mem_status sm_hold(const struct sm_hold_call *call, struct synced_mem **failed);

/* Ends one hold of each object, and the uses of streams that were given their pointers. Does not block. On failure all
 * stay held. ERR_INVALID_STATE: an object is not held. ERR_INVALID_ARGUMENT: one is named twice. */
synced_mem_status sm_unhold(struct synced_mem *const *mems, size_t count, struct synced_mem **failed);

/* Hold those of the objects that are evictable, for the time of one call, which brings contents to the device. An
 * object may be named more than once. Errors: as sm_hold(). */
synced_mem_status sm_hold_briefly(struct synced_mem *const *mems, size_t count, struct synced_mem **failed);
void sm_unhold_briefly(struct synced_mem *const *mems, size_t count);

#endif
