/*
 * The process: the locks of the whole library, which are held across a fork so that the child finds whole what they
 * guard; calls that are inside an object, which a fork waits for; and what a forked child may still do.
 */
#ifndef SM_PROCESS_H
#define SM_PROCESS_H

#include "base/mutex.h"

#include <stddef.h>

/* A lock of the whole library. No other of them is taken while one is held. */
struct sm_lock {
    struct sm_mutex mutex;
    atomic_bool known;    /* to the fork */
    struct sm_lock *next; /* of those that are */
};

#define SM_LOCK_INITIALIZER                                                                                            \
    {                                                                                                                  \
        .next = NULL                                                                                                   \
    }
/* For the initializers of arrays whose members have a lock. */
#define SM_FOUR_TIMES(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define SM_SIXTEEN_TIMES(...)                                                                                          \
    SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__)

void sm_lock(struct sm_lock *lock);
void sm_unlock(struct sm_lock *lock);

/* Around the time in which the calling thread holds locks of objects, or waits for them. They nest. A fork waits until
 * no thread is inside, and none enters meanwhile: so a child finds all objects whole and open. In a process that uses
 * a GPU no fork waits: a call may block there, and a child is refused the objects. */
void sm_process_enter(void);
void sm_process_leave(void);
/* Whether the calling thread is inside, or holds a lock of the library: then no code of the caller's may run in it. */
bool sm_process_is_inside(void);

/* How many forks lie between the process that loaded the library and this one. */
unsigned sm_process_generation(void);

/* The process uses a GPU from now on: its children can't. */
void sm_process_uses_gpu(void);
/* Whether this is such a child. */
bool sm_process_lost_gpu(void);

#endif
