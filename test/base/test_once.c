/* Checks work that a process does once. */
#include "fixture.h"

#include "base/once.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static struct sm_once once;
static atomic_int begun, waiting, done;

/* The linker puts this in place of the library's function (--wrap). */
void __real_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen)
{
    if (word == &once.state)
        atomic_fetch_add(&waiting, 1);
    __real_sm_word_wait(word, seen);
}

/* The work lasts until every other thread waits for it. */
enum { OTHERS = 3 };

static void work(void)
{
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&waiting) < OTHERS)
        (void)sched_yield();
    atomic_fetch_add(&done, 1);
}

static void *need_it(void *unused)
{
    sm_once(&once, work);
    return atomic_load(&done) == 1 ? NULL : unused;
}

START_TEST(many_threads_need_it)
{
    pthread_t threads[OTHERS + 1];
    for (int i = 0; i <= OTHERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, need_it, &once), 0);
    for (int i = 0; i <= OTHERS; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(begun, 1);
    ck_assert_ptr_null(need_it(&once));
    ck_assert_int_eq(begun, 1);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("once");
    add_tests(add_case(made, "once"), many_threads_need_it);
    return made;
}
