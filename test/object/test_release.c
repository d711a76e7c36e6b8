/* Checks the release of the memory of one side, or of both. The contents are kept wherever one side stays. */
#include "fixture.h"

enum { SIZE = 5000 };

static uint64_t host_bytes(void)
{
    const synced_mem_stats stats = stats_now();
    return stats.pageable_bytes + stats.pinned_bytes;
}

START_TEST(nothing_to_release)
{
    synced_mem *const mem = make(SIZE);
    const struct facts before = facts_of(mem);
    OK(synced_mem_release_cpu_data(mem));
    OK(synced_mem_release_gpu_data(mem));
    OK(synced_mem_release_data(mem));
    check_unchanged(mem, &before);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(everything)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    OK(synced_mem_release_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(host_bytes(), 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    OK(synced_mem_release_data(mem));
    if (gpu_expected()) {
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 2, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
        OK(synced_mem_release_data(mem));
        ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
        ck_assert_uint_eq(stats_now().gpu_bytes, 0);
        ck_assert_int_eq(synced_mem_device(mem), 0);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 0));
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* Without a GPU the contents cannot be moved, so they stay. */
START_TEST(host_side_alone)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const struct facts before = facts_of(mem);
    OK(synced_mem_release_gpu_data(mem));
    check_unchanged(mem, &before);
    if (!gpu_expected()) {
        FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_release_cpu_data(mem));
        check_unchanged(mem, &before);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    } else {
        OK(synced_mem_release_cpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        OK(synced_mem_reap()); /* the buffer of the transfer */
        OK(synced_mem_host_pool_trim(0));
        ck_assert_uint_eq(host_bytes(), 0);
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(device_side_alone)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    OK(synced_mem_release_cpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    OK(synced_mem_release_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_device(mem), 0);
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(one_of_two)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    const synced_mem_stats before = stats_now();
    if (_i == 0) {
        OK(synced_mem_release_cpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    } else {
        OK(synced_mem_release_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    }
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_transfers, before.h2d_transfers);
    ck_assert_uint_eq(after.d2h_transfers, before.d2h_transfers);
    OK(synced_mem_release(mem));
}
END_TEST

/* Memory without current contents is released without a transfer. */
START_TEST(stale_side)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    const synced_mem_stats before = stats_now();
    OK(synced_mem_release_cpu_data(mem));
    ck_assert_uint_eq(stats_now().d2h_transfers, before.d2h_transfers);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
}
END_TEST

/* Repeated releases of the sides lose no contents, and retired memory does not pile up. */
START_TEST(over_and_over)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    for (unsigned i = 0; i < 20; i++) {
        OK(synced_mem_release_cpu_data(mem));
        OK(synced_mem_release_gpu_data(mem));
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
        ck_assert_uint_le(stats_now().retired, 2);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* A side is released while kernels of the caller's still use it. */
START_TEST(device_side_in_use)
{
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    void *const data = synced_mem_mutable_gpu_data(mem);
    gpu_delay(NULL);
    gpu_copy(seen, data, SIZE, NULL);
    gpu_fill(data, SIZE, 2, NULL);
    OK(synced_mem_release_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_free(seen);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("release");
    TCase *const tests = add_case(made, "release");
    add_tests(tests, nothing_to_release, everything, host_side_alone);
    add_gpu_tests(tests, device_side_alone, stale_side, over_and_over, device_side_in_use);
    add_gpu_loop_test(tests, one_of_two, 0, 2);
    return made;
}
