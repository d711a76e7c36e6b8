/* Checks the memory that objects get: zeros at no cost, alignment, size 0, and page-locking. */
#include "fixture.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* ---- Zeros ---- */

static size_t resident_bytes(void)
{
    size_t total = 0;
    size_t resident = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%zu %zu", &total, &resident), 2);
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Pages that the system provides as zeros are not written. */
START_TEST(zeros_are_free)
{
    const size_t size = (size_t)1 << 30;
    synced_mem *const mem = make(size);
    const size_t before = resident_bytes();
    const unsigned char *const data = synced_mem_cpu_data(mem);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_lt(resident_bytes() - before, 4 << 20);
    for (size_t i = 0; i < size; i += size / 64)
        ck_assert_uint_eq(data[i], 0);
    ck_assert_uint_eq(data[size - 1], 0);
    OK(synced_mem_release(mem));
    ck_assert_uint_lt(resident_bytes(), before + (4 << 20));
}
END_TEST

/* Checks small sizes, where used memory comes back. Also checks both sides of the border between the two ways to get
 * zeros. */
START_TEST(zeros_are_zeros)
{
    static const size_t sizes[] = {1, 7, 64, 4096, 65535, 65536, 65537, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int again = 0; again < 3; again++) {
            synced_mem *const mem = make(sizes[i]);
            ck_assert(host_is(synced_mem_cpu_data(mem), sizes[i], 0));
            host_fill(synced_mem_mutable_cpu_data(mem), sizes[i], 5);
            if (gpu_expected()) {
                synced_mem *const there = make(sizes[i]);
                ck_assert(device_is(synced_mem_gpu_data(there), sizes[i], 0));
                gpu_fill(synced_mem_mutable_gpu_data(there), sizes[i], 6, NULL);
                OK(synced_mem_release(there));
            }
            OK(synced_mem_release(mem));
        }
    }
}
END_TEST

/* ---- Alignment ---- */

static void check_aligned(const void *data, size_t alignment)
{
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq((uintptr_t)data % alignment, 0);
}

START_TEST(alignment)
{
    static const size_t sizes[] = {1, 1000, 65536, 200000};
    const size_t asked = _i == 0 ? 0 : (size_t)1 << (_i - 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        synced_mem *mem = NULL;
        synced_mem_options options = default_options();
        options.alignment = asked;
        OK(synced_mem_create(&mem, sizes[i], &options));
        const size_t expected = asked ? asked : 64;
        check_aligned(synced_mem_mutable_cpu_data(mem), expected);
        host_fill(synced_mem_mutable_cpu_data(mem), sizes[i], 1);
        if (gpu_expected()) {
            check_aligned(synced_mem_gpu_data(mem), expected);
            ck_assert(device_is(synced_mem_gpu_data(mem), sizes[i], 1));
            OK(synced_mem_release_cpu_data(mem));
            check_aligned(synced_mem_cpu_data(mem), expected);
            ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PINNED);
        }
        ck_assert(host_is(synced_mem_cpu_data(mem), sizes[i], 1));
        OK(synced_mem_release(mem));
    }
}
END_TEST

/* ---- Size 0 ---- */

START_TEST(zero_size)
{
    char host = 0;
    synced_mem *const mem = make(0);
    ck_assert_uint_eq(synced_mem_size(mem), 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        OK(synced_mem_async_gpu_push(mem, NULL));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
        OK(synced_mem_release_gpu_data(mem));
        OK(synced_mem_release_data(mem));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    } else {
        FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
    }
    OK(synced_mem_set_cpu_data(mem, &host));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), &host);
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.h2d_transfers + stats.d2h_transfers + stats.h2d_bytes + stats.d2h_bytes, 0);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Page-locking ---- */

/* Host memory is page-locked once a device is in use, or if the object names its device. */
START_TEST(page_locked)
{
    synced_mem *const early = make_at_cpu(100, 1);
    ck_assert_int_eq(synced_mem_cpu_source(early), SYNCED_MEM_SOURCE_PAGEABLE);
    synced_mem *const named = make_on(100, 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(named));
    ck_assert_int_eq(synced_mem_cpu_source(named), SYNCED_MEM_SOURCE_PINNED);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(early));
    ck_assert_int_eq(synced_mem_cpu_source(early), SYNCED_MEM_SOURCE_PAGEABLE);
    synced_mem *const late = make_at_cpu(100, 1);
    ck_assert_int_eq(synced_mem_cpu_source(late), SYNCED_MEM_SOURCE_PINNED);
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.pinned_bytes, 2 << 20);
    ck_assert_uint_eq(stats.pageable_bytes, 100);
    ck_assert_uint_eq(stats.host_allocations, 3);
    ck_assert_uint_eq(stats.gpu_allocations, 1);
    RELEASE_EACH(early, named, late);
}
END_TEST

/* Page-locked memory that is no longer used is kept for the next request of its size. */
START_TEST(page_locked_memory_is_kept)
{
    synced_mem *const first = make_on(5000, 0);
    void *const data = synced_mem_overwrite_cpu_data(first);
    const uint64_t held = stats_now().pinned_bytes;
    ck_assert_uint_ge(held, 5000);
    OK(synced_mem_release(first));
    ck_assert_uint_eq(stats_now().pinned_bytes, held);
    synced_mem *const second = make_on(5000, 0);
    ck_assert_ptr_eq(synced_mem_cpu_data(second), data);
    ck_assert(host_is(data, 5000, 0));
    ck_assert_uint_eq(stats_now().pinned_bytes, held);
    OK(synced_mem_release(second));
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(stats_now().pinned_bytes, 0);
}
END_TEST

/* Counts only grow, and the bytes held are those that were requested. */
START_TEST(what_is_held)
{
    synced_mem *all[10];
    for (int i = 0; i < 10; i++)
        all[i] = make_at_cpu(1000, 1);
    ck_assert_uint_eq(stats_now().pageable_bytes + stats_now().pinned_bytes, 10000);
    ck_assert_uint_eq(stats_now().host_allocations, 10);
    for (int i = 0; i < 10 && gpu_expected(); i++)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(all[i]));
    ck_assert_uint_eq(stats_now().gpu_bytes, gpu_expected() ? 10000 : 0);
    release_all(all, 10);
    ck_assert_uint_eq(stats_now().host_allocations, 10);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("memory");
    TCase *const zeros = add_case(made, "zeros");
    add_tests(zeros, zeros_are_free, zeros_are_zeros);
    TCase *const kinds = add_case(made, "kinds");
    add_tests(kinds, zero_size, what_is_held);
    add_gpu_tests(kinds, page_locked, page_locked_memory_is_kept);
    tcase_add_loop_test(kinds, alignment, 0, 23);
    return made;
}
