/* Memory in the hands of threads. */
#include "hands.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

/* The lock is none of process.h's, since a condition is waited for with it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t passed; /* is waited for with the lock held */
    atomic_uint waiting;
    atomic_uint full;       /* threads with full hands */
    _Atomic uint64_t times; /* that anything was passed */
} hands = {.lock = PTHREAD_MUTEX_INITIALIZER, .passed = PTHREAD_COND_INITIALIZER};

static _Thread_local struct {
    bool full;
    uint64_t times; /* of those above */
} self;

/* Whoever had full hands, or waited, is not in the child. */
static void forget_in_child(void)
{
    (void)pthread_mutex_init(&hands.lock, NULL);
    (void)pthread_cond_init(&hands.passed, NULL);
    atomic_store(&hands.waiting, 0);
    atomic_store(&hands.full, 0);
}

static __attribute__((constructor)) void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_in_child);
}

/* What is counted before is seen by whoever is not seen to wait here. */
static void wake(void)
{
    if (atomic_load(&hands.waiting) == 0)
        return;
    pthread_mutex_lock(&hands.lock);
    pthread_cond_broadcast(&hands.passed);
    pthread_mutex_unlock(&hands.lock);
}

static void count(void)
{
    self.times++;
    atomic_fetch_add(&hands.times, 1);
}

void sm_hands_fill(void)
{
    assert(!self.full);
    self.full = true;
    atomic_fetch_add(&hands.full, 1);
}

void sm_hands_pass(void)
{
    assert(self.full);
    count();
    wake();
}

void sm_hands_empty(bool passed)
{
    assert(self.full);
    self.full = false;
    if (passed)
        count();
    atomic_fetch_sub(&hands.full, 1);
    wake();
}

uint64_t sm_hands_passed(void)
{
    return atomic_load(&hands.times) - self.times;
}

bool sm_hands_wait(uint64_t since)
{
    assert(!self.full);
    pthread_mutex_lock(&hands.lock);
    atomic_fetch_add(&hands.waiting, 1);
    while (atomic_load(&hands.full) > 0 && sm_hands_passed() == since)
        pthread_cond_wait(&hands.passed, &hands.lock);
    atomic_fetch_sub(&hands.waiting, 1);
    pthread_mutex_unlock(&hands.lock);
    return sm_hands_passed() != since;
}
