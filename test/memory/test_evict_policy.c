/* Checks the policy that chooses who is evicted: with a naive reference, with the simulator on eight orders of uses,
 * and that its cost grows slowly with the number of members. */
#include "fixture.h"

#include "memory/evict_policy.h"
#include "../../bench/evict/simulate.h"

#include <stdlib.h>
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

/* Misses over those of Belady's optimum, in hundredths, and a mean over eight draws. */
struct promise {
    const char *name;
    void (*make)(void);
    unsigned most;  /* of the policy */
    unsigned least; /* of LRU, so that the order is one of its kind */
};

static const struct promise promises[] = {
    {"cycle", use_cycle, 109, 430},
    {"forward and back", use_forward_and_back, 105, 100},
    {"with optimizer", use_with_optimizer, 109, 130},
    {"cycle with 10 % random", use_cycle_with_random, 117, 330},
    {"phases", use_phases, 112, 340},
    {"Zipf", use_skewed, 153, 150},
    {"experts", use_experts, 183, 160},
    {"uniform", use_uniform, 287, 260},
};

static unsigned measure_over_belady(enum algorithm algorithm, void (*make_order)(void))
{
    uint64_t misses = 0;
    uint64_t least = 0;
    state = 1;
    for (int draw_number = 0; draw_number < 8; draw_number++) {
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

/* Returns how early a candidate goes, as the header says: greater is earlier. */
static double rank_naively(const struct sm_policy_member *member)
{
    const double age = (double)(policy.now - member->used_at);
    const double interval = (double)(member->expected_at - member->used_at);
    if (member->count == 0)
        return 1e18 + (member->is_dirty ? age / 2 : age);
    const double overdue = age - interval > (interval > 8 ? interval : 8);
    const double distance = overdue ? age : interval - age;
    return member->is_dirty && distance > 0 ? distance / 2 : distance;
}

static void check_take(void)
{
    double best = -1e18;
    bool any = false;
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].is_candidate) {
            any = true;
            best = rank_naively(&members[i]) > best ? rank_naively(&members[i]) : best;
        }
    const struct sm_policy_member *const taken = sm_policy_take(&policy);
    ck_assert((taken != NULL) == any);
    if (!any)
        return;
    ck_assert(!taken->is_candidate);
    const double rank = rank_naively(taken);
    if (rank < best - 1 || rank > best + 1) /* halves are rounded */
        ck_abort_msg("a member of rank %f was taken, but one has %f", rank, best);
}

START_TEST(takes_the_first_of_all)
{
    state = (uint64_t)_i + 7;
    for (int step = 0; step < STEPS; step++) {
        struct sm_policy_member *const member = &members[draw(draw(4) == 0 ? MEMBERS : MEMBERS / 4)];
        const uint32_t what = draw(16);
        if (what < 8)
            sm_policy_use(&policy, member);
        if (what < 14 && member->used_at != 0)
            sm_policy_offer(&policy, member, draw(3) == 0);
        else if (what == 14)
            sm_policy_withdraw(&policy, member);
        else
            check_take();
    }
    while (policy.timers.least || policy.heaps[SM_POLICY_NEW][0].least || policy.heaps[SM_POLICY_NEW][1].least)
        check_take();
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
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, misses_little_more_than_the_optimum, 0, (int)(sizeof promises / sizeof *promises));
    tcase_add_loop_test(tests, takes_the_first_of_all, 0, 8);
    add_tests(tests, costs_little_more_among_many_members, simulates_sizes_and_writes);
    return made;
}
