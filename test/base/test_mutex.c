/* Checks the lock of objects and of the library, the events that threads wait for, and work that is done once. */
#include "fixture.h"

#include "base/mutex.h"
#include "base/once.h"
#include "base/process.h"
#include "system/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct sm_mutex mutex;
static struct sm_events events;
static unsigned guarded;

static void *take_and_count(void *times)
{
    for (uintptr_t i = 0; i < (uintptr_t)times; i++) {
        sm_mutex_lock(&mutex);
        guarded++;
        sm_mutex_unlock(&mutex);
    }
    return NULL;
}

static pthread_t start_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
    return thread;
}

START_TEST(one_at_a_time)
{
    enum { THREADS = 4, TIMES = 20000 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(take_and_count, (void *)TIMES);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(guarded, THREADS * TIMES);
    ck_assert(sm_mutex_try(&mutex));
    ck_assert(!sm_mutex_try(&mutex));
    sm_mutex_unlock(&mutex);
}
END_TEST

/* A thread that polls the lock finds it open before it sleeps. */
START_TEST(open_again_in_a_moment)
{
    sm_mutex_wait(&mutex);
    ck_assert(!sm_mutex_try(&mutex));
    sm_mutex_unlock(&mutex);
    ck_assert_uint_eq(atomic_load(&mutex.state), SM_MUTEX_OPEN);
}
END_TEST

static void wait_until_awaited(void)
{
    while (atomic_load(&mutex.state) != SM_MUTEX_AWAITED)
        (void)usleep(100);
}

/* All sleeping threads are woken, one after the other. */
START_TEST(held_for_long)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    sm_mutex_lock(&mutex);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(take_and_count, (void *)1);
    wait_until_awaited();
    (void)usleep(10000);
    ck_assert_uint_eq(guarded, 0);
    errno = EDOM;
    sm_mutex_unlock(&mutex);
    ck_assert_int_eq(errno, EDOM);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(guarded, THREADS);
    ck_assert(sm_mutex_try(&mutex));
    sm_mutex_unlock(&mutex);
}
END_TEST

/* A thread that has no more patience goes away without the lock, and the holder does not miss it. */
START_TEST(no_more_patience)
{
    const uint64_t start = sm_now();
    sm_mutex_lock(&mutex);
    ck_assert(!sm_mutex_lock_within(&mutex, 0));
    ck_assert(!sm_mutex_lock_within(&mutex, 10000000));
    ck_assert_uint_ge(sm_now() - start, 10000000);
    sm_mutex_unlock(&mutex);
    ck_assert(sm_mutex_lock_within(&mutex, 0));
    const pthread_t thread = start_thread(take_and_count, (void *)1);
    wait_until_awaited();
    sm_mutex_unlock(&mutex);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* The lock is taken before the patience ends. */
static void *take_within(void *took)
{
    *(bool *)took = sm_mutex_lock_within(&mutex, 60000000000u);
    sm_mutex_unlock(&mutex);
    return NULL;
}

START_TEST(enough_patience)
{
    bool took = false;
    sm_mutex_lock(&mutex);
    const pthread_t thread = start_thread(take_within, &took);
    wait_until_awaited();
    (void)usleep(10000);
    sm_mutex_unlock(&mutex);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(took);
}
END_TEST

static void *poll_and_count(void *unused)
{
    sm_mutex_poll(&mutex);
    guarded++;
    return unused;
}

/* A thread that sleeps for a lock whose release wakes nobody finds it open, also if another one sleeps there. */
START_TEST(a_release_that_wakes_nobody)
{
    for (int awaited = 0; awaited < 2; awaited++) {
        guarded = 0;
        sm_mutex_lock(&mutex);
        ck_assert(!awaited || !sm_mutex_lock_within(&mutex, 0));
        const pthread_t thread = start_thread(poll_and_count, NULL);
        (void)usleep(10000);
        ck_assert_uint_eq(guarded, 0);
        atomic_store_explicit(&mutex.state, SM_MUTEX_OPEN, memory_order_release);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(guarded, 1);
        ck_assert(!sm_mutex_try(&mutex));
        sm_mutex_unlock(&mutex);
    }
}
END_TEST

static void *wait_for_an_event(void *seen)
{
    errno = EDOM;
    while (sm_events_seen(&events) == *(const unsigned *)seen)
        sm_events_wait(&events, *(const unsigned *)seen);
    return errno == EDOM ? NULL : seen;
}

/* All waiting threads are woken. A thread that comes late does not sleep. */
START_TEST(events_happen)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    unsigned seen = sm_events_seen(&events);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(wait_for_an_event, &seen);
    (void)usleep(10000);
    sm_events_add(&events);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    sm_events_wait(&events, seen);
    ck_assert_uint_eq(sm_events_seen(&events), seen + 1);
}
END_TEST

#if WITH_POSIX
/* The parent's threads sleep at the fork. The child, which has none of them, goes on with the lock and the events as
 * they are. */
static void use_in_child(const void *seen)
{
    (void)alarm(200);
    sm_mutex_unlock(&mutex);
    sm_mutex_lock(&mutex);
    sm_mutex_unlock(&mutex);
    sm_events_add(&events);
    ck_assert_uint_eq(sm_events_seen(&events), *(const unsigned *)seen + 1);
    _exit(EXIT_SUCCESS);
}

START_TEST(a_fork_beside_sleepers)
{
    unsigned seen = sm_events_seen(&events);
    sm_mutex_lock(&mutex);
    const pthread_t locker = start_thread(take_and_count, (void *)1);
    const pthread_t waiter = start_thread(wait_for_an_event, &seen);
    wait_until_awaited();
    ck_assert(in_a_child(use_in_child, &seen));
    sm_mutex_unlock(&mutex);
    sm_events_add(&events);
    ck_assert_int_eq(pthread_join(locker, NULL), 0);
    ck_assert_int_eq(pthread_join(waiter, NULL), 0);
}
END_TEST

static struct sm_lock brief = SM_LOCK_INITIALIZER;
static atomic_bool holds;

static void *hold_briefly(void *unused)
{
    sm_lock_briefly(&brief);
    atomic_store(&holds, true);
    (void)usleep(20000);
    sm_unlock_brief(&brief);
    while (atomic_load(&holds)) /* a thread that has ended would count as one that nobody joins, in the child */
        (void)usleep(100);
    return unused;
}

static void take_in_child(const void *unused)
{
    (void)unused, (void)alarm(200);
    sm_lock_briefly(&brief);
    sm_unlock_brief(&brief);
    _exit(EXIT_SUCCESS);
}

/* A fork takes the lock, whose release does not wake it. */
START_TEST(a_fork_beside_a_brief_lock)
{
    OK(synced_mem_release(make(1)));
    const pthread_t thread = start_thread(hold_briefly, NULL);
    while (!atomic_load(&holds))
        (void)usleep(100);
    ck_assert(in_a_child(take_in_child, NULL));
    atomic_store(&holds, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    sm_lock_briefly(&brief);
    sm_unlock_brief(&brief);
}
END_TEST
#endif

/* ---- Once ---- */

static struct sm_once once;
static atomic_uint runs;
static atomic_bool may_end;

static void count_run(void)
{
    atomic_fetch_add(&runs, 1);
    while (!atomic_load(&may_end))
        (void)usleep(100);
}

static void *run_once(void *unused)
{
    sm_once(&once, count_run);
    return atomic_load(&may_end) ? NULL : unused;
}

#if WITH_POSIX
/* A child has not the thread that was at the work. */
static void run_in_child(const void *unused)
{
    (void)unused, (void)alarm(200);
    atomic_store(&may_end, true);
    sm_once(&once, count_run);
    sm_once(&once, count_run);
    ck_assert_uint_eq(atomic_load(&runs), 2);
    _exit(EXIT_SUCCESS);
}
#endif

START_TEST(one_runs_and_others_wait)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(run_once, &once);
    while (atomic_load(&runs) == 0)
        (void)usleep(100);
    (void)usleep(10000);
#if WITH_POSIX
    ck_assert(in_a_child(run_in_child, NULL));
#endif
    atomic_store(&may_end, true);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    sm_once(&once, count_run);
    ck_assert_uint_eq(atomic_load(&runs), 1);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("mutex");
    TCase *const tests = add_case_in_children(made, "mutex");
    add_tests(tests, one_at_a_time, open_again_in_a_moment, held_for_long, no_more_patience, enough_patience,
              a_release_that_wakes_nobody, events_happen, one_runs_and_others_wait);
#if WITH_POSIX
    add_tests(tests, a_fork_beside_sleepers, a_fork_beside_a_brief_lock);
#endif
    return made;
}
