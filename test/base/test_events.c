/* Checks when counts of events call the system, and that no thread that sleeps misses one. */
#include "fixture.h"

#include "base/mutex.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4 };

static struct sm_events events;
static atomic_uint wakes; /* of all or of one */
static atomic_uint wakes_of_all;
static atomic_uint sleeps;

void __real_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen)
{
    if (word == &events.count)
        atomic_fetch_add(&sleeps, 1);
    __real_sm_word_wait(word, seen);
}

void __real_sm_word_wake_one(atomic_uint *word);
void __wrap_sm_word_wake_one(atomic_uint *word);
void __wrap_sm_word_wake_one(atomic_uint *word)
{
    if (word == &events.count)
        atomic_fetch_add(&wakes, 1);
    __real_sm_word_wake_one(word);
}

void __real_sm_word_wake_all(atomic_uint *word);
void __wrap_sm_word_wake_all(atomic_uint *word);
void __wrap_sm_word_wake_all(atomic_uint *word)
{
    if (word == &events.count) {
        atomic_fetch_add(&wakes, 1);
        atomic_fetch_add(&wakes_of_all, 1);
    }
    __real_sm_word_wake_all(word);
}

static pthread_t start_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
    return thread;
}

static void join_all(const pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

/* Waits until so many threads have begun to sleep, and lets them get there. */
static void wait_for_sleepers(unsigned count)
{
    while (atomic_load(&sleeps) < count)
        (void)usleep(100);
    (void)usleep(10000);
}

static void *wait_for_an_event(void *unused)
{
    const unsigned seen = 0;
    while (sm_events_seen(&events) == seen)
        sm_events_wait(&events, seen);
    return unused;
}

START_TEST(events_without_sleepers_call_nobody)
{
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_eq(sm_events_seen(&events), 2 * i);
        sm_events_wait(&events, 2 * i + 1);
        sm_events_wait_for(&events, 2 * i - 1, UINT64_MAX);
        sm_events_add(&events);
        sm_events_add_for_one(&events);
    }
    ck_assert_uint_eq(atomic_load(&sleeps), 0);
    ck_assert_uint_eq(atomic_load(&wakes), 0);
}
END_TEST

/* One call wakes all, and the next event needs none. */
START_TEST(sleepers_are_awakened_by_one_call)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(wait_for_an_event, NULL);
    wait_for_sleepers(THREADS);
    sm_events_add(&events);
    join_all(threads, THREADS);
    ck_assert_uint_eq(atomic_load(&wakes), 1);
    sm_events_add(&events);
    sm_events_add_for_one(&events);
    ck_assert_uint_eq(atomic_load(&wakes), 1);
    ck_assert_uint_eq(sm_events_seen(&events), 3);
}
END_TEST

/* A wait that has timed out leaves the bit set, which costs one call. */
START_TEST(a_wait_ends_in_time)
{
    sm_events_wait_for(&events, 0, 1000000);
    ck_assert_uint_eq(sm_events_seen(&events), 0);
    sm_events_wait_for(&events, 0, 1000000); /* the bit is set already */
    sm_events_add(&events);
    sm_events_add(&events);
    ck_assert_uint_eq(atomic_load(&wakes), 1);
    ck_assert_uint_eq(sm_events_seen(&events), 2);
}
END_TEST

/* Each thread takes one thing. */
static atomic_uint things;

static bool take_thing(void)
{
    unsigned left = atomic_load(&things);
    while (left > 0)
        if (atomic_compare_exchange_weak(&things, &left, left - 1))
            return true;
    return false;
}

static void *wait_for_a_thing(void *unused)
{
    for (;;) {
        const unsigned seen = sm_events_seen(&events);
        if (take_thing())
            return unused;
        sm_events_wait(&events, seen);
    }
}

/* Each event is for one thread, and the others sleep on: a later event finds them. */
START_TEST(events_for_one_thread)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(wait_for_a_thing, NULL);
    wait_for_sleepers(THREADS);
    for (int i = 0; i < THREADS; i++) {
        atomic_fetch_add(&things, 1);
        sm_events_add_for_one(&events);
        (void)usleep(1000);
    }
    join_all(threads, THREADS);
    ck_assert_uint_eq(atomic_load(&things), 0);
    ck_assert_uint_eq(atomic_load(&wakes_of_all), 0);
}
END_TEST

enum { TURNS = 20000 };

static struct sm_events turns;
static atomic_uint turn;

/* Threads take turns. A thread that missed an event would sleep for ever. */
static void *take_turns(void *number)
{
    for (unsigned mine = *(const unsigned *)number; mine < TURNS; mine += THREADS) {
        unsigned seen = sm_events_seen(&turns);
        while (atomic_load_explicit(&turn, memory_order_acquire) != mine) {
            sm_events_wait(&turns, seen);
            seen = sm_events_seen(&turns);
        }
        atomic_store_explicit(&turn, mine + 1, memory_order_release);
        sm_events_add(&turns);
    }
    return NULL;
}

START_TEST(no_event_is_missed)
{
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        threads[i] = start_thread(take_turns, &numbers[i]);
    }
    join_all(threads, THREADS);
    ck_assert_uint_eq(atomic_load(&turn), TURNS);
    ck_assert_uint_eq(sm_events_seen(&turns), TURNS);
}
END_TEST

/* The count begins again at 0. */
START_TEST(a_count_that_overflows)
{
    atomic_store(&events.count, UINT32_MAX - 1);
    const unsigned seen = sm_events_seen(&events);
    sm_events_wait_for(&events, seen, 1000000);
    sm_events_add(&events);
    ck_assert_uint_eq(atomic_load(&wakes), 1);
    ck_assert_uint_eq(sm_events_seen(&events), 0);
    sm_events_wait(&events, seen);
    ck_assert_uint_eq(atomic_load(&events.count), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("events");
    TCase *const tests = add_case_in_children(made, "events");
    add_tests(tests, events_without_sleepers_call_nobody, sleepers_are_awakened_by_one_call, a_wait_ends_in_time,
              events_for_one_thread, no_event_is_missed, a_count_that_overflows);
    return made;
}
