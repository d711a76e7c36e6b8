/* Tests that an eviction passes over a copy whose memory becomes free late, if another serves nearly as well. */
#include "hold_kit.h"

enum { FITTING = 8, ALL = FITTING + 2 };

static synced_mem *mems[ALL];
static synced_mem_stream stream, other;

static void begin(void)
{
    stream = open_stream(NON_BLOCKING);
    other = open_stream(NON_BLOCKING);
    make_many(mems, ALL, 0);
    set_budget((uint64_t)FITTING * HOLD_BYTES);
}

static void use(unsigned i, bool writes)
{
    const synced_mem_mode mode = writes ? SYNCED_MEM_MUTABLE : SYNCED_MEM_READ;
    OK(hold_one(mems[i], mode, stream));
    void *const data = given(synced_mem_access(mems[i], SYNCED_MEM_SIDE_GPU, mode, stream));
    if (writes)
        gpu_fill(data, HOLD_BYTES, 100 + i, stream);
    OK(unhold_one(mems[i]));
}

/* Uses all that fit. The work on those from the first busy one on does not end before gpu_unhold(). */
static void use_fitting(unsigned busy, bool writes)
{
    for (unsigned i = 0; i < FITTING; i++) {
        if (i == busy) {
            gpu_stream_sync(stream);
            gpu_hold(stream);
        }
        use(i, writes);
    }
}

/* Checks the contents of all. */
static void end(bool written)
{
    gpu_stream_sync(stream);
    set_budget(SYNCED_MEM_NO_BUDGET);
    for (unsigned i = 0; i < ALL; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(mems[i])), HOLD_BYTES, written && i < FITTING ? 100 + i : i));
    release_all(mems, ALL);
    CLOSE_EACH(stream, other);
}

/* Returns which of those that fit has gone. */
static unsigned find_gone(void)
{
    unsigned gone = ALL;
    for (unsigned i = 0; i < FITTING; i++)
        if (!is_on_device(mems[i])) {
            ck_assert_uint_eq(gone, ALL);
            gone = i;
        }
    return gone;
}

/* As Belady's optimum in a cycle, the policy chooses what was used last. But the next object would then wait for the
 * work on that one, and for its pull. */
START_TEST(what_is_written_just_now_stays)
{
    begin();
    use_fitting(FITTING - 1, true);
    OK(hold_one(mems[FITTING], SYNCED_MEM_READ, other));
    ck_assert_uint_eq(find_gone(), FITTING - 2);
    ck_assert(given(synced_mem_gpu_data_on(mems[FITTING], other)));
    gpu_stream_sync(other); /* it waits for nothing that is held */
    OK(unhold_one(mems[FITTING]));
    gpu_unhold();
    ck_assert_uint_eq(stats_now().dirty_evictions, 1);
    end(true);
}
END_TEST

/* Its work is over, or it needs no pull. */
START_TEST(what_is_free_in_time_goes_first)
{
    const bool writes = _i == 0;
    begin();
    use_fitting(writes ? ALL : FITTING - 1, writes);
    if (writes)
        gpu_stream_sync(stream);
    OK(hold_one(mems[FITTING], SYNCED_MEM_READ, stream));
    ck_assert_uint_eq(find_gone(), FITTING - 1);
    OK(unhold_one(mems[FITTING]));
    if (!writes)
        gpu_unhold();
    end(writes);
}
END_TEST

/* One that is at work is passed over for each that goes, no more. */
START_TEST(as_many_stay_as_go)
{
    const unsigned wanted = (unsigned)_i + 1;
    begin();
    use_fitting(FITTING - 2, true);
    OK(synced_mem_hold_n(mems + FITTING, wanted, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    for (unsigned i = 0; i < FITTING; i++)
        ck_assert_int_eq(is_on_device(mems[i]), wanted == 1 ? i != FITTING - 2 : i != FITTING - 3 && i != FITTING - 4);
    OK(synced_mem_unhold_n(mems + FITTING, wanted, SYNCED_MEM_SIDE_GPU));
    gpu_unhold();
    end(true);
}
END_TEST

/* The others are held. */
START_TEST(it_goes_if_there_is_no_other)
{
    begin();
    use_fitting(FITTING - 1, true);
    for (unsigned i = 0; i + 1 < FITTING; i++)
        OK(hold_one(mems[i], SYNCED_MEM_READ, other));
    OK(hold_one(mems[FITTING], SYNCED_MEM_READ, stream));
    ck_assert_uint_eq(find_gone(), FITTING - 1);
    OK(unhold_one(mems[FITTING]));
    OK(synced_mem_unhold_n(mems, FITTING - 1, SYNCED_MEM_SIDE_GPU));
    gpu_unhold();
    end(true);
}
END_TEST

/* It stays a candidate of later evictions. */
START_TEST(what_was_passed_over_goes_later)
{
    uint64_t over = 1;
    begin();
    use_fitting(FITTING - 1, true);
    use(FITTING, false);
    gpu_unhold();
    OK(synced_mem_gpu_set_budget(0, 0, &over));
    ck_assert_uint_eq(over, 0);
    end(true);
}
END_TEST

/* In a sweep over more than the budget, all of whose work is queued long before it runs, a pull never waits for the
 * work that was queued last. So the misses are those of Belady's optimum for one object less, which has
 * (ALL - FITTING + 1) / (ALL - 1) of all uses, and one for each sweep at most. */
START_TEST(a_sweep_misses_little_more)
{
    enum { SWEEPS = 20 };
    begin();
    for (unsigned i = 0; i < ALL; i++)
        use(i, true);
    const uint64_t before = stats_now().hold_misses;
    for (unsigned sweep = 0; sweep < SWEEPS; sweep++)
        for (unsigned i = 0; i < ALL; i++)
            use(i, true);
    const uint64_t misses = stats_now().hold_misses - before;
    ck_assert_uint_le(misses, SWEEPS * ALL * (ALL - FITTING + 1) / (ALL - 1) + 1);
    gpu_stream_sync(stream);
    set_budget(SYNCED_MEM_NO_BUDGET);
    for (unsigned i = 0; i < ALL; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(mems[i])), HOLD_BYTES, 100 + i));
    release_all(mems, ALL);
    CLOSE_EACH(stream, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_late");
    TCase *const tests = add_case(made, "late");
    add_gpu_loop_test(tests, what_is_free_in_time_goes_first, 0, 2);
    add_gpu_loop_test(tests, as_many_stay_as_go, 0, 2);
    add_gpu_tests(tests, what_is_written_just_now_stays, it_goes_if_there_is_no_other, what_was_passed_over_goes_later,
                  a_sweep_misses_little_more);
    return made;
}
