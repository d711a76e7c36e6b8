/*
 * A lock of four bytes, whatever the C library, and a count of events that threads can wait for. Neither records its
 * waiters. So both keep working in a forked child, which has none of the waiting threads.
 */
#ifndef SM_MUTEX_H
#define SM_MUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sm_mutex_state { SM_MUTEX_OPEN, SM_MUTEX_HELD, SM_MUTEX_AWAITED /* held, and threads may sleep */ };

/* A lock. All zeros: open. */
struct sm_mutex {
    atomic_uint state; /* enum sm_mutex_state */
};

/* Takes a lock that another thread holds. Blocks. */
void sm_mutex_wait(struct sm_mutex *mutex);
/* Wakes one thread that sleeps in sm_mutex_wait(). The lock is open already, so its memory may belong to another
 * object by now. */
void sm_mutex_wake(struct sm_mutex *mutex);

static inline bool sm_mutex_try(struct sm_mutex *mutex)
{
    unsigned open = SM_MUTEX_OPEN;
    return atomic_compare_exchange_strong_explicit(&mutex->state, &open, SM_MUTEX_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Takes the lock. Not recursive. Blocks: most locks are held for a few instructions, so it polls before it sleeps. */
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

/* Opens a lock in memory that may have had another use. */
static inline void sm_mutex_init(struct sm_mutex *mutex)
{
    atomic_store_explicit(&mutex->state, SM_MUTEX_OPEN, memory_order_relaxed);
}

/* A count of events. All zeros: none has happened. */
struct sm_events {
    atomic_uint count;
};

/* Returns the count. Call it before reading the condition that the thread may then wait for. */
static inline unsigned sm_events_seen(struct sm_events *events)
{
    return atomic_load(&events->count);
}

/* Blocks until the count differs from seen. It may return earlier, so callers read their condition again. */
void sm_events_wait(struct sm_events *events, unsigned seen);
/* Does the same, at most so long. */
void sm_events_wait_for(struct sm_events *events, unsigned seen, uint64_t nanoseconds);
/* Counts one event and wakes all waiting threads. */
void sm_events_add(struct sm_events *events);

#endif
