/* Checks the words on which threads sleep, as the system has them. */
#include "fixture.h"

#include "system/clock.h"
#include "system/word.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* More words than a table of the system's may have places for their sleepers. */
enum { WORDS = 200 };
static atomic_uint words[WORDS];
static atomic_uint asleep; /* or about to be */

static pthread_t start_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
    return thread;
}

static void join_thread(pthread_t thread)
{
    void *failed = NULL;
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
}

static void *sleep_on(void *word)
{
    atomic_fetch_add(&asleep, 1);
    errno = EDOM;
    while (atomic_load((atomic_uint *)word) == 0)
        sm_word_wait(word, 0);
    return errno == EDOM ? NULL : word;
}

static void await_sleepers(unsigned count)
{
    while (atomic_load(&asleep) < count)
        (void)usleep(100);
    (void)usleep(20000);
}

/* A system may end sleeps of a tenth of a second. So wakes that are lost show in the time that 200 take. A busy machine
 * may take as long, but hardly at each try. */
static void check_time(void (*wake_many)(void))
{
    enum { TRIES = 3 };
    bool in_time = false;
    for (int i = 0; i < TRIES && !in_time; i++) {
        for (int word = 0; word < WORDS; word++)
            atomic_store(&words[word], 0);
        atomic_store(&asleep, 0);
        const uint64_t start = sm_now();
        wake_many();
        in_time = sm_now() - start < UINT64_C(15000000000);
    }
    ck_assert(in_time);
}

static void wake_one_of_each(void)
{
    enum { SLEEPERS = WORDS };
    pthread_t threads[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++)
        threads[i] = start_thread(sleep_on, &words[i]);
    await_sleepers(SLEEPERS);
    for (int i = SLEEPERS - 1; i >= 0; i--) {
        atomic_store(&words[i], 1);
        errno = EDOM;
        sm_word_wake_one(&words[i]);
        ck_assert_int_eq(errno, EDOM);
        join_thread(threads[i]);
    }
}

/* Each word's sleeper is woken, whoever sleeps beside it. */
START_TEST(one_of_each_word)
{
    check_time(wake_one_of_each);
}
END_TEST

enum { ROUNDS = 200 };

/* Waits for each odd number, and goes on to the next even one. */
static void *take_turns(void *word)
{
    for (unsigned i = 0; i < 2 * ROUNDS; i += 2) {
        while (atomic_load((atomic_uint *)word) == i)
            sm_word_wait(word, i);
        (void)usleep(100);
        atomic_store((atomic_uint *)word, i + 2);
        sm_word_wake_one(word);
    }
    return NULL;
}

static void wake_in_turn(void)
{
    const pthread_t thread = start_thread(take_turns, &words[0]);
    for (unsigned i = 0; i < 2 * ROUNDS; i += 2) {
        (void)usleep(100);
        atomic_store(&words[0], i + 1);
        sm_word_wake_one(&words[0]);
        while (atomic_load(&words[0]) == i + 1)
            sm_word_wait(&words[0], i + 1);
    }
    join_thread(thread);
}

START_TEST(two_in_turn)
{
    check_time(wake_in_turn);
}
END_TEST

static void wait_for_another_value(void)
{
    for (int i = 0; i < ROUNDS; i++)
        sm_word_wait(&words[0], 1);
}

START_TEST(no_sleep_if_it_differs)
{
    check_time(wait_for_another_value);
}
END_TEST

START_TEST(all_of_one_word)
{
    enum { SLEEPERS = 5 };
    pthread_t threads[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++)
        threads[i] = start_thread(sleep_on, &words[0]);
    await_sleepers(SLEEPERS);
    atomic_store(&words[0], 1);
    sm_word_wake_all(&words[0]);
    for (int i = 0; i < SLEEPERS; i++)
        join_thread(threads[i]);
}
END_TEST

/* A word that has changed is not slept on, and a sleep with a time ends. */
START_TEST(no_sleep_for_ever)
{
    enum { MOST = 20000000 };
    atomic_store(&words[0], 1);
    sm_word_wait(&words[0], 0);
    const uint64_t start = sm_now();
    sm_word_wait_for(&words[0], 0, UINT64_C(60000000000));
    errno = EDOM;
    sm_word_wait_for(&words[0], 1, 0);
    ck_assert_uint_lt(sm_now() - start, UINT64_C(30000000000));
    while (sm_now() - start < MOST)
        sm_word_wait_for(&words[0], 1, MOST);
    ck_assert_uint_lt(sm_now() - start, UINT64_C(30000000000));
    ck_assert_int_eq(errno, EDOM);
}
END_TEST

static void *sleep_long_on(void *word)
{
    atomic_fetch_add(&asleep, 1);
    while (atomic_load((atomic_uint *)word) == 0)
        sm_word_wait_for(word, 0, UINT64_C(60000000000));
    return NULL;
}

START_TEST(woken_before_the_time)
{
    const uint64_t start = sm_now();
    const pthread_t thread = start_thread(sleep_long_on, &words[0]);
    await_sleepers(1);
    atomic_store(&words[0], 1);
    sm_word_wake_one(&words[0]);
    join_thread(thread);
    ck_assert_uint_lt(sm_now() - start, UINT64_C(30000000000));
}
END_TEST

#if WITH_POSIX
static atomic_bool ended;
static atomic_uint begun;

static void *wake_until_ended(void *unused)
{
    (void)unused;
    atomic_fetch_add(&begun, 1);
    for (unsigned i = 0; !atomic_load(&ended); i++) {
        sm_word_wake_all(&words[i % WORDS]);
        sm_word_wait_for(&words[i % WORDS], 0, 1);
    }
    return NULL;
}

/* The child's only thread sleeps on every word, and another one wakes it. */
static void use_all_in_child(const void *unused)
{
    (void)unused, (void)alarm(200);
    for (int i = 0; i < WORDS; i++) {
        sm_word_wake_one(&words[i]);
        sm_word_wait_for(&words[i], 0, 1);
    }
    const pthread_t thread = start_thread(sleep_on, &words[0]);
    (void)usleep(100);
    atomic_store(&words[0], 1);
    sm_word_wake_all(&words[0]);
    join_thread(thread);
    _exit(EXIT_SUCCESS);
}

/* ThreadSanitizer keeps the parent's threads in the child, and ends it if a new one has the handle of one of them. */
#ifdef __SANITIZE_THREAD__
enum { FORKS = 0 };
#else
enum { FORKS = 40 };
#endif

/* The parent's threads are inside of calls at the fork. The child has none of them, and all words. */
START_TEST(a_fork_beside_calls)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(wake_until_ended, NULL);
    while (atomic_load(&begun) < THREADS) /* a sanitizer has locks of its own around the begin of a thread */
        (void)usleep(100);
    for (int i = 0; i < FORKS; i++)
        ck_assert(in_a_child(use_all_in_child, NULL));
    atomic_store(&ended, true);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
}
END_TEST

static void wake_in_handler(int number)
{
    (void)number;
    sm_word_wake_all(&words[0]);
}

static void *wake_one_until_ended(void *unused)
{
    (void)unused;
    while (!atomic_load(&ended)) {
        sm_word_wake_all(&words[0]);
        sm_word_wait_for(&words[0], 0, 1);
    }
    return NULL;
}

static atomic_uint at_signal;

static void wake_once_in_handler(int number)
{
    wake_in_handler(number);
    atomic_fetch_add(&at_signal, 1);
}

/* The linker puts the wrapper in place of the C library's function (--wrap). A signal comes where a system without
 * words wakes the sleepers, and has to wait until the thread holds nothing. */
static atomic_bool signals_where_words_wake;

int __real_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    if (atomic_exchange(&signals_where_words_wake, false))
        (void)raise(SIGUSR1);
    return __real_pthread_cond_broadcast(condition);
}

START_TEST(a_signal_in_the_midst_of_a_wake)
{
    struct sigaction action = {.sa_handler = wake_once_in_handler};
    (void)sigemptyset(&action.sa_mask);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    atomic_store(&signals_where_words_wake, true);
    sm_word_wake_all(&words[0]);
    const bool has_no_words = !atomic_load(&signals_where_words_wake);
    ck_assert_uint_eq(atomic_load(&at_signal), has_no_words ? 1 : 0);
}
END_TEST

/* A handler may fork, and a fork wakes words. */
START_TEST(a_handler_that_wakes)
{
    enum { SIGNALS = 2000 };
    struct sigaction action = {.sa_handler = wake_in_handler};
    (void)sigemptyset(&action.sa_mask);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    const pthread_t thread = start_thread(wake_one_until_ended, NULL);
    for (int i = 0; i < SIGNALS; i++) {
        ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
        sm_word_wake_all(&words[0]);
    }
    atomic_store(&ended, true);
    join_thread(thread);
}
END_TEST

/* A sleeper whose end is asked for leaves the word to the others. */
START_TEST(a_sleeper_that_is_cancelled)
{
    void *result;
    const pthread_t ends = start_thread(sleep_on, &words[0]);
    const pthread_t stays = start_thread(sleep_on, &words[0]);
    await_sleepers(2);
    ck_assert_int_eq(pthread_cancel(ends), 0);
    (void)usleep(20000);
    atomic_store(&words[0], 1);
    sm_word_wake_all(&words[0]);
    join_thread(stays);
    ck_assert_int_eq(pthread_join(ends, &result), 0);
}
END_TEST
#endif

Suite *suite(void)
{
    Suite *const made = suite_create("words");
    TCase *const tests = add_case_in_children(made, "words");
    add_tests(tests, one_of_each_word, two_in_turn, no_sleep_if_it_differs, all_of_one_word, no_sleep_for_ever,
              woken_before_the_time);
#if WITH_POSIX
    add_tests(tests, a_fork_beside_calls, a_signal_in_the_midst_of_a_wake, a_handler_that_wakes,
              a_sleeper_that_is_cancelled);
#endif
    return made;
}
