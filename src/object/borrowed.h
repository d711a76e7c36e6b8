/* Borrowed memory that is about to be handed back. */
#ifndef SM_BORROWED_H
#define SM_BORROWED_H

#include "object/object.h"
#include "stream/waits.h"

/* Finds the library's work on the side's memory, which is about to be handed back if it is borrowed, even if the work
 * is untracked. Also finds the caller's work that fills memory which is to be unregistered. Returns SM_AGAIN if there
 * is some. With the lock held. Does not block. A failure: the work is still untracked. */
synced_mem_status sm_find_wait_of_borrowed(const struct synced_mem *mem, enum sm_side side, struct sm_waits *waits);

#endif
