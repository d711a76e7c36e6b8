/* Checks how a call takes the locks of its roots, and that it sorts them by address, each once, before it waits for
 * one. */
#include "fixture.h"

#include "object/several.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100000, ROOT = 128 };

static struct synced_mem *listed[SM_ROOTS_ROOM * MOST];
static struct synced_mem *expected[MOST];

static unsigned draw(unsigned long long *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*state >> 33);
}

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t) * (struct synced_mem *const *)a;
    const uintptr_t second = (uintptr_t) * (struct synced_mem *const *)b;
    return (first > second) - (first < second);
}

/* The oracle: the C library's sort, then each once. */
static size_t sort_expected(size_t count)
{
    size_t kept = 0;
    memcpy(expected, listed, count * sizeof *listed);
    qsort(expected, count, sizeof *expected, compare_addresses);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || expected[i] != expected[i - 1])
            expected[kept++] = expected[i];
    return kept;
}

static void check_sorted(size_t count)
{
    const size_t kept = sort_expected(count);
    struct sm_roots roots = {.list = listed, .count = count};
    sm_roots_sort(&roots);
    ck_assert_uint_eq(roots.count, kept);
    ck_assert(roots.is_sorted);
    ck_assert_mem_eq(listed, expected, kept * sizeof *expected);
}

static void fill(size_t count, uintptr_t (*address_of)(size_t place, size_t count, unsigned long long *random))
{
    unsigned long long random = count;
    for (size_t i = 0; i < count; i++)
        listed[i] = (struct synced_mem *)address_of(i, count, &random); // NOLINT(performance-no-int-to-ptr)
}

static uintptr_t ascend(size_t place, size_t count, unsigned long long *random)
{
    (void)count, (void)random;
    return (uintptr_t)0x7f00000000 + place * ROOT;
}

static uintptr_t descend(size_t place, size_t count, unsigned long long *random)
{
    (void)random;
    return (uintptr_t)0x7f00000000 + (count - place) * ROOT;
}

static uintptr_t scatter(size_t place, size_t count, unsigned long long *random)
{
    (void)place;
    return (uintptr_t)0x7f00000000 + draw(random) % (2 * count) * ROOT;
}

/* As chunks in the heap and in mappings are: at both ends of the address space. */
static uintptr_t lie_far_apart(size_t place, size_t count, unsigned long long *random)
{
    (void)place;
    const uintptr_t begin = draw(random) % 2 ? UINTPTR_MAX / 2 : ROOT;
    return begin + draw(random) % count * ROOT;
}

static uintptr_t be_the_same(size_t place, size_t count, unsigned long long *random)
{
    (void)place, (void)count, (void)random;
    return ROOT;
}

static uintptr_t be_anywhere(size_t place, size_t count, unsigned long long *random)
{
    (void)place, (void)count;
    return ((uintptr_t)draw(random) << (sizeof(uintptr_t) * 8 - 31)) ^ draw(random);
}

START_TEST(any_order)
{
    static uintptr_t (*const orders[])(size_t, size_t, unsigned long long *) = {
        ascend, descend, scatter, lie_far_apart, be_the_same, be_anywhere};
    static const size_t counts[] = {1, 2, 3, 23, 24, 25, 26, 100, 255, 256, 257, 1000, 10000, MOST};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
            fill(counts[j], orders[i]);
            check_sorted(counts[j]);
        }
}
END_TEST

/* ---- Locks ---- */

enum { OBJECTS = 3 };

static synced_mem *mems[OBJECTS]; /* by address, the highest first */

static int compare_backwards(const void *a, const void *b)
{
    return -compare_addresses(a, b);
}

static void make_objects(void)
{
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_create(&mems[i], 1, NULL));
    qsort(mems, OBJECTS, sizeof *mems, compare_backwards);
}

static unsigned get_state(const synced_mem *mem)
{
    return atomic_load(&mem->lock.state);
}

static void check_states(int count, unsigned state)
{
    for (int i = 0; i < count; i++)
        ck_assert_uint_eq(get_state(mems[i]), state);
}

/* No call has a lock any more. */
static void release_objects(void)
{
    check_states(OBJECTS, SM_MUTEX_OPEN);
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_release(mems[i]));
}

START_TEST(locks_that_are_free_are_taken_as_listed)
{
    struct sm_round round = {.roots = {.list = listed}};
    make_objects();
    sm_roots_list(&round.roots, mems, OBJECTS);
    OK(sm_round_begin(&round));
    ck_assert(!round.roots.is_sorted);
    ck_assert_mem_eq(listed, mems, sizeof mems);
    check_states(OBJECTS, SM_MUTEX_HELD);
    sm_round_end(&round);
    release_objects();
}
END_TEST

START_TEST(an_object_that_is_listed_twice_is_locked_once)
{
    struct sm_round round = {.roots = {.list = listed}};
    make_objects();
    synced_mem *const twice[] = {mems[0], mems[1], mems[0]};
    sm_roots_list(&round.roots, twice, 3);
    OK(sm_round_begin(&round));
    ck_assert_uint_eq(round.roots.count, 2);
    check_states(2, SM_MUTEX_HELD);
    sm_round_end(&round);
    release_objects();
}
END_TEST

/* As many copies of one source, or calls on views of one object, list it. Nothing is sorted for them. */
START_TEST(an_object_that_is_named_in_a_row_is_listed_once)
{
    struct sm_round round = {.roots = {.list = listed}};
    make_objects();
    synced_mem *const many[] = {mems[0], mems[0], mems[0]};
    sm_roots_list(&round.roots, &mems[1], 2);
    sm_roots_list(&round.roots, many, 3);
    ck_assert_uint_eq(round.roots.count, OBJECTS);
    OK(sm_round_begin(&round));
    ck_assert(!round.roots.is_sorted);
    sm_round_end(&round);
    release_objects();
}
END_TEST

static void *run_round(void *round)
{
    SOUND(sm_round_begin(round) == SYNCED_MEM_OK);
    sm_round_end(round);
    return NULL;
}

/* A call that kept the first lock, and waited for one with a lower address, could wait for another such call for ever. */
START_TEST(a_call_that_waits_has_no_lock_of_a_higher_address)
{
    pthread_t thread;
    struct sm_round round = {.roots = {.list = listed}};
    make_objects();
    sm_roots_list(&round.roots, mems, OBJECTS);
    sm_mutex_lock(&mems[1]->lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_round, &round), 0);
    while (get_state(mems[1]) != SM_MUTEX_AWAITED)
        sm_pause();
    ck_assert_uint_eq(get_state(mems[0]), SM_MUTEX_OPEN);
    ck_assert_uint_eq(get_state(mems[2]), SM_MUTEX_HELD);
    sm_mutex_unlock(&mems[1]->lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(round.roots.is_sorted);
    release_objects();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("roots");
    TCase *const tests = add_case(made, "roots");
    add_tests(tests, any_order, locks_that_are_free_are_taken_as_listed, an_object_that_is_listed_twice_is_locked_once,
              an_object_that_is_named_in_a_row_is_listed_once, a_call_that_waits_has_no_lock_of_a_higher_address);
    return made;
}
