/* Checks which bytes staged transfers demote, as on processors that can. The copies are checked by other suites. */
#include "fixture.h"

#include "system/demote.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 2097152, SIZES = 3 };

static const size_t sizes[SIZES] = {LEAST - 1, LEAST, 2 * (size_t)LEAST + 12345};

static atomic_bool can;
static atomic_size_t demoted;
static const unsigned char *source; /* of the push */
static size_t source_size;
static atomic_size_t of_source; /* calls for bytes of the source, which no device reads */

bool __wrap_sm_can_demote(void);
bool __wrap_sm_can_demote(void)
{
    return atomic_load(&can);
}

void __real_sm_demote(void *data, size_t bytes);
void __wrap_sm_demote(void *data, size_t bytes);
void __wrap_sm_demote(void *data, size_t bytes)
{
    const unsigned char *const at = data;
    if (at < source + source_size && at + bytes > source)
        atomic_fetch_add(&of_source, 1);
    __real_sm_demote(data, bytes);
    atomic_fetch_add(&demoted, bytes);
}

/* Pushes, and pulls changed bytes. Returns how many bytes were demoted meanwhile. */
static size_t push_and_pull(size_t size)
{
    unsigned char *const data = malloc(size);
    synced_mem *mem;
    host_fill(data, size, 1);
    OK(synced_mem_create(&mem, size, NULL));
    OK(synced_mem_set_cpu_data(mem, data));
    source = data;
    source_size = size;
    atomic_store(&demoted, 0);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert_uint_eq(atomic_load(&of_source), 0);
    const size_t of_push = atomic_load(&demoted);
    memset(data, 0, size);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert(host_is(data, size, 1));
    ck_assert_uint_eq(atomic_load(&demoted), of_push);
    OK(synced_mem_release(mem));
    free(data);
    return of_push;
}

/* A device reads bytes faster from the cache that processors share. So a large push demotes each byte once. */
START_TEST(a_large_push_demotes_each_byte_once)
{
    const size_t size = sizes[_i];
    atomic_store(&can, true);
    ck_assert_uint_eq(push_and_pull(size), size < LEAST ? 0 : size);
    atomic_store(&can, false);
    ck_assert_uint_eq(push_and_pull(size), 0);
}
END_TEST

/* Returns how many bytes of the pool the push takes with 15 copy threads. */
static uint64_t pinned_bytes_of_push(size_t size)
{
    synced_mem_host_pool_stats pool = {.struct_size = sizeof pool};
    void *const data = calloc(1, size);
    synced_mem *mem;
    OK(synced_mem_create(&mem, size, NULL));
    OK(synced_mem_set_cpu_data(mem, data));
    OK(synced_mem_host_pool_reset_peaks());
    OK(synced_mem_host_pool_get_stats(&pool));
    const uint64_t before = pool.peak_requested_bytes;
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_host_pool_get_stats(&pool));
    OK(synced_mem_release(mem));
    free(data);
    return pool.peak_requested_bytes - before;
}

/* Bytes of more buffers would leave the cache before the device has read them. */
START_TEST(a_large_push_that_demotes_has_few_buffers)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    staging.threads = 15;
    OK(synced_mem_set_staging(&staging));
    atomic_store(&can, true);
    ck_assert_uint_eq(pinned_bytes_of_push(16 * (size_t)LEAST), 8 << 20);
    atomic_store(&can, false);
    ck_assert_uint_gt(pinned_bytes_of_push(16 * (size_t)LEAST), 8 << 20);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("demoted");
    TCase *const tests = add_case(made, "demoted");
    tcase_add_loop_test(tests, a_large_push_demotes_each_byte_once, 0, SIZES);
    tcase_add_test(tests, a_large_push_that_demotes_has_few_buffers);
    return made;
}
