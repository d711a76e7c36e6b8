/*
 * A lock of four bytes, whatever the C library, and a count of events that threads can wait for. Neither records who
 * waits; each only notes that somebody may. So both keep working in a forked child, which has none of the waiting
 * threads.
 */
#ifndef SM_MUTEX_H
#define SM_MUTEX_H

#include "system/word.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds between two looks at a lock whose release wakes nobody. */
enum { SM_MUTEX_NAP = 50000 };

enum sm_mutex_state { SM_MUTEX_OPEN, SM_MUTEX_HELD, SM_MUTEX_AWAITED /* held, and threads may sleep */ };

/* Lets the processor rest for a few cycles between two polls. */
void sm_pause(void);

/* A lock. All zeros: open. */
struct sm_mutex {
    atomic_uint state; /* enum sm_mutex_state */
};

/* Takes a lock that another thread holds. Blocks. */
__attribute__((cold)) void sm_mutex_wait(struct sm_mutex *mutex);
/* Does the same for a lock whose release wakes nobody: looks again after each of several short sleeps. */
__attribute__((cold)) void sm_mutex_poll(struct sm_mutex *mutex);
/* Takes the lock, and sleeps at most so long for it. Returns false if another thread, or this one, has held it all the
 * time. */
bool sm_mutex_lock_within(struct sm_mutex *mutex, uint64_t nanoseconds);

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

/* Once the lock is open, its memory may belong to another object. */
static inline void sm_mutex_unlock(struct sm_mutex *mutex)
{
    if (atomic_exchange_explicit(&mutex->state, SM_MUTEX_OPEN, memory_order_release) == SM_MUTEX_AWAITED)
        sm_word_wake_one(&mutex->state);
}

/* Opens a lock in memory that may have had another use. */
static inline void sm_mutex_init(struct sm_mutex *mutex)
{
    atomic_store_explicit(&mutex->state, SM_MUTEX_OPEN, memory_order_relaxed);
}

/* A count of events. All zeros: none has happened. Its lowest bit says that threads may sleep, so that an event for
 * which none does needs no call of the system. */
struct sm_events {
    atomic_uint count;
};

enum { SM_EVENTS_AWAITED = 1 };

/* Returns the count. Call it before reading the condition that the thread may then wait for. */
static inline unsigned sm_events_seen(struct sm_events *events)
{
    return atomic_load(&events->count) >> 1;
}

/* Sets the bit, unless the count differs from seen: returns false then. */
static inline bool sm_events_announce(struct sm_events *events, unsigned seen)
{
    unsigned count = seen << 1;
    return atomic_compare_exchange_strong(&events->count, &count, seen << 1 | SM_EVENTS_AWAITED) ||
           count == (seen << 1 | SM_EVENTS_AWAITED);
}

/* Blocks until the count differs from seen. It may return earlier, so callers read their condition again. */
static inline void sm_events_wait(struct sm_events *events, unsigned seen)
{
    if (sm_events_announce(events, seen))
        sm_word_wait(&events->count, seen << 1 | SM_EVENTS_AWAITED);
}

/* Does the same, at most so long. */
static inline void sm_events_wait_for(struct sm_events *events, unsigned seen, uint64_t nanoseconds)
{
    if (sm_events_announce(events, seen))
        sm_word_wait_for(&events->count, seen << 1 | SM_EVENTS_AWAITED, nanoseconds);
}

/* Counts one event and wakes one of the waiting threads, for an event that any of them can handle. The others sleep on,
 * so the bit stays. The caller has stored what they wait for, in whatever order: a thread that has set the bit before
 * is awakened, and one that sets it later has seen the new count, and so what was stored before. */
static inline void sm_events_add_for_one(struct sm_events *events)
{
    if (atomic_fetch_add(&events->count, 2) & SM_EVENTS_AWAITED)
        sm_word_wake_one(&events->count);
}

/* Does the same for all waiting threads. None of them sleeps on, so the bit is cleared. */
static inline void sm_events_add(struct sm_events *events)
{
    unsigned count = atomic_load(&events->count);
    while (!atomic_compare_exchange_weak(&events->count, &count, (count | SM_EVENTS_AWAITED) + 1))
        ;
    if (count & SM_EVENTS_AWAITED)
        sm_word_wake_all(&events->count);
}

#endif
