/* The part that evictions of device copies and of host copies have in common. */
#ifndef SM_DEPARTURE_H
#define SM_DEPARTURE_H

#include "base/process.h"
#include "object/transaction.h"

/* The way to lock a victim. A thread that has its lock waits for nothing, but may copy bytes meanwhile. So others go
 * first that nobody has locked. */
enum sm_departure_lock { SM_LOCK_IF_FREE, SM_LOCK_WAIT };

/* The fate of a victim: its copy has gone, or stays as another thread had the lock, as its memory would become
 * free late, or for another reason. */
enum sm_departure_end { SM_GONE, SM_BUSY, SM_LATE, SM_STAYS };

/* Takes the object's lock. Returns whether it did; an object that this process can't use stays. */
static inline bool sm_departure_begin(struct synced_mem *mem, enum sm_departure_lock how)
{
    const bool usable = sm_check_usable(mem) == SYNCED_MEM_OK;
    sm_process_enter();
    if (usable && how == SM_LOCK_WAIT)
        sm_mutex_lock(&mem->lock);
    else if (!usable || !sm_mutex_try(&mem->lock)) {
        sm_process_leave();
        return false;
    }
    return true;
}

#endif
