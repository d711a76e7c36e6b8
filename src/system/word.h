/*
 * Words on which threads of this process sleep until another thread wakes them.
 *
 * The system keeps no record of the sleepers in the word. So a forked child, which has none of them, goes on with the
 * word as it is. A sleep may end for no reason: the caller reads its condition again. No function changes errno.
 */
#ifndef SM_SYSTEM_WORD_H
#define SM_SYSTEM_WORD_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while the word is seen. Returns at once if it differs. */
void sm_word_wait(atomic_uint *word, unsigned seen);
/* Does the same, at most so long. */
void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds);

/* Wake one of the threads that sleep on the word, or all of them. Neither touches the memory, which may have another
 * use by now, or be no memory any more. */
void sm_word_wake_one(atomic_uint *word);
void sm_word_wake_all(atomic_uint *word);

#endif
