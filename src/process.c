/* Forks: POSIX leaves a child with the locks as they were held, by threads it does not have. */
#include "process.h"

#include <assert.h>

/* Most locks are not held for long: a thread that looks again a few times gets one sooner than one that is put to sleep.
 * What is in an initializer of all zeros takes no room in the library's file. */
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
static const pthread_mutex_t open_mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
#else
static const pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
#endif

static struct {
    pthread_mutex_t mutex;
    struct sm_lock *first;
} locks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* By the calling thread, of these locks: two threads that each held one and wanted the other's, or a fork that wants
 * all, would wait for ever. */
static _Thread_local bool holds_one;

static atomic_uchar generation;
static atomic_bool uses_gpu;
static atomic_bool lost_gpu;

static void before_fork(void)
{
    pthread_mutex_lock(&locks.mutex);
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        if (!lock->left)
            pthread_mutex_lock(&lock->mutex);
}

static void in_parent(void)
{
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        if (!lock->left)
            pthread_mutex_unlock(&lock->mutex);
    pthread_mutex_unlock(&locks.mutex);
}

static void open_left(void)
{
    for (struct sm_lock *lock = locks.first; lock; lock = lock->next)
        if (lock->left)
            lock->mutex = open_mutex;
}

static void in_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    if (atomic_load_explicit(&uses_gpu, memory_order_relaxed))
        atomic_store_explicit(&lost_gpu, true, memory_order_relaxed);
    open_left();
    in_parent();
}

/* When the library is loaded: a fork may come while its first lock is taken. */
static __attribute__((constructor)) void watch_forks(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

static void introduce(struct sm_lock *lock)
{
    pthread_mutex_lock(&locks.mutex);
    if (!atomic_load_explicit(&lock->known, memory_order_relaxed)) {
        lock->mutex = open_mutex;
        lock->next = locks.first;
        locks.first = lock;
        atomic_store_explicit(&lock->known, true, memory_order_release);
    }
    pthread_mutex_unlock(&locks.mutex);
}

void sm_lock(struct sm_lock *lock)
{
    assert(!holds_one);
    if (!atomic_load_explicit(&lock->known, memory_order_acquire))
        introduce(lock);
    pthread_mutex_lock(&lock->mutex);
    holds_one = true;
}

void sm_unlock(struct sm_lock *lock)
{
    holds_one = false;
    pthread_mutex_unlock(&lock->mutex);
}

unsigned char sm_process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

void sm_process_uses_gpu(void)
{
    atomic_store_explicit(&uses_gpu, true, memory_order_relaxed);
}

bool sm_process_lost_gpu(void)
{
    return atomic_load_explicit(&lost_gpu, memory_order_relaxed);
}
