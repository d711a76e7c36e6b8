/*
 * Copies that were let go of while work on them was in flight, until that has ended. A thread that tries one again has
 * it in hand: the others pass over it, and the thread itself takes it off the list. While the work on one is waited
 * for nobody has it in hand.
 */
#ifndef SM_RETIRED_H
#define SM_RETIRED_H

#include "copy/copy.h"

void sm_retired_add(struct sm_copy *copy);

/* Whether the copy is given to code of the caller's while the thread is inside such code: then it stays on the list. */
bool sm_retired_is_for_later(const struct sm_copy *copy);

/* sm_copy_reap() without the bounce buffers. */
synced_mem_status sm_retired_reap(bool wait);

#endif
