/* Checks the controls of the pool of page-locked memory: limit, trims, decay, reservations and statistics. */
#include "host_pool_kit.h"

#include "memory/pinned/tlsf.h"
#include "api/report.h"

/* ---- The limit ---- */

START_TEST(limit)
{
    struct sm_pinned memory;
    use_fake();
    const struct sm_pinned small = alloc(100);
    OK(synced_mem_host_pool_set_limit(3 * MIB + MIB / 2));
    const struct sm_pinned more = alloc(MIB + MIB / 2);
    const struct sm_pinned large = alloc(MIB);
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB); /* no segment of the usual size was added */
    const synced_mem_status status = sm_host_pool_alloc(0, 3 * MIB, &memory);
    (void)sm_report(status, "alloc", NULL);
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    SAYS("3145728");
    SAYS("3670016");
    ck_assert_uint_eq(pool_now().requested_bytes, 100 + 2 * MIB + MIB / 2);
    FAILS(gpu_expected() ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_NO_GPU,
          synced_mem_host_pool_reserve(0, MIB));
    OK(synced_mem_host_pool_set_limit(1)); /* memory in use stays */
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB);
    give(large);
    OK(synced_mem_host_pool_set_limit(2 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    give(more);
    OK(synced_mem_host_pool_set_limit(0));
    give(alloc(3 * MIB));
    give(small);
    check_nothing_held();
}
END_TEST

/* ---- Trimming ---- */

START_TEST(trim)
{
    use_fake();
    const struct sm_pinned small = alloc(100);
    const struct sm_pinned first = alloc(4 * MIB);
    const struct sm_pinned second = alloc(5 * MIB);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 11 * MIB);
    give(second);
    give(first);
    OK(synced_mem_host_pool_trim(11 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 11 * MIB);
    OK(synced_mem_host_pool_trim(10 * MIB));
    ck_assert_uint_lt(pool_now().held_bytes, 8 * MIB);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    ck_assert(!sm_host_pool_reclaim());
    give(small);
    ck_assert(sm_host_pool_reclaim());
    ck_assert(!sm_host_pool_reclaim());
    check_nothing_held();
}
END_TEST

/* Memory of a transfer in flight is in use. */
START_TEST(trim_in_flight)
{
    enum { SIZE = 300000 };
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const up = make_on(SIZE, 0);
    synced_mem *const down = make_at_gpu(SIZE, 2);
    host_fill(synced_mem_overwrite_cpu_data(up), SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(up, stream));
    OK(synced_mem_async_cpu_pull(down, stream));
    OK(synced_mem_release_cpu_data(up));
    OK(synced_mem_host_pool_trim(0));
    ck_assert(device_is(synced_mem_gpu_data(up), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(down), SIZE, 2));
    RELEASE_EACH(up, down);
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(stats_now().pinned_bytes, 0);
    close_stream(stream);
}
END_TEST

/* ---- Decay ---- */

START_TEST(unused_for_long)
{
    use_fake();
    give(alloc(100));
    pass_some_time();
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    OK(synced_mem_host_pool_set_decay(3600000));
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    OK(synced_mem_host_pool_set_decay(1));
    pass_some_time();
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 0);
    const struct sm_pinned used = alloc(100);
    give(alloc(3 * MIB));
    OK(synced_mem_host_pool_trim(5 * MIB)); /* takes it out of the cache */
    pass_some_time();
    OK(synced_mem_reap());
    ck_assert_uint_eq(pool_now().held_bytes, 2 * MIB);
    give(used);
    OK(synced_mem_host_pool_trim(2 * MIB));
    pass_some_time();
    give(alloc(3 * MIB)); /* the pool grows */
    ck_assert_uint_eq(pool_now().held_bytes, 3 * MIB);
    check_nothing_held();
}
END_TEST

/* The uptime may be shorter than the decay. */
START_TEST(times)
{
    ck_assert_uint_eq(sm_arena_time(UINT32_MAX), 0);
    ck_assert_uint_gt(sm_arena_time(0), sm_arena_time(10));
}
END_TEST

/* ---- Reservations ---- */

START_TEST(reserved)
{
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_reserve(-2, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_reserve(0, SIZE_MAX));
    SAYS("18446744073709551615");
    FAILS_WITHOUT_GPU(synced_mem_host_pool_reserve(0, 0));
    FAILS_WITHOUT_GPU(synced_mem_host_pool_reserve(SYNCED_MEM_DEVICE_CURRENT, 20 * MIB));
    if (!gpu_expected())
        return;
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_host_pool_reserve(devices(), 1));
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_host_pool_reserve(0, PTRDIFF_MAX));
    ck_assert_uint_eq(pool_now().registrations, 1);
    OK(synced_mem_host_pool_reserve(0, 100));
    synced_mem *const mem = make_on(20 * MIB, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PINNED);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(pool_now().registrations, 1);
    ck_assert_uint_eq(pool_now().reused_allocations, 1);
    ck_assert_uint_eq(pool_now().fresh_allocations, 0);
}
END_TEST

/* The pool does not expect another request of a size that it could not reserve. Segments that are too small are not
 * held beside new ones. */
START_TEST(reserved_in_vain)
{
    use_fake();
    ck_assert_int_eq(sm_host_pool_reserve(0, SM_TLSF_LARGEST), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    give(alloc(20 * MIB));
    give(alloc(21 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 21 * MIB);
    OK(sm_host_pool_reserve(0, 25 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 25 * MIB);
    give(alloc(10 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 25 * MIB);
    check_nothing_held();
}
END_TEST

/* A refused request counts in no statistic, and the pool does not expect it again. */
START_TEST(refused)
{
    struct sm_pinned memory;
    synced_mem *const mem = make_on(60 * MIB, 0);
    use_fake();
    give(alloc(100));
    OK(synced_mem_host_pool_set_limit(30 * MIB));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(sm_host_pool_alloc(0, 60 * MIB, &memory), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    if (gpu_expected())
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    OK(synced_mem_host_pool_set_limit(0));
    const synced_mem_host_pool_stats stats = pool_now();
    ck_assert_uint_eq(stats.requested_bytes, 0);
    ck_assert_uint_eq(stats.peak_requested_bytes, 100);
    ck_assert_uint_eq(stats.fresh_allocations + stats.reused_allocations, 1);
    give(alloc(20 * MIB));
    give(alloc(21 * MIB));
    ck_assert_uint_eq(pool_now().held_bytes, 21 * MIB);
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 21 * MIB);
    OK(synced_mem_release(mem));
    check_nothing_held();
}
END_TEST

/* ---- Pageable memory instead ---- */

START_TEST(pageable_fallback)
{
    OK(synced_mem_host_pool_set_limit(4096));
    synced_mem *const mem = make_on(5000, 0);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    SAYS("limit");
    synced_mem_set_pageable_fallback(1);
    host_fill(synced_mem_overwrite_cpu_data(mem), 5000, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_eq(stats_now().pageable_fallbacks, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), 5000, 1));
    synced_mem_set_pageable_fallback(0);
    OK(synced_mem_release_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    ck_assert_uint_eq(stats_now().pageable_fallbacks, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* Pageable memory replaced page-locked memory. A record that is refused later starts no reclaim. */
START_TEST(no_records_after_a_fallback)
{
    enum { MANY = 1000 };
    static synced_mem *objects[MANY];
    int i = 0;
    OK(synced_mem_host_pool_set_limit(4096));
    synced_mem_set_pageable_fallback(1);
    for (int j = 0; j < MANY; j++)
        objects[j] = make_on(5000, 0);
    do
        lacks = i > 0 ? RECORDS : NOTHING;
    while (synced_mem_overwrite_cpu_data(objects[i]) && ++i < MANY);
    lacks = NOTHING;
    ck_assert_int_gt(i, 0);
    ck_assert_int_lt(i, MANY);
    SAYS("record");
    ck_assert_uint_eq(stats_now().pageable_fallbacks, (unsigned)i);
    ck_assert_uint_eq(stats_now().oom_reaps + stats_now().oom_failures, 0);
    for (int j = 0; j < MANY; j++)
        OK(synced_mem_release(objects[j]));
    synced_mem_set_pageable_fallback(0);
}
END_TEST

/* ---- Statistics ---- */

START_TEST(numbers)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats - 1};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_get_stats(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_host_pool_get_stats(&stats));
    SAYS("struct_size");
    use_fake();
    const struct sm_pinned first = alloc(3 * MIB);
    give(alloc(100));
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 3 * MIB + 100);
    ck_assert_uint_eq(pool_now().peak_held_bytes, 5 * MIB);
    give(first);
    OK(synced_mem_host_pool_trim(0));
    ck_assert_uint_eq(pool_now().peak_held_bytes, 5 * MIB);
    OK(synced_mem_host_pool_reset_peaks());
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 0);
    ck_assert_uint_eq(pool_now().peak_held_bytes, 0);
    give(alloc(50));
    ck_assert_uint_eq(pool_now().peak_requested_bytes, 50);
    give(alloc(50));
    ck_assert_uint_eq(pool_now().fresh_allocations, 3);
    ck_assert_uint_eq(pool_now().reused_allocations, 1);
    check_nothing_held();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_pool_controls");
    TCase *const controls = add_case(made, "controls");
    add_tests(controls, limit, trim, unused_for_long, times, reserved, reserved_in_vain, refused, numbers);
    add_gpu_tests(controls, trim_in_flight, pageable_fallback, no_records_after_a_fallback);
    return made;
}
