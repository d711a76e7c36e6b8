/* Around code of the caller's that a copy is given to, and the one thread that reaps in passing. */
#ifndef SM_CALLBACK_H
#define SM_CALLBACK_H

#include <stdbool.h>

/* Around the call of code of the caller's, with full hands: it may take as long as it likes, so that nobody waits for
 * it, and it may call the library. The second is given what the first has answered. */
bool sm_callback_begin(void);
void sm_callback_end(bool before);

/* Whether the calling thread is inside such code. */
bool sm_callback_runs(void);

/* Only one thread reaps in passing at a time: each asks about all retired copies. False: another one does. It ends
 * where such code is called, too. */
bool sm_passing_begin(void);
void sm_passing_end(void);

#endif
