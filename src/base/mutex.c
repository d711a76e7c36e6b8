/* Locks and counts of events on Linux futexes. A port to another system replaces this file. */
#ifndef __linux__
#error "mutex.c is for Linux: elsewhere sm_mutex_wait(), sm_mutex_wake() and sm_events_*() have to be written"
#endif

#include "base/mutex.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static_assert(sizeof(atomic_uint) == 4, "a futex has 32 bits");

/* A thread polls a lock so often before it sleeps. */
enum { POLLS = 100 };

/* Calls futex() and keeps the caller's errno. */
static void call_futex(atomic_uint *word, int operation, unsigned value, const struct timespec *most)
{
    const int before = errno;
    (void)syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, most, NULL, 0);
    errno = before;
}

static void pause_briefly(void)
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
        pause_briefly();
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
        call_futex(&mutex->state, FUTEX_WAIT, SM_MUTEX_AWAITED, NULL);
}

void sm_mutex_wake(struct sm_mutex *mutex)
{
    call_futex(&mutex->state, FUTEX_WAKE, 1, NULL);
}

void sm_events_wait(struct sm_events *events, unsigned seen)
{
    call_futex(&events->count, FUTEX_WAIT, seen, NULL);
}

void sm_events_wait_for(struct sm_events *events, unsigned seen, uint64_t nanoseconds)
{
    const struct timespec most = {.tv_sec = (time_t)(nanoseconds / 1000000000),
                                  .tv_nsec = (long)(nanoseconds % 1000000000)};
    call_futex(&events->count, FUTEX_WAIT, seen, &most);
}

void sm_events_add(struct sm_events *events)
{
    atomic_fetch_add(&events->count, 1);
    call_futex(&events->count, FUTEX_WAKE, INT_MAX, NULL);
}
