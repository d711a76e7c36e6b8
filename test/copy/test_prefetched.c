/* Checks which bytes pulls prefetch: those that a thread will write once the device is done. */
#include "fixture.h"

#include "system/prefetch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *target; /* of the pull */
static size_t target_size;
static atomic_size_t prefetched;
static atomic_size_t elsewhere; /* calls for other bytes than the target's */

void __real_sm_prefetch_lines(void *data, size_t bytes);
void __wrap_sm_prefetch_lines(void *data, size_t bytes);
void __wrap_sm_prefetch_lines(void *data, size_t bytes)
{
    const unsigned char *const at = data;
    if (at < target || at + bytes > target + target_size)
        atomic_fetch_add(&elsewhere, 1);
    __real_sm_prefetch_lines(data, bytes);
    atomic_fetch_add(&prefetched, bytes);
}

/* Makes an object of pageable memory whose contents are on the device alone. */
static synced_mem *make_on_device(size_t size)
{
    unsigned char *const data = malloc(size);
    synced_mem *mem;
    host_fill(data, size, 1);
    OK(synced_mem_create(&mem, size, NULL));
    OK(synced_mem_set_cpu_data(mem, data));
    target = data;
    target_size = size;
    atomic_store(&prefetched, 0);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert_uint_eq(atomic_load(&prefetched), 0); /* a push writes nothing here */
    memset(data, 0, size);
    return mem;
}

static void check_and_release(synced_mem *mem)
{
    ck_assert(host_is(target, target_size, 1));
    ck_assert_uint_eq(atomic_load(&elsewhere), 0);
    OK(synced_mem_release(mem));
    free(target);
}

static const size_t small_sizes[] = {1, 64, 4096, 65536 + 1, 131071};
enum { SMALL_SIZES = sizeof small_sizes / sizeof *small_sizes };

/* The access waits for the device, so the time is there. */
START_TEST(a_small_access_prefetches_its_target)
{
    synced_mem *const mem = make_on_device(small_sizes[_i]);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_uint_eq(atomic_load(&prefetched), target_size);
    check_and_release(mem);
}
END_TEST

/* Nobody may wait for the pull for long, so its bytes may have arrived by then. */
START_TEST(a_small_pull_prefetches_nothing)
{
    synced_mem *const mem = make_on_device(small_sizes[_i]);
    OK(synced_mem_async_cpu_pull(mem, NULL));
    OK(synced_mem_wait(mem));
    ck_assert_uint_eq(atomic_load(&prefetched), 0);
    check_and_release(mem);
}
END_TEST

/* The same of a pull of several. */
START_TEST(a_pull_of_several_prefetches_nothing)
{
    synced_mem *const first = make_on_device(4096);
    unsigned char *const place = target;
    synced_mem *const mems[] = {first, make_on_device(8192)};
    OK(synced_mem_async_cpu_pull_n(mems, 2, NULL));
    OK(synced_mem_wait(mems[0]));
    OK(synced_mem_wait(mems[1]));
    ck_assert_uint_eq(atomic_load(&prefetched), 0);
    ck_assert_uint_eq(atomic_load(&elsewhere), 0);
    ck_assert(host_is(place, 4096, 1));
    OK(synced_mem_release(first));
    free(place);
    check_and_release(mems[1]);
}
END_TEST

/* The thread with the first piece always waits for the chunk. Threads with the other pieces may find it open. From 2
 * MiB on the bytes go past the caches. */
START_TEST(a_staged_access_prefetches_pieces_that_wait)
{
    enum { PIECE = 16384, STREAMED = 2097152 };
    static const size_t sizes[] = {131072, 1000003, STREAMED - 1, STREAMED};
    synced_mem *const mem = make_on_device(sizes[_i]);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    if (sizes[_i] < STREAMED)
        ck_assert_uint_ge(atomic_load(&prefetched), PIECE);
    else
        ck_assert_uint_eq(atomic_load(&prefetched), 0);
    ck_assert_uint_le(atomic_load(&prefetched), target_size);
    check_and_release(mem);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("prefetched");
    TCase *const tests = add_case(made, "prefetched");
    tcase_add_loop_test(tests, a_small_access_prefetches_its_target, 0, SMALL_SIZES);
    tcase_add_loop_test(tests, a_small_pull_prefetches_nothing, 0, SMALL_SIZES);
    tcase_add_test(tests, a_pull_of_several_prefetches_nothing);
    tcase_add_loop_test(tests, a_staged_access_prefetches_pieces_that_wait, 0, 4);
    return made;
}
