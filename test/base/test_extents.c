/* Checks extents against a list: those that overlap a range, in any order of adding and removing, and the depth. */
#include "base/extents.h"

#include "fixture.h"

#include <stdlib.h>

enum { MANY = 600, RANGE = 3000 };

static struct sm_extent all[MANY];
static bool is_in[MANY];
static bool is_found[MANY];

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static bool note(struct sm_extent *extent, void *count)
{
    is_found[extent - all] = true;
    ++*(unsigned *)count;
    return true;
}

static bool stop(struct sm_extent *extent, void *count)
{
    (void)extent;
    return --*(unsigned *)count > 0;
}

static void check_range(const struct sm_extents *extents, uint64_t begin, uint64_t end)
{
    unsigned found = 0, expected = 0;
    memset(is_found, 0, sizeof is_found);
    ck_assert(sm_extents_visit(extents, begin, end, note, &found));
    for (int i = 0; i < MANY; i++) {
        const bool overlaps = is_in[i] && all[i].begin < end && all[i].end > begin;
        ck_assert_int_eq(is_found[i], overlaps);
        expected += overlaps;
    }
    ck_assert_uint_eq(found, expected);
    if (found > 0) {
        unsigned half = (found + 1) / 2;
        ck_assert(!sm_extents_visit(extents, begin, end, stop, &half));
        ck_assert_uint_eq(half, 0);
    }
}

START_TEST(against_a_list)
{
    struct sm_extents extents = {.top = NULL};
    uint64_t state = (uint64_t)_i;
    memset(is_in, 0, sizeof is_in);
    for (int step = 0; step < 6000; step++) {
        const size_t i = next_random(&state) % MANY;
        if (is_in[i]) {
            sm_extents_remove(&extents, &all[i]);
        } else {
            const uint64_t begin = next_random(&state) % RANGE;
            const uint64_t size = 1 + next_random(&state) % (i % 10 ? 20 : 500);
            all[i] = (struct sm_extent){.begin = begin, .end = begin + size};
            sm_extents_add(&extents, &all[i]);
        }
        is_in[i] = !is_in[i];
        if (step % 50 == 0) {
            const uint64_t begin = next_random(&state) % RANGE;
            check_range(&extents, begin, begin + 1 + next_random(&state) % 100);
        }
    }
    check_range(&extents, 0, UINT64_MAX);
    for (size_t i = 0; i < MANY; i++)
        if (is_in[i])
            sm_extents_remove(&extents, &all[i]);
    ck_assert_ptr_null(extents.top);
}
END_TEST

static unsigned depth_of(const struct sm_extent *tree)
{
    if (!tree)
        return 0;
    const unsigned before = depth_of(tree->below[0]), behind = depth_of(tree->below[1]);
    return 1 + (before > behind ? before : behind);
}

/* The order of adding does not matter: a tree of 200,000 is about as deep as one of 2,000 and seven more doublings. */
START_TEST(the_depth_grows_slowly)
{
    enum { MOST = 200000 };
    struct sm_extent *const extents_of = calloc(MOST, sizeof *extents_of);
    struct sm_extents extents = {.top = NULL};
    for (size_t i = 0; i < MOST; i++) {
        const size_t at = _i == 0 ? i : _i == 1 ? MOST - i : i * 7919 % MOST;
        extents_of[i] = (struct sm_extent){.begin = at * 10, .end = at * 10 + 10};
        sm_extents_add(&extents, &extents_of[i]);
    }
    ck_assert_uint_le(depth_of(extents.top), 3 * 18);
    ck_assert(sm_extents_visit(&extents, 5000, 5001, stop, &(unsigned){2})); /* one is there */
    free(extents_of);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("extents");
    TCase *const tests = add_case(made, "extents");
    tcase_add_loop_test(tests, against_a_list, 0, 10);
    tcase_add_loop_test(tests, the_depth_grows_slowly, 0, 3);
    return made;
}
