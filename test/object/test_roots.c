/* Checks that the roots of a call are listed in the order of their addresses, each once. The roots themselves are not
 * used. */
#include "fixture.h"

#include "object/several.h"

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
    struct sm_roots roots = {.list = listed};
    sm_roots_sort(&roots, count);
    ck_assert_uint_eq(roots.count, kept);
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

Suite *suite(void)
{
    Suite *const made = suite_create("roots");
    TCase *const tests = add_case(made, "roots");
    add_tests(tests, any_order);
    return made;
}
