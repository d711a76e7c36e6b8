/*
 * The process: the locks of the whole library, which are held across a fork so that the child finds whole what they
 * guard, and what a forked child may still do.
 */
#ifndef SM_PROCESS_H
#define SM_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A lock of the whole library. No other of them is taken while one is held. */
struct sm_lock {
    pthread_mutex_t mutex;
    atomic_bool known;    /* to the fork */
    struct sm_lock *next; /* of those that are */
};

/* Most are not held for long: a thread that looks again a few times gets it sooner than one that is put to sleep. */
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define SM_MUTEX_INITIALIZER PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#else
#define SM_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#endif
#define SM_LOCK_INITIALIZER                                                                                            \
    {                                                                                                                  \
        .mutex = SM_MUTEX_INITIALIZER                                                                                  \
    }
/* For the initializers of arrays whose members have a lock. */
#define SM_FOUR_TIMES(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define SM_SIXTEEN_TIMES(...)                                                                                          \
    SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__), SM_FOUR_TIMES(__VA_ARGS__)

void sm_lock(struct sm_lock *lock);
void sm_unlock(struct sm_lock *lock);

/* How many forks lie between the process that loaded the library and this one. */
unsigned char sm_process_generation(void);

/* The process uses a GPU from now on: its children can't. */
void sm_process_uses_gpu(void);
/* Whether this is such a child. */
bool sm_process_lost_gpu(void);

#endif
