/* Tests holds of evictable objects, and their eviction by a budget. */
#include "hold_kit.h"

#include <string.h>

/* ---- Holds ---- */

START_TEST(pointers_are_good_while_held)
{
    synced_mem *const mem = make_evictable("layer", HOLD_BYTES);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 3);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(mem, stream));
    SAYS("is held");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_gpu_data(mem));
    OK(hold_one(mem, SYNCED_MEM_MUTABLE, stream));
    OK(hold_one(mem, SYNCED_MEM_MUTABLE, stream));
    void *const data = given(synced_mem_mutable_gpu_data_on(mem, stream));
    ck_assert_ptr_eq(given(synced_mem_mutable_gpu_data_on(mem, stream)), data);
    gpu_fill(data, HOLD_BYTES, 4, stream);
    OK(unhold_one(mem));
    ck_assert_ptr_eq(given(synced_mem_mutable_gpu_data_on(mem, stream)), data); /* held once more */
    OK(unhold_one(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_gpu_data_on(mem, stream));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(mem, stream));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 4));
    RELEASE_EACH(mem);
    CLOSE_EACH(stream);
}
END_TEST

START_TEST(a_hold_brings_what_its_mode_needs)
{
    synced_mem *const mem = make_evictable("layer", HOLD_BYTES);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 3);
    OK(hold_one(mem, SYNCED_MEM_OVERWRITE, stream));
    ck_assert_uint_eq(stats_now().h2d_transfers, 0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    OK(unhold_one(mem));
    OK(hold_one(mem, SYNCED_MEM_READ, stream));
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert(device_is(given(synced_mem_gpu_data(mem)), HOLD_BYTES, 3));
    OK(unhold_one(mem));
    OK(hold_one(mem, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY));
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    ck_assert_uint_eq(stats_now().gpu_allocations, 1);
    OK(unhold_one(mem));
    RELEASE_EACH(mem);
    CLOSE_EACH(stream);
}
END_TEST

START_TEST(contents_that_nobody_wrote_are_zeros)
{
    synced_mem *const mem = make_evictable("zeros", HOLD_BYTES);
    static unsigned char read[HOLD_BYTES];
    OK(hold_one(mem, SYNCED_MEM_READ, NULL));
    gpu_read(read, given(synced_mem_gpu_data(mem)), HOLD_BYTES);
    for (size_t i = 0; i < HOLD_BYTES; i += 4096)
        ck_assert_uint_eq(read[i], 0);
    OK(unhold_one(mem));
    RELEASE_EACH(mem);
}
END_TEST

enum { CUT = 4000, PART = 500 };

/* Some bytes of the object are on the host alone. A hold brings these, and no others. */
START_TEST(parts_that_the_device_lacks)
{
    const synced_mem_mode mode = _i % 2 ? SYNCED_MEM_MUTABLE : SYNCED_MEM_READ;
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    const synced_mem_stream on = _i / 2 % 2 ? SYNCED_MEM_STREAM_LIBRARY : stream;
    const bool is_held_before = _i / 4 % 2;
    synced_mem *const mem = make_evictable("parts", HOLD_BYTES);
    synced_mem *const other = make_at_cpu(PART, 7);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 3);
    if (is_held_before)
        OK(hold_one(mem, SYNCED_MEM_READ, stream));
    else
        OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_copy(mem, CUT, other, 0, PART, SYNCED_MEM_NO_STREAM));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    const uint64_t before = stats_now().h2d_bytes;
    OK(hold_one(mem, mode, on));
    ck_assert_uint_eq(stats_now().h2d_bytes - before, PART);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    const unsigned char *const data = given(synced_mem_gpu_data_on(mem, stream));
    ck_assert_uint_eq(stats_now().h2d_bytes - before, PART);
    gpu_stream_sync(stream);
    ck_assert(device_is(data, CUT, 3));
    ck_assert(device_is(data + CUT, PART, 7));
    OK(unhold_one(mem));
    if (is_held_before)
        OK(unhold_one(mem));
    RELEASE_EACH(mem, other);
    CLOSE_EACH(stream);
}
END_TEST

/* Parts whose earlier uses differ have no contents: the hold's stream fills all of them. */
START_TEST(parts_that_nobody_wrote)
{
    const synced_mem_stream stream = open_stream(NON_BLOCKING), reader = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_evictable("parts", HOLD_BYTES);
    synced_mem *const other = make_on(PART, 0);
    OK(hold_one(mem, SYNCED_MEM_OVERWRITE, stream));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), HOLD_BYTES, 3, stream);
    gpu_delay(reader);
    OK(synced_mem_copy(other, 0, mem, CUT, PART, reader));
    OK(unhold_one(mem));
    OK(synced_mem_clear(mem));
    OK(hold_one(mem, SYNCED_MEM_READ, _i ? SYNCED_MEM_STREAM_LIBRARY : stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert(device_is(given(synced_mem_gpu_data_on(mem, stream)), HOLD_BYTES, 0));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 0));
    OK(unhold_one(mem));
    RELEASE_EACH(mem, other);
    CLOSE_EACH(stream, reader);
}
END_TEST

/* Its bytes are counted once, and each hold of a call's ends. */
START_TEST(a_push_names_an_object_twice)
{
    synced_mem *mems[2];
    make_many(mems, 1, 5);
    mems[1] = mems[0];
    set_budget(HOLD_BYTES);
    OK(synced_mem_async_gpu_push_n(mems, 2, NULL));
    ck_assert_int_eq(synced_mem_head(mems[0]), SYNCED_MEM_SYNCED);
    ck_assert_uint_eq(stats_now().gpu_bytes, HOLD_BYTES);
    set_budget(0);
    ck_assert_int_eq(synced_mem_head(mems[0]), SYNCED_MEM_AT_CPU);
    RELEASE_EACH(mems[0]);
}
END_TEST

/* ---- Eviction ---- */

enum { MANY = 8 };

static void expect_at(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    static unsigned char expected[HOLD_BYTES];
    host_fill(expected, HOLD_BYTES, pattern);
    OK(hold_one(mem, SYNCED_MEM_READ, stream));
    gpu_expect(given(synced_mem_gpu_data_on(mem, stream)), HOLD_BYTES, expected, stream);
    OK(unhold_one(mem));
}

START_TEST(a_set_larger_than_the_budget_passes_through_it)
{
    synced_mem *mems[MANY];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_many(mems, MANY, 10);
    set_budget((uint64_t)(_i + 1) * HOLD_BYTES);
    for (unsigned round = 0; round < 4; round++)
        for (unsigned i = 0; i < MANY; i++) {
            expect_at(mems[i], 10 + i, stream);
            ck_assert_uint_le(stats_now().gpu_bytes + stats_now().gpu_spare_bytes, (uint64_t)(_i + 1) * HOLD_BYTES);
        }
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.dirty_evictions, 0);
    ck_assert_uint_eq(stats.d2h_transfers, 0);
    ck_assert_uint_eq(stats.hold_hits + stats.hold_misses, 4 * MANY);
    ck_assert_uint_eq(stats.evicted_bytes, stats.clean_evictions * HOLD_BYTES);
    if (_i + 1 < MANY)
        ck_assert_uint_ge(stats.clean_evictions, MANY - (unsigned)_i - 1);
    else
        ck_assert_uint_eq(stats.clean_evictions, 0);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    release_all(mems, MANY);
    CLOSE_EACH(stream);
}
END_TEST

START_TEST(what_was_written_is_pulled_first)
{
    synced_mem *mems[MANY];
    const synced_mem_stream stream = open_stream(_i % 2 ? BLOCKING : NON_BLOCKING);
    const synced_mem_stream other = open_stream(NON_BLOCKING);
    make_many(mems, MANY, 0);
    set_budget(2 * HOLD_BYTES);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < MANY; i++) {
            const synced_mem_stream on = _i < 2 || i % 2 ? stream : other;
            OK(hold_one(mems[i], SYNCED_MEM_OVERWRITE, _i % 3 ? on : other));
            gpu_fill(given(synced_mem_overwrite_gpu_data_on(mems[i], on)), HOLD_BYTES, 100 * round + i, on);
            OK(unhold_one(mems[i]));
        }
    for (unsigned i = 0; i < MANY; i++)
        expect_at(mems[i], 200 + i, stream);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(mems[i])), HOLD_BYTES, 200 + i));
    ck_assert_uint_ge(stats_now().dirty_evictions, MANY - 2);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    release_all(mems, MANY);
    CLOSE_EACH(stream, other);
}
END_TEST

/* The event of an unhold covers nothing that is queued later. If it did, the second hold's stream would never end. The
 * hot path does not serve cudaStreamPerThread, so no pointer is published for it. */
START_TEST(a_prefetch_waits_for_nothing_queued_later)
{
    synced_mem *mems[2];
    const bool is_of_thread = _i == 1;
    const synced_mem_stream compute = is_of_thread ? (synced_mem_stream)2 : open_stream(NON_BLOCKING);
    const synced_mem_stream copies = open_stream(NON_BLOCKING);
    make_many(mems, 2, 0);
    set_budget(HOLD_BYTES);
    OK(hold_one(mems[0], SYNCED_MEM_MUTABLE, compute));
    gpu_fill(given(synced_mem_mutable_gpu_data_on(mems[0], compute)), HOLD_BYTES, 5, compute);
    OK(unhold_one(mems[0]));
    gpu_hold(compute);
    OK(hold_one(mems[1], SYNCED_MEM_READ, copies));
    gpu_stream_sync(copies);
    OK(unhold_one(mems[1]));
    gpu_unhold();
    ck_assert(host_is(given(synced_mem_cpu_data(mems[0])), HOLD_BYTES, 5));
    release_all(mems, 2);
    close_stream(copies);
    if (!is_of_thread)
        close_stream(compute);
}
END_TEST

START_TEST(pushes_and_copies_evict_but_not_their_own)
{
    synced_mem *mems[MANY];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_many(mems, MANY, 0);
    set_budget(4 * HOLD_BYTES);
    OK(synced_mem_async_gpu_push_n(mems, 4, stream));
    OK(synced_mem_async_gpu_push_n(mems + 4, 4, stream));
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(is_on_device(mems[i]) == (i >= 4));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_async_gpu_push_n(mems, 5, stream));
    SAYS("budget");
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(is_on_device(mems[i]) == (i >= 4));
    OK(synced_mem_async_gpu_copy(mems[0], mems[7], stream));
    expect_at(mems[0], 7, stream);
    ck_assert(!is_on_device(mems[4]) || !is_on_device(mems[5]) || !is_on_device(mems[6]) || !is_on_device(mems[7]));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    release_all(mems, MANY);
    CLOSE_EACH(stream);
}
END_TEST

START_TEST(held_objects_stay)
{
    synced_mem *mems[MANY];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_many(mems, MANY, 0);
    set_budget(3 * HOLD_BYTES);
    OK(synced_mem_hold_n(mems, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    const void *const first = given(synced_mem_gpu_data_on(mems[0], stream));
    for (unsigned i = 2; i < MANY; i++)
        expect_at(mems[i], i, stream);
    ck_assert_ptr_eq(given(synced_mem_gpu_data_on(mems[0], stream)), first);
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
          synced_mem_hold_n(mems + 2, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    SAYS("too much is held");
    ck_assert(is_on_device(mems[MANY - 1])); /* nothing was evicted */
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
          synced_mem_hold_n(mems, 4, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    SAYS("'many' of 1.0 MiB");
    ck_assert(is_on_device(mems[MANY - 1]));
    OK(synced_mem_unhold_n(mems, 2, SYNCED_MEM_SIDE_GPU));
    OK(synced_mem_hold_n(mems + 2, 3, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    OK(synced_mem_unhold_n(mems + 2, 3, SYNCED_MEM_SIDE_GPU));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    release_all(mems, MANY);
    CLOSE_EACH(stream);
}
END_TEST

START_TEST(a_budget_below_what_is_held_applies_later)
{
    synced_mem *mems[MANY];
    uint64_t over;
    make_many(mems, MANY, 0);
    OK(synced_mem_hold_n(mems, MANY, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_gpu_set_budget(0, 2 * HOLD_BYTES, &over));
    ck_assert_uint_eq(over, (MANY - 2) * HOLD_BYTES);
    OK(synced_mem_unhold_n(mems, 3, SYNCED_MEM_SIDE_GPU));
    ck_assert_uint_eq(stats_now().gpu_bytes, (MANY - 3) * HOLD_BYTES);
    OK(synced_mem_unhold_n(mems + 3, MANY - 3, SYNCED_MEM_SIDE_GPU));
    ck_assert_uint_eq(stats_now().gpu_bytes, 2 * HOLD_BYTES);
    OK(synced_mem_gpu_set_budget(0, 0, &over));
    ck_assert_uint_eq(over, 0);
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_AT_CPU);
    OK(synced_mem_gpu_set_budget(0, SYNCED_MEM_NO_BUDGET, &over));
    OK(synced_mem_hold_n(mems, MANY, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(mems, MANY, SYNCED_MEM_SIDE_GPU));
    release_all(mems, MANY);
}
END_TEST

/* A hold of many small objects records no event for each. */
START_TEST(small_objects_come_together)
{
    enum { MOST = 200, SIZE = 3000 };
    static synced_mem *small[MOST];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    const size_t count = _i ? MOST : MOST / 10;
    for (unsigned i = 0; i < count; i++) {
        small[i] = make_evictable("small", SIZE);
        host_fill(given(synced_mem_overwrite_cpu_data(small[i])), SIZE, i);
    }
    const uint64_t before = stats_now().event_records;
    OK(synced_mem_hold_n(small, count, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, stream));
    ck_assert_uint_le(stats_now().event_records - before, 4);
    for (unsigned i = 0; i < count; i++) {
        unsigned char expected[SIZE];
        pattern_write(expected, SIZE, i);
        ck_assert(is_on_device(small[i]));
        gpu_expect(given(synced_mem_gpu_data_on(small[i], stream)), SIZE, expected, stream);
    }
    OK(synced_mem_unhold_n(small, count, SYNCED_MEM_SIDE_GPU));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    for (unsigned i = 0; i < count; i++)
        OK(synced_mem_release(small[i]));
    CLOSE_EACH(stream);
}
END_TEST

/* Spares go before objects, and objects that are not evictable count. */
START_TEST(a_budget_counts_all_memory)
{
    synced_mem *mems[MANY];
    synced_mem *const fixed = make_on(2 * HOLD_BYTES, 0);
    make_many(mems, MANY, 0);
    OK(synced_mem_hold_n(mems, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(mems, 2, SYNCED_MEM_SIDE_GPU));
    given(synced_mem_overwrite_gpu_data(fixed));
    OK(synced_mem_release_gpu_data(mems[1])); /* a spare */
    set_budget(4 * HOLD_BYTES);
    OK(hold_one(mems[3], SYNCED_MEM_READ, NULL));
    ck_assert(is_on_device(mems[0]));
    OK(unhold_one(mems[3]));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_hold_n(mems, 3, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_resize_discard(fixed, 3 * HOLD_BYTES));
    given(synced_mem_overwrite_gpu_data(fixed)); /* evicts */
    ck_assert_uint_le(stats_now().gpu_bytes, 4 * HOLD_BYTES);
    ck_assert_uint_ge(stats_now().clean_evictions, 1);
    OK(synced_mem_resize_discard(fixed, 5 * HOLD_BYTES));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(fixed));
    SAYS("would exceed the budget");
    release_all(mems, MANY);
    RELEASE_EACH(fixed);
}
END_TEST

/* An object that was held once is expected after as many holds as there are objects. */
START_TEST(who_goes_depends_on_objects_that_live)
{
    enum { OTHERS = 32 };
    synced_mem *others[OTHERS], *mems[3];
    const bool others_live = _i == 1;
    make_many(mems, 3, 0);
    make_many(others, OTHERS, 3);
    OK(hold_one(mems[0], SYNCED_MEM_READ, NULL));
    OK(unhold_one(mems[0]));
    for (int i = 0; i < OTHERS; i++) {
        OK(hold_one(others[i], SYNCED_MEM_READ, NULL));
        OK(unhold_one(others[i]));
        OK(others_live ? synced_mem_release_gpu_data(others[i]) : synced_mem_release(others[i]));
    }
    OK(hold_one(mems[0], SYNCED_MEM_READ, NULL)); /* expected after 33 holds again */
    OK(unhold_one(mems[0]));
    OK(hold_one(mems[1], SYNCED_MEM_READ, NULL)); /* after 2, or 34 */
    OK(unhold_one(mems[1]));
    set_budget(2 * HOLD_BYTES);
    OK(hold_one(mems[2], SYNCED_MEM_READ, NULL));
    ck_assert_int_eq(is_on_device(mems[0]), others_live);
    ck_assert_int_eq(is_on_device(mems[1]), !others_live);
    OK(unhold_one(mems[2]));
    release_all(mems, 3);
    if (others_live)
        release_all(others, OTHERS);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold");
    TCase *const holds = add_case(made, "holds");
    add_gpu_tests(holds, pointers_are_good_while_held, a_hold_brings_what_its_mode_needs,
                  contents_that_nobody_wrote_are_zeros, a_push_names_an_object_twice);
    add_gpu_loop_test(holds, small_objects_come_together, 0, 2);
    add_gpu_loop_test(holds, parts_that_the_device_lacks, 0, 8);
    add_gpu_loop_test(holds, parts_that_nobody_wrote, 0, 2);
    TCase *const evictions = add_case(made, "evictions");
    add_gpu_loop_test(evictions, a_set_larger_than_the_budget_passes_through_it, 0, MANY);
    add_gpu_loop_test(evictions, what_was_written_is_pulled_first, 0, 6);
    add_gpu_loop_test(evictions, who_goes_depends_on_objects_that_live, 0, 2);
    add_gpu_loop_test(evictions, a_prefetch_waits_for_nothing_queued_later, 0, 2);
    add_gpu_tests(evictions, pushes_and_copies_evict_but_not_their_own, held_objects_stay,
                  a_budget_below_what_is_held_applies_later, a_budget_counts_all_memory);
    return made;
}
