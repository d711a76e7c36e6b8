/* Waiting for a lock. */
#include "base/mutex.h"

#include "system/clock.h"

/* A thread polls a lock so often before it sleeps. */
enum { POLLS = 100 };

void sm_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static bool poll_and_take_lock(struct sm_mutex *mutex)
{
    if (atomic_load_explicit(&mutex->state, memory_order_relaxed) != SM_MUTEX_OPEN) {
        sm_pause();
        return false;
    }
    return sm_mutex_try(mutex);
}

/* A thread that has slept does not know whether others still sleep. So it takes the lock as SM_MUTEX_AWAITED. */
void sm_mutex_wait(struct sm_mutex *mutex)
{
    for (int i = 0; i < POLLS; i++)
        if (poll_and_take_lock(mutex))
            return;
    while (atomic_exchange_explicit(&mutex->state, SM_MUTEX_AWAITED, memory_order_acquire) != SM_MUTEX_OPEN)
        sm_word_wait(&mutex->state, SM_MUTEX_AWAITED);
}

void sm_mutex_poll(struct sm_mutex *mutex)
{
    for (;;) {
        for (int i = 0; i < POLLS; i++)
            if (poll_and_take_lock(mutex))
                return;
        const unsigned state = atomic_load_explicit(&mutex->state, memory_order_relaxed);
        if (state != SM_MUTEX_OPEN)
            sm_word_wait_for(&mutex->state, state, SM_MUTEX_NAP);
    }
}

bool sm_mutex_lock_within(struct sm_mutex *mutex, uint64_t nanoseconds)
{
    const uint64_t start = sm_now();
    uint64_t spent = 0;
    while (atomic_exchange_explicit(&mutex->state, SM_MUTEX_AWAITED, memory_order_acquire) != SM_MUTEX_OPEN) {
        if (spent >= nanoseconds)
            return false;
        sm_word_wait_for(&mutex->state, SM_MUTEX_AWAITED, nanoseconds - spent);
        spent = sm_now() - start;
    }
    return true;
}
