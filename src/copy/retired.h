/*
 * The retired list: copies that were retired while work on them was in flight, until it has ended. A thread that tries
 * to dispose of one has it in hand. The other threads pass over that copy, and the thread itself takes it off the list.
 * While a thread waits for the work on a copy, nobody has that copy in hand.
 */
#ifndef SM_RETIRED_H
#define SM_RETIRED_H

#include "copy/copy.h"

/* Adds a copy, which the list takes over. Does not block. */
void sm_retired_add(struct sm_copy *copy);

/* Returns whether the copy must stay on the list for now. Its memory goes to code of the caller's, and the thread is
 * inside such code, or in sm_retired_wait_for_own(). */
bool sm_retired_is_for_later(const struct sm_copy *copy);

/* Does the same as sm_copy_reap(), without the bounce buffers. Goes on with the copies that its callbacks retire. */
synced_mem_status sm_retired_reap(bool wait);

/* Waits for the retired copies of the library's own memory, and frees them. Calls no code of the caller's, which might
 * wait for something that the thread has begun. Failures are ignored; keeps the thread's error detail. */
void sm_retired_wait_for_own(void);

#endif
