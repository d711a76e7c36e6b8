/* The process: its numbers, its environment, its forks, and its end. */
#ifndef SM_SYSTEM_PROCESS_H
#define SM_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Return the numbers by which the system knows the process and the calling thread. */
long sm_process_id(void);
uint64_t sm_thread_id(void);

/* Returns how many processors the system has that are in use; at least 1. */
unsigned sm_processors(void);

/* Returns a variable's value, which stays as long as nobody changes the environment. NULL: there is none, or the
 * process has rights that whoever started it has not. */
const char *sm_environment(const char *name);

/* From now on a fork calls before() in the parent before it, and after it in_parent() in the parent and in_child() in
 * the child. before() of the last call comes first, the others in the order of the calls. NULL: nothing. May be called
 * before main(). No effect on a system without forks. */
void sm_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* From now on function() is called when the program ends by exit(), or by the end of main(), before the system ends
 * other threads; on some systems twice. The last function comes first, among those of atexit() too. Called a few times
 * in a process. */
void sm_watch_exit(void (*function)(void));

/* Returns whether the system has ended all other threads of the process, whatever they held. Then a function at the end
 * of the process must take no lock. Only some systems do that, and only at that end. */
bool sm_is_last_thread(void);

#endif
