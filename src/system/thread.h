/*
 * Threads of the library, and the ends of all threads. A thread of the library has all signals blocked: they are for
 * the program's own threads. Locks and events are the library's own (base/mutex.h).
 */
#ifndef SM_SYSTEM_THREAD_H
#define SM_SYSTEM_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* Stands for a thread until it is joined. */
typedef uintptr_t sm_thread;

/* Starts a thread that calls run(argument); what that returns is ignored. *thread: to be joined; with NULL the thread
 * is detached. Returns false if the system refuses it. */
bool sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument);

/* Waits until the thread has ended. */
void sm_thread_join(sm_thread thread);

/* From now on end(value) is called in each thread that has set a value, when it ends. The value is NULL by then, and
 * thread-locals can still be read. Hooks of others may have been called before, and may follow: they may call the
 * library, which sets a value again, so that there is a further round. A system has a few rounds. A process that ends
 * calls it for no thread. A system may refuse it; then end() is never called. Called once in a process. */
void sm_thread_watch_ends(void (*end)(void *value));
/* Sets the calling thread's value. NULL: end() is not called. */
void sm_thread_set_end(void *value);

#endif
