/* Checks page-locking on request of memory that another object already uses, and of memory that is refused. */
#include "failing_calloc.h"
#include "page_lock_kit.h"

#include <stdlib.h>
#include <string.h>

/* ---- Page-locked after another object came ---- */

enum late { NO_DEVICE_YET, FOUND_PAGEABLE, QUERY_FAILED, LATES };

/* Hands the memory in twice: to A, which page-locks it, and to B. */
static void hand_in_late(enum late late, void *data, size_t size, synced_mem **a, synced_mem **b)
{
    *b = make(size);
    if (late != NO_DEVICE_YET)
        use_a_device();
    if (late != QUERY_FAILED)
        OK(synced_mem_set_cpu_data(*b, data));
    *a = page_lock(data, size);
    if (late != QUERY_FAILED)
        return;
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    OK(synced_mem_set_cpu_data(*b, data));
    ck_assert_int_eq(emu_failures(), 1);
}

/* The memory stays page-locked for B's transfer, and until B gives it up. */
START_TEST(a_late_share)
{
    const size_t size = _i / LATES ? LARGE : SMALL;
    char *const host = host_memory(size, 1);
    synced_mem *a;
    synced_mem *b;
    hand_in_late((enum late)(_i % LATES), host, size, &a, &b);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(b, stream));
    OK(synced_mem_release(a));
    ck_assert(is_page_locked(host, size));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    gpu_unhold();
    gpu_fill(synced_mem_mutable_gpu_data_on(b, stream), size, 2, stream);
    OK(synced_mem_async_cpu_pull(b, stream));
    ck_assert(host_is(synced_mem_cpu_data(b), size, 2));
    OK(synced_mem_release(b));
    ck_assert(!is_page_locked(host, size));
    close_stream(stream);
    free(host);
}
END_TEST

/* A pull of B's is in flight when A, which has page-locked the memory, is released. */
START_TEST(a_late_share_for_a_pull)
{
    char *const host = host_memory(SMALL, 1);
    synced_mem *a;
    synced_mem *b;
    hand_in_late((enum late)_i, host, SMALL, &a, &b);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(b, stream), SMALL, 2, stream);
    gpu_hold(stream);
    OK(synced_mem_async_cpu_pull(b, stream));
    OK(synced_mem_release(a));
    ck_assert(is_page_locked(host, SMALL));
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(b), SMALL, 2));
    OK(synced_mem_release(b));
    ck_assert(!is_page_locked(host, SMALL));
    close_stream(stream);
    free(host);
}
END_TEST

/* The failed query is the only one while the memory is page-locked. The share keeps it so for a request of B's own. */
START_TEST(a_query_fails_on_request)
{
    char *const host = host_memory(SMALL, 1);
    synced_mem *const a = page_lock(host, SMALL);
    synced_mem *const b = make(SMALL);
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    OK(USE(b, .cpu_data = host, .flags = LOCK));
    OK(synced_mem_release(a));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    OK(synced_mem_release(b));
    ck_assert(!is_page_locked(host, SMALL));
    free(host);
}
END_TEST

/* ---- Out of memory ---- */

/* Unused memory of the pool goes back for the request. */
START_TEST(reclaimed_on_request)
{
    enum { LIMIT = 16 << 20, IN_POOL = 12 << 20, REQUEST = 8 << 20 };
    char *const host = host_memory(REQUEST, 1);
    synced_mem *const mem = make(REQUEST);
    emu_set_pinned_memory(LIMIT);
    OK(synced_mem_host_pool_reserve(0, IN_POOL));
    OK(USE(mem, .cpu_data = host, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert_uint_gt(stats_now().oom_trims, 0);
    OK(synced_mem_release(mem));
    emu_set_pinned_memory(REQUEST / 2);
    synced_mem *const refused = make(REQUEST);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, USE(refused, .cpu_data = host, .flags = LOCK));
    SAYS("cudaHostRegister");
    SAYS("the library holds");
    OK(synced_mem_release(refused));
    free(host);
}
END_TEST

/* Memory for a record takes no steps. */
START_TEST(no_memory_for_the_record)
{
    char *const host = host_memory(SMALL, 1);
    synced_mem *const mem = page_lock(host, SMALL); /* all other records exist from now on */
    OK(synced_mem_release_data(mem));
    const uint64_t before = stats_now().oom_reaps;
    fail_calloc_in = 1;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, USE(mem, .cpu_data = host, .flags = LOCK));
    SAYS("keep track of page-locked memory");
    ck_assert_int_eq(fail_calloc_in, 0);
    ck_assert_uint_eq(stats_now().oom_reaps, before);
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("page_locks");
    TCase *const late = add_case(made, "late shares");
    tcase_add_test(late, a_query_fails_on_request);
    tcase_add_loop_test(late, a_late_share, 0, 2 * LATES);
    tcase_add_loop_test(late, a_late_share_for_a_pull, 0, LATES);
    TCase *const refused = add_case(made, "out of memory");
    add_tests(refused, reclaimed_on_request, no_memory_for_the_record);
    return made;
}
