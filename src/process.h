/*
 * The process: the locks of the whole library, most of which are held across a fork so that the child finds whole what
 * they guard, and what a forked child may still do.
 */
#ifndef SM_PROCESS_H
#define SM_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A lock of the whole library. No other of them is taken while one is held. */
struct sm_lock {
    pthread_mutex_t mutex;
    bool left;            /* not held across a fork: a child finds it open, and has to forget what it guards */
    atomic_bool known;    /* to the fork */
    struct sm_lock *next; /* of those that are */
};

#define SM_LOCK_INITIALIZER                                                                                            \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                                             \
    }
/* Of those there may be many: ThreadSanitizer, for one, knows no more than 64 that a thread holds at a time. */
#define SM_LEFT_LOCK_INITIALIZER                                                                                       \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .left = true                                                               \
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
