/*
 * Checks an access to a root that waits and then fails, while another thread makes a call on the root: the heads of all
 * parts are as before.
 */
#include "views_kit.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <unistd.h>

enum { SPLIT = 8000, CHANGED = 4000, A_WHILE_US = 2000 };

static synced_mem *root, *left, *right;
static synced_mem_stream reader, stream;
static atomic_bool got;

static void stage(unsigned threads)
{
    set_staging(threads, threads > 0 ? 1 : 1 << 20);
}

/* Both copies are there, and nothing is in flight. */
static void begin(unsigned threads)
{
    stage(threads);
    root = make_root(true);
    left = threads == 0 ? view_of(root, 0, SPLIT) : NULL;
    right = view_of(root, SPLIT, ROOT - SPLIT);
    reader = open_stream(NON_BLOCKING);
    stream = open_stream(NON_BLOCKING);
    host_writes(root, 1);
    (void)given(synced_mem_gpu_data_on(root, stream));
    gpu_stream_sync(stream);
    OK(synced_mem_end_use_on(root, stream));
    OK(synced_mem_wait(root));
}

static void finish(void)
{
    ck_assert(device_reads_right(root));
    RELEASE_EACH(left, right, root);
    CLOSE_EACH(reader, stream);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

static void *access_root(void *unused)
{
    atomic_store(&got, synced_mem_gpu_data_on(root, stream) != NULL);
    return unused;
}

static void nothing(void)
{
}

static void make_and_release(void)
{
    synced_mem *const view = view_of(root, 100, 100);
    OK(synced_mem_release(view));
}

static void query(void)
{
    int pending;
    OK(synced_mem_query(root, &pending));
}

static void end_use(void)
{
    OK(synced_mem_end_use_on(root, stream));
}

static void print(void)
{
    static char text[65536];
    FILE *const file = fmemopen(text, sizeof text, "w");
    ck_assert_ptr_nonnull(file);
    OK(synced_mem_print(root, file));
    ck_assert_int_eq(fclose(file), 0);
}

static void (*const calls[])(void) = {nothing, make_and_release, query, end_use, print};
enum { CALLS = sizeof calls / sizeof calls[0], TIMES = 30 };

/* The access transfers the left bytes. Then it waits for the kernel that reads the right ones, and fails. first:
 * the first transfer after the wait that fails. */
static void fail_an_access(void (*meanwhile)(void), unsigned first)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, access_root, NULL), 0);
    usleep(A_WHILE_US);
    while (!others_sleep())
        usleep(A_WHILE_US);
    for (int i = 0; i < TIMES; i++) { /* the transfer of the left bytes ends during these calls */
        meanwhile();
        usleep(A_WHILE_US);
    }
    for (unsigned nth = first; nth < 9; nth++)
        emu_fail("cudaMemcpyAsync", nth, cudaErrorUnknown, false);
    gpu_unhold();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    emu_fail_clear();
    ck_assert(!atomic_load(&got));
}

static void right_is_read(void)
{
    gpu_hold(reader);
    kernel_reads(right, reader);
}

/* The access has made the left view valid on the device. */
START_TEST(heads_of_views_are_restored)
{
    begin(0);
    right_is_read();
    host_writes(root, 2);
    fail_an_access(calls[_i], 2);
    HEAD(left, AT_CPU);
    HEAD(right, AT_CPU);
    HEAD(root, AT_CPU);
    finish();
}
END_TEST

/* The access has made the first bytes as valid as the next ones, with no view between them. */
START_TEST(heads_without_views_are_restored)
{
    begin(1);
    synced_mem *changed = view_of(root, 0, CHANGED);
    host_writes(changed, 2);
    OK(synced_mem_release(changed));
    right_is_read();
    host_writes(right, 3);
    fail_an_access(calls[_i], 1);
    changed = view_of(root, 0, CHANGED);
    HEAD(changed, AT_CPU);
    OK(synced_mem_release(changed));
    changed = view_of(root, CHANGED, SPLIT - CHANGED);
    HEAD(changed, SYNCED);
    OK(synced_mem_release(changed));
    finish();
}
END_TEST

/* ---- Pulls ---- */

static void *pull_left(void *unused)
{
    atomic_store(&got, synced_mem_async_cpu_pull(left, reader) == SYNCED_MEM_OK);
    return unused;
}

/* A pull without copy threads waits for the open writer's kernel, and fails. Meanwhile a view cuts the bytes that it
 * moves. The writer's pointer to all of them stays good. */
START_TEST(a_writer_goes_on_after_a_cut)
{
    pthread_t thread;
    begin(0);
    gpu_hold(stream);
    void *const data = given(synced_mem_mutable_gpu_data_on(left, stream));
    gpu_fill(data, SPLIT, 2, stream);
    ck_assert_int_eq(pthread_create(&thread, NULL, pull_left, NULL), 0);
    usleep(A_WHILE_US);
    while (!others_sleep())
        usleep(A_WHILE_US);
    synced_mem *const half = _i ? view_of(root, CHANGED, SPLIT - CHANGED) : NULL;
    for (unsigned nth = 1; nth < 9; nth++)
        emu_fail("cudaMemcpyAsync", nth, cudaErrorUnknown, false);
    gpu_unhold();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    emu_fail_clear();
    ck_assert(!atomic_load(&got));
    HEAD(left, AT_GPU);
    gpu_fill(data, SPLIT, 3, stream);
    expect(left, 3);
    if (half)
        ck_assert(host_reads_right(half));
    ck_assert(host_reads_right(left));
    OK(synced_mem_release(half));
    finish();
}
END_TEST

/* ---- Accesses ---- */

static void *read_root(void *unused)
{
    atomic_store(&got, synced_mem_cpu_data(root) != NULL);
    return unused;
}

/* The access waits for the first bytes. Meanwhile the release of a view joins the next ones, on which nothing was done
 * yet. The access moves these, and fails at the last ones. The writer's pointer stays good. */
START_TEST(a_writer_goes_on_after_a_join)
{
    pthread_t thread;
    begin(0);
    synced_mem *const first = view_of(root, 0, CHANGED / 2), *const next =
                                                                 view_of(root, CHANGED / 2, SPLIT - CHANGED / 2);
    synced_mem *const border = view_of(root, CHANGED, SPLIT - CHANGED);
    device_writes(right, 1, stream);
    void *const data = given(synced_mem_overwrite_gpu_data_on(next, stream));
    gpu_fill(data, synced_mem_size(next), 2, stream);
    gpu_hold(reader);
    device_writes(first, 3, reader);
    ck_assert_int_eq(pthread_create(&thread, NULL, read_root, NULL), 0);
    usleep(A_WHILE_US);
    while (!others_sleep())
        usleep(A_WHILE_US);
    if (_i)
        OK(synced_mem_release(border));
    emu_fail("cudaMemcpyAsync", _i ? 3 : 4, cudaErrorUnknown, false);
    gpu_unhold();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(emu_failures(), 1);
    ck_assert(!atomic_load(&got));
    HEAD(next, AT_GPU);
    gpu_fill(data, synced_mem_size(next), 4, stream);
    expect(next, 4);
    ck_assert(host_reads_right(next));
    if (!_i)
        OK(synced_mem_release(border));
    RELEASE_EACH(first, next);
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("calls beside a failing access");
    TCase *const tests = add_case(made, "heads");
    tcase_add_loop_test(tests, heads_of_views_are_restored, 0, CALLS);
    tcase_add_loop_test(tests, heads_without_views_are_restored, 0, CALLS);
    tcase_add_loop_test(tests, a_writer_goes_on_after_a_cut, 0, 2);
    tcase_add_loop_test(tests, a_writer_goes_on_after_a_join, 0, 2);
    return made;
}
