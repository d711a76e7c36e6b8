/* Checks the policy that chooses who is evicted: with a naive reference, with the simulator on eight orders of uses,
 * and that its cost grows slowly with the number of members. */
#include "fixture.h"

#include "memory/evict_policy.h"
#include "../../bench/evict/simulate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 48, FITTING = 38, USES = 3000 };

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

/* ---- Orders of uses ---- */

static struct use uses[USES];
static uint64_t sizes[LAYERS];

static void use_cycle(void)
{
    for (uint32_t i = 0; i < USES; i++)
        uses[i].member = i % LAYERS;
}

static uint32_t reflect(uint32_t at)
{
    return at < LAYERS ? at : 2 * LAYERS - 1 - at;
}

static void use_forward_and_back(void)
{
    for (uint32_t i = 0; i < USES; i++)
        uses[i].member = reflect(i % (2 * LAYERS));
}

static void use_with_optimizer(void)
{
    for (uint32_t i = 0; i < USES; i++) {
        const uint32_t at = i % (3 * LAYERS);
        uses[i].member = at < 2 * LAYERS ? reflect(at) : at - 2 * LAYERS;
    }
}

static void use_cycle_with_random(void)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < USES; i++)
        uses[i].member = draw(10) == 0 ? draw(LAYERS) : next++ % LAYERS;
}

/* The order of the cycle changes after a quarter of the uses. */
static void use_phases(void)
{
    uint32_t order[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++)
        order[i] = i;
    for (uint32_t i = 0; i < USES; i++) {
        if (i % (USES / 4) == 0)
            for (uint32_t j = LAYERS - 1; j > 0; j--) {
                const uint32_t other = draw(j + 1);
                const uint32_t kept = order[j];
                order[j] = order[other];
                order[other] = kept;
            }
        uses[i].member = order[i % LAYERS];
    }
}

/* Draws a number, of which the first have the greatest share: 1, 1/2^a, 1/3^a ... with a = 1.5. */
static uint32_t draw_skewed(uint32_t below)
{
    static const uint32_t share[] = {1000000, 353553, 192450, 125000, 89443, 68041, 53995, 44194, 37037, 31623,
                                     27410,   24056,  21335,  19090,  17213, 15625, 14267, 13095, 12075, 11180,
                                     10391,   9690,   9066,   8505,   8000,  7542,  7128,  6750,  6403,  6086,
                                     5794,    5524,   5275,   5044,   4829,  4630,  4443,  4269,  4106,  3953,
                                     3809,    3674,   3547,   3426,   3313,  3205,  3104,  3007};
    uint32_t sum = 0;
    for (uint32_t i = 0; i < below; i++)
        sum += share[i];
    uint32_t left = draw(sum);
    uint32_t member = 0;
    while (left >= share[member])
        left -= share[member++];
    return member;
}

static void use_skewed(void)
{
    for (uint32_t i = 0; i < USES; i++)
        uses[i].member = draw_skewed(LAYERS);
}

static void use_uniform(void)
{
    for (uint32_t i = 0; i < USES; i++)
        uses[i].member = draw(LAYERS);
}

/* Six layers of a dense member and seven experts, of which each layer uses two, some more often. */
static void use_experts(void)
{
    for (uint32_t i = 0; i < USES; i++) {
        const uint32_t layer = i / 3 % 6;
        uses[i].member = layer * 8 + (i % 3 == 0 ? 0 : 1 + draw_skewed(7));
    }
}

static uint64_t count_misses(enum algorithm algorithm)
{
    struct outcome outcome;
    const struct order order = {.uses = uses, .count = USES, .bytes = sizes, .members = LAYERS};
    for (int i = 0; i < LAYERS; i++)
        sizes[i] = 1;
    ck_assert(simulate(&order, FITTING, algorithm, &outcome));
    return outcome.misses;
}

enum { DRAWS = 24 };

/* Misses over those of Belady's optimum, in hundredths, and a mean over all draws. */
struct promise {
    const char *name;
    void (*make)(void);
    unsigned most;  /* of the policy */
    unsigned least; /* of LRU, so that the order is one of its kind */
};

static const struct promise promises[] = {
    {"cycle", use_cycle, 100, 430},
    {"forward and back", use_forward_and_back, 102, 100},
    {"with optimizer", use_with_optimizer, 105, 130},
    {"cycle with 10 % random", use_cycle_with_random, 107, 330},
    {"phases", use_phases, 103, 340},
    {"Zipf", use_skewed, 145, 150},
    {"experts", use_experts, 174, 160},
    {"uniform", use_uniform, 283, 260},
};

static unsigned measure_over_belady(enum algorithm algorithm, void (*make_order)(void))
{
    uint64_t misses = 0;
    uint64_t least = 0;
    state = 1;
    for (int draw_number = 0; draw_number < DRAWS; draw_number++) {
        make_order();
        misses += count_misses(algorithm);
        least += count_misses(BELADY);
    }
    return (unsigned)((100 * misses + least / 2) / least);
}

START_TEST(misses_little_more_than_the_optimum)
{
    const struct promise *const promise = &promises[_i];
    const unsigned policy = measure_over_belady(POLICY, promise->make);
    const unsigned lru = measure_over_belady(LRU, promise->make);
    ck_assert_msg(policy <= promise->most, "%s: %u hundredths of the optimum's misses, LRU %u", promise->name, policy,
                  lru);
    ck_assert_msg(lru >= promise->least, "%s: LRU has %u hundredths of the optimum's misses", promise->name, lru);
    ck_assert_uint_ge(measure_over_belady(CLOCK, promise->make), 100);
}
END_TEST

/* ---- A naive reference ---- */

enum { MEMBERS = 40, STEPS = 20000 };

static struct sm_policy policy;
static struct sm_policy_member members[MEMBERS];

/* The times of each member's last uses, the last one first. */
enum { TIMES = SM_POLICY_INTERVALS + 1 };
static uint64_t times[MEMBERS][TIMES];
static unsigned uses_of[MEMBERS];

static void use_and_note(int i)
{
    sm_policy_use(&policy, &members[i]);
    memmove(&times[i][1], &times[i][0], sizeof times[i] - sizeof times[i][0]);
    times[i][0] = policy.now;
    uses_of[i] += uses_of[i] < TIMES;
}

/* Returns how early a candidate goes, as the header says: greater is earlier. */
static double rank_naively(int i)
{
    const unsigned known = uses_of[i] - 1;
    const double age = (double)(policy.now - times[i][0]);
    const double interval = known == 0 ? MEMBERS : (double)((times[i][0] - times[i][known]) / known);
    const bool overdue = age - interval > (2 * interval > 8 ? 2 * interval : 8);
    double distance = interval - age;
    if (overdue)
        distance = known == 0 ? age : interval + age / 4;
    return members[i].is_dirty && distance > 0 ? distance / 2 : distance;
}

static void check_take(void)
{
    double best = -1e18;
    bool any = false;
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].is_candidate) {
            any = true;
            best = rank_naively(i) > best ? rank_naively(i) : best;
        }
    const struct sm_policy_member *const taken = sm_policy_take(&policy);
    ck_assert((taken != NULL) == any);
    if (!any)
        return;
    ck_assert(!taken->is_candidate);
    const double rank = rank_naively((int)(taken - members));
    if (rank < best - 1 || rank > best + 1) /* parts are rounded */
        ck_abort_msg("a member of rank %f was taken, but one has %f", rank, best);
}

/* Some members are used much later once more, or never. */
START_TEST(takes_the_first_of_all)
{
    state = (uint64_t)_i + 7;
    for (int i = 0; i < MEMBERS; i++)
        use_and_note(i);
    for (int step = 0; step < STEPS; step++) {
        const int i = (int)draw(draw(4) == 0 ? MEMBERS - 4 : MEMBERS / 4);
        const uint32_t what = draw(16);
        if (what < 8)
            use_and_note(i);
        if (what < 14)
            sm_policy_offer(&policy, &members[what == 13 ? MEMBERS - 1 - (int)draw(4) : i], draw(3) == 0);
        else if (what == 14)
            sm_policy_withdraw(&policy, &members[i]);
        else
            check_take();
    }
    for (int i = 0; i < MEMBERS; i++)
        check_take();
    ck_assert_ptr_null(sm_policy_take(&policy));
}
END_TEST

/* A new member is overdue later if there are more members by then. */
START_TEST(more_members_make_new_ones_wait)
{
    struct sm_policy own = {.now = 0};
    struct sm_policy_member many[22] = {{.of = NULL}};
    struct sm_policy_member *const new = &many[0], *const known = &many[21];
    sm_policy_use(&own, new);
    sm_policy_offer(&own, new, false);
    own.now += 20;
    sm_policy_use(&own, known);
    own.now += 24;
    sm_policy_use(&own, known);
    sm_policy_offer(&own, known, false);
    if (_i == 1)
        for (int i = 1; i < 21; i++)
            sm_policy_use(&own, &many[i]);
    ck_assert_ptr_eq(sm_policy_take(&own), _i == 0 ? new : known);
}
END_TEST

/* All were used once, each at the time of its number, so a member's distance is what is left of the number of members.
 * The first that is taken has 10. */
START_TEST(takes_another_of_half_the_distance)
{
    enum { COUNT = 11 };
    static const struct {
        int other; /* that is a candidate too */
        bool is_dirty, serves;
    } cases[] = {{9, false, true}, {5, false, true}, {4, false, false}, {5, true, false}, {-1, false, false}};
    struct sm_policy own = {.now = 0};
    struct sm_policy_member many[COUNT] = {{.of = NULL}};
    for (int i = 0; i < COUNT; i++)
        sm_policy_use(&own, &many[i]);
    own.now++;
    sm_policy_offer(&own, &many[10], false);
    if (cases[_i].other >= 0)
        sm_policy_offer(&own, &many[cases[_i].other], cases[_i].is_dirty);
    struct sm_policy_member *const taken = sm_policy_take(&own);
    ck_assert_ptr_eq(taken, &many[10]);
    struct sm_policy_member *const instead = sm_policy_take_instead(&own, taken);
    if (cases[_i].serves) {
        ck_assert_ptr_eq(instead, &many[cases[_i].other]);
        ck_assert(!instead->is_candidate);
        ck_assert_ptr_null(sm_policy_take(&own));
    } else {
        ck_assert_ptr_null(instead);
        ck_assert(cases[_i].other < 0 || many[cases[_i].other].is_candidate);
    }
}
END_TEST

START_TEST(forgets_members)
{
    struct sm_policy first = {.now = 100}, second = {.now = 0};
    struct sm_policy_member member = {.of = NULL};
    sm_policy_forget(&member);
    sm_policy_use(&first, &member);
    sm_policy_use(&first, &member);
    ck_assert_uint_eq(first.members, 1);
    sm_policy_use(&second, &member);
    ck_assert_uint_eq(first.members, 0);
    ck_assert_uint_eq(second.members, 1);
    ck_assert_uint_eq(member.count, 0);
    sm_policy_forget(&member);
    ck_assert_uint_eq(second.members, 0);
    ck_assert_uint_eq(member.used_at, 0);
}
END_TEST

/* ---- Growth ---- */

/* The processor's time of one use with one eviction, among so many members, in nanoseconds. */
static double measure_use(uint32_t count)
{
    enum { ROUNDS = 200000 };
    struct sm_policy own = {.now = 0};
    struct sm_policy_member *const many = calloc(count, sizeof *many);
    ck_assert_ptr_nonnull(many);
    for (uint32_t i = 0; i < count; i++) {
        sm_policy_use(&own, &many[i]);
        sm_policy_offer(&own, &many[i], false);
    }
    const clock_t begin = clock();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct sm_policy_member *const member = &many[draw(count)];
        sm_policy_use(&own, member);
        sm_policy_offer(&own, member, i % 3 == 0);
        struct sm_policy_member *const gone = sm_policy_take(&own);
        sm_policy_offer(&own, gone, false);
    }
    const double each = (double)(clock() - begin) / CLOCKS_PER_SEC * 1e9 / ROUNDS;
    free(many);
    return each;
}

START_TEST(costs_little_more_among_many_members)
{
    const double few = measure_use(100);
    const double many = measure_use(20000);
    ck_assert_msg(many < 40 * few + 1000, "%.0f ns among 100 members, %.0f ns among 20,000", few, many);
}
END_TEST

/* ---- The simulator ---- */

START_TEST(simulates_sizes_and_writes)
{
    static const struct use few[] = {{0, true}, {1, false}, {2, false}, {0, false}, {3, false}};
    static const uint64_t bytes[] = {10, 20, 30, 1000};
    const struct order order = {.uses = few, .count = 5, .bytes = bytes, .members = 4};
    struct outcome outcome;
    for (int each = 0; each < ALGORITHMS; each++) {
        ck_assert(simulate(&order, 60, (enum algorithm)each, &outcome));
        ck_assert_uint_eq(outcome.misses, 4); /* all fit but the last */
        ck_assert_uint_eq(outcome.missed_bytes, 1060);
        ck_assert_uint_eq(outcome.written_bytes, 0);
    }
    ck_assert(simulate(&order, 50, LRU, &outcome));
    ck_assert_uint_eq(outcome.misses, 5);
    ck_assert_uint_eq(outcome.written_bytes, 10);
    ck_assert(simulate(&order, 50, BELADY, &outcome));
    ck_assert_uint_eq(outcome.misses, 4);
    ck_assert_uint_eq(outcome.written_bytes, 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("evict_policy");
    TCase *const tests = add_case(made, "policy");
    tcase_add_loop_test(tests, misses_little_more_than_the_optimum, 0, (int)(sizeof promises / sizeof *promises));
    tcase_add_loop_test(tests, takes_the_first_of_all, 0, 8);
    tcase_add_loop_test(tests, more_members_make_new_ones_wait, 0, 2);
    tcase_add_loop_test(tests, takes_another_of_half_the_distance, 0, 5);
    add_tests(tests, forgets_members, costs_little_more_among_many_members, simulates_sizes_and_writes);
    return made;
}
