/* Holds a set of objects and claims the memory that it needs, all of it or none; others are evicted for it. */
#ifndef SM_RESERVE_H
#define SM_RESERVE_H

#include "object/evictable.h"

/* Holds those of the objects that are evictable, and claims their memory on the device, or SM_BUDGET_HOST. Waits for
 * memory that is about to be free, also as other threads' calls end, and evicts others. Evictions come before what is
 * queued on the stream next; NULL: none. for_call: the holds end with the caller's call. On failure nothing is held.
 * ERR_OUT_OF_DEVICE_MEMORY, ERR_OUT_OF_HOST_MEMORY: the set is larger than the budget, or others hold too much of it;
 * and failures of evictions. */
synced_mem_status sm_reserve(struct sm_reservation *reservation, struct synced_mem *const *mems, size_t count,
                             int device, struct sm_stream *stream, bool for_call);

/* Removes the holds that sm_reserve() has added, and ends the call if they were for one. The call may have given an
 * object its memory, though another thread holds it too. */
void sm_remove_holds(struct synced_mem *const *mems, size_t count, int device, bool of_call);

#endif
