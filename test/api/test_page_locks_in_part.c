/* Checks transfers of memory that other objects or the program page-lock in part, or in two registrations. */
#include "failing_calloc.h"
#include "page_lock_kit.h"

#include <stdlib.h>
#include <string.h>

/* Nothing can be page-locked from now on, and no copy thread is there. */
static void refuse_buffers(void)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    staging.threads = 0;
    OK(synced_mem_set_staging(&staging));
    OK(synced_mem_host_pool_trim(0));
    emu_set_pinned_memory(0);
}

/* Two objects page-lock parts of a third one's memory. */
static const struct {
    size_t begin[2], end[2]; /* in quarters */
} layouts[] = {{{0, 2}, {2, 4}}, {{0, 3}, {1, 4}}, {{0, 0}, {2, 0}}, {{2, 0}, {4, 0}}, {{1, 0}, {3, 0}}};
enum { LAYOUTS = 5 };

struct parts {
    size_t size;
    char *host;
    synced_mem *parts[2];
    synced_mem *whole;
    synced_mem_stream stream;
};

static struct parts lock_parts(int layout, size_t size, bool whole_first)
{
    struct parts it = {.size = size, .host = host_memory(size, 1), .whole = make(size)};
    use_a_device();
    if (whole_first)
        OK(synced_mem_set_cpu_data(it.whole, it.host));
    for (int i = 0; i < 2; i++)
        if (layouts[layout].end[i] > 0)
            it.parts[i] = page_lock(it.host + size / 4 * layouts[layout].begin[i],
                                    size / 4 * (layouts[layout].end[i] - layouts[layout].begin[i]));
    if (!whole_first)
        OK(synced_mem_set_cpu_data(it.whole, it.host));
    it.stream = open_stream(NON_BLOCKING);
    return it;
}

static void transfer_whole(const struct parts *it, unsigned pattern)
{
    pattern_write(synced_mem_overwrite_cpu_data(it->whole), it->size, pattern);
    OK(synced_mem_async_gpu_push(it->whole, it->stream));
    ck_assert(device_is(synced_mem_gpu_data_on(it->whole, it->stream), it->size, pattern));
    gpu_fill(synced_mem_mutable_gpu_data_on(it->whole, it->stream), it->size, pattern + 1, it->stream);
    OK(synced_mem_async_cpu_pull(it->whole, it->stream));
    ck_assert(host_is(synced_mem_cpu_data(it->whole), it->size, pattern + 1));
    host_fill(synced_mem_mutable_cpu_data(it->whole), it->size, pattern + 2);
    ck_assert(device_is(synced_mem_gpu_data(it->whole), it->size, pattern + 2));
    gpu_fill(synced_mem_mutable_gpu_data(it->whole), it->size, pattern + 3, NULL);
    ck_assert(host_is(synced_mem_cpu_data(it->whole), it->size, pattern + 3));
}

static void release_parts(const struct parts *it)
{
    RELEASE_EACH(it->parts[0], it->parts[1], it->whole);
    ck_assert(!is_page_locked(it->host, it->size));
    close_stream(it->stream);
    free(it->host);
}

START_TEST(in_parts)
{
    const size_t size = _i % 2 ? LARGE : SMALL;
    const struct parts it = lock_parts(_i / 4, size, _i / 2 % 2);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    transfer_whole(&it, 2);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    release_parts(&it);
}
END_TEST

/* The same without copy threads and without page-locked memory for buffers. */
START_TEST(in_parts_without_buffers)
{
    const struct parts it = lock_parts(_i / 2, _i % 2 ? LARGE : SMALL, false);
    refuse_buffers();
    transfer_whole(&it, 2);
    release_parts(&it);
}
END_TEST

/* The program itself has page-locked the first half of the memory. */
START_TEST(in_part_by_the_program)
{
    const size_t size = _i % 2 ? LARGE : SMALL;
    char *const host = host_memory(size, 1);
    gpu_register(host, size / 2);
    const struct parts it = {.size = size, .host = host, .whole = make(size), .stream = open_stream(NON_BLOCKING)};
    use_a_device();
    OK(synced_mem_set_cpu_data(it.whole, host));
    if (_i / 2 == 1)
        set_staging(1, SIZE_MAX);
    if (_i / 2 == 2)
        refuse_buffers();
    transfer_whole(&it, 2);
    transfer_whole(&it, 6);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    gpu_unregister(host);
    transfer_whole(&it, 10);
    release_parts(&it);
}
END_TEST

/* Without memory for a part of the transfer it fails, and the contents stay. */
START_TEST(in_parts_without_memory)
{
    const struct parts it = lock_parts(0, SMALL, false);
    refuse_buffers();
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(it.whole)); /* the device copy has memory */
    int failures = 0;
    for (struct failing failing = each_calloc(); next_failure(&failing);) {
        host_fill(synced_mem_overwrite_cpu_data(it.whole), SMALL, 5);
        begin_failing(&failing);
        const bool failed = !synced_mem_gpu_data(it.whole);
        ck_assert((end_failing(&failing) && synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY) || !failed);
        failures += failed;
    }
    ck_assert_int_gt(failures, 0);
    ck_assert(device_is(synced_mem_gpu_data(it.whole), SMALL, 5));
    release_parts(&it);
}
END_TEST

/* Nobody can tell when the device is done with the part's memory. */
START_TEST(in_parts_and_the_wait_fails)
{
    const struct parts it = lock_parts(0, SMALL, false);
    refuse_buffers();
    const uint64_t before = stats_now().quarantined;
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(it.whole));
    ck_assert_uint_eq(stats_now().quarantined, before + 1);
    ck_assert(device_is(synced_mem_gpu_data(it.whole), SMALL, 1));
    leaves_memory = true;
    release_parts(&it);
}
END_TEST

/* Once the parts are released the memory can be page-locked as a whole. Until then that is refused. */
START_TEST(in_parts_then_as_a_whole)
{
    struct parts it = lock_parts(0, SMALL, true);
    transfer_whole(&it, 2);
    synced_mem *const another = make(SMALL);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(another, .cpu_data = it.host, .flags = LOCK));
    SAYS("cudaHostRegister");
    OK(synced_mem_release(it.parts[0]));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    transfer_whole(&it, 3);
    OK(synced_mem_release(it.parts[1]));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    transfer_whole(&it, 4);
    OK(USE(another, .cpu_data = it.host, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 1);
    transfer_whole(&it, 5);
    OK(synced_mem_release(another));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 1);
    it.parts[0] = it.parts[1] = NULL;
    release_parts(&it);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("page_locks_in_part");
    TCase *const parts = add_case(made, "page-locked in part");
    add_tests(parts, in_parts_without_memory, in_parts_then_as_a_whole);
    tcase_add_loop_test(parts, in_parts, 0, 4 * LAYOUTS);
    tcase_add_loop_test(parts, in_parts_without_buffers, 0, 2 * LAYOUTS);
    tcase_add_loop_test(parts, in_part_by_the_program, 0, 6);
    TCase *const given_up = add_case_without_end(made, "memory that is given up");
    tcase_add_test(given_up, in_parts_and_the_wait_fails);
    return made;
}
