/*
 * A lock of four bytes, whatever C library there is, and a count of events that threads can wait for. Neither keeps
 * anything about its waiters: in a forked child, which has none of them, both work on.
 */
#ifndef SM_MUTEX_H
#define SM_MUTEX_H

#include <stdatomic.h>
#include <stdbool.h>

enum sm_mutex_state { SM_MUTEX_OPEN, SM_MUTEX_HELD, SM_MUTEX_AWAITED /* it is held, and threads may sleep */ };

/* All zeros: open. */
struct sm_mutex {
    atomic_uint state; /* enum sm_mutex_state */
};

/* Takes a lock that another thread holds. */
void sm_mutex_wait(struct sm_mutex *mutex);
/* Wakes one thread that sleeps in sm_mutex_wait(). The lock may be another object's by now. */
void sm_mutex_wake(struct sm_mutex *mutex);

static inline bool sm_mutex_try(struct sm_mutex *mutex)
{
    unsigned open = SM_MUTEX_OPEN;
    return atomic_compare_exchange_strong_explicit(&mutex->state, &open, SM_MUTEX_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Not recursive. Most locks are held for a few instructions: a thread polls for a moment before it sleeps. */
static inline void sm_mutex_lock(struct sm_mutex *mutex)
{
    if (!sm_mutex_try(mutex))
        sm_mutex_wait(mutex);
}

static inline void sm_mutex_unlock(struct sm_mutex *mutex)
{
    if (atomic_exchange_explicit(&mutex->state, SM_MUTEX_OPEN, memory_order_release) == SM_MUTEX_AWAITED)
        sm_mutex_wake(mutex);
}

/* For memory that may have been something else. */
static inline void sm_mutex_init(struct sm_mutex *mutex)
{
    atomic_store_explicit(&mutex->state, SM_MUTEX_OPEN, memory_order_relaxed);
}

/* A count of events. All zeros: none has happened. */
struct sm_events {
    atomic_uint count;
};

/* To be called before the condition is read that the thread then may wait for. */
static inline unsigned sm_events_seen(struct sm_events *events)
{
    return atomic_load(&events->count);
}

/* Returns once there are more events than were seen; it may return earlier, so callers read their condition again. */
void sm_events_wait(struct sm_events *events, unsigned seen);
/* Another event. Wakes all threads that wait. */
void sm_events_add(struct sm_events *events);

#endif
