/* Threads of the library. */
#ifndef SM_THREAD_H
#define SM_THREAD_H

#include <stdbool.h>

/* Starts a detached thread. All signals are blocked in it: they are for the program's own threads. Returns false if the
 * system refuses it. */
bool sm_thread_start(void *(*run)(void *argument));

#endif
