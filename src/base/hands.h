/*
 * Memory on its way: a thread that takes memory off a list, to look at it or to free it, has it in its hands until it
 * is freed or on a list again. Meanwhile no other thread finds it. So a thread that is refused memory waits until the
 * hands of the others are empty before it believes that there is none.
 *
 * Hands are full for some calls of the runtime, at most for a free. They are empty during a wait for a fence, and
 * while code of the caller's runs.
 */
#ifndef SM_HANDS_H
#define SM_HANDS_H

#include <stdbool.h>
#include <stdint.h>

/* From here on the calling thread may have memory in its hands. They must be empty. */
void sm_hands_fill(void);
/* Something is freed, or where others find it; the next may be in the hands already. */
void sm_hands_pass(void);
/* Nothing is in them any more. passed: something was. */
void sm_hands_empty(bool passed);

/* Counts the times that other threads have passed something. */
uint64_t sm_hands_passed(void);
/* Waits, with empty hands, while the hands of other threads are full and nothing has been passed since then. Whether
 * something has. */
bool sm_hands_wait(uint64_t since);

#endif
