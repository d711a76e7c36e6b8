/*
 * Hands: memory that a thread has taken off a list, to query or to free it, is in that thread's hands. It stays there
 * until it is freed or on a list again. Meanwhile no other thread finds it. So a thread that is refused memory first
 * waits until other threads have empty hands; only then is memory really missing.
 *
 * Hands are full for some calls of the runtime, at most for a free. They are empty during a wait for a fence and during
 * users' callbacks.
 */
#ifndef SM_HANDS_H
#define SM_HANDS_H

#include <stdbool.h>
#include <stdint.h>

/* From now on the calling thread may have memory in its hands. They must be empty before. */
void sm_hands_fill(void);
/* Reports that one block of memory was freed or is back on a list. The next may already be in the hands. */
void sm_hands_pass(void);
/* Empties the calling thread's hands. passed: memory was freed or put back on a list. */
void sm_hands_empty(bool passed);

/* Returns how often other threads have passed memory: freed it or put it back on a list. */
uint64_t sm_hands_passed(void);
/* Waits while other threads have full hands and sm_hands_passed() still returns since. Returns whether any memory was
 * passed. Blocks. The calling thread's hands must be empty. */
bool sm_hands_wait(uint64_t since);

#endif
