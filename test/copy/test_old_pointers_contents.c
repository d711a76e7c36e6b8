/* Checks contents that arrive while a late kernel uses a device pointer requested without a stream: they come behind
 * it. The tests run with the emulated runtime's check for races, and without it. */
#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { SIZE = 40000 };

static synced_mem_stream blocking;
static synced_mem_stream other;

static void begin(bool with_race_check)
{
    emu_set_race_check(with_race_check);
    blocking = open_stream(BLOCKING);
    other = open_stream(NON_BLOCKING);
}

static void finish(void)
{
    CLOSE_EACH(blocking, other);
}

/* Pageable memory of these sizes is staged, in many chunks and in two. */
enum { STAGED = 2 << 20, FEW_CHUNKS = 256 << 10 };

static void write_and_move(synced_mem *mem, size_t size, bool push)
{
    host_fill(synced_mem_mutable_cpu_data(mem), size, 3);
    if (push)
        OK(synced_mem_async_gpu_push(mem, other));
}

/* The host has written since, and its contents come behind the kernel. */
START_TEST(contents_come_behind)
{
    const size_t size = _i / 4 % 2 ? STAGED : SIZE;
    const bool push = _i / 2 % 2;
    begin(_i % 2);
    void *const host = malloc(size);
    ck_assert_ptr_nonnull(host);
    synced_mem *const mem = make_on(size, 0);
    OK(synced_mem_set_cpu_data(mem, host));
    void *const old = synced_mem_mutable_gpu_data(mem);
    gpu_fill(old, size, 1, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 1));
    gpu_fill(old, size, 2, _i / 8 ? blocking : NULL);
    write_and_move(mem, size, push);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), old);
    emu_run_all();
    ck_assert(device_is(old, size, 3));
    OK(synced_mem_release(mem));
    free(host);
    finish();
}
END_TEST

/* Makes an object of pageable memory whose device pointer was given to read, and queues a kernel that reads. */
static synced_mem *make_read(size_t size, void **host, void *into)
{
    synced_mem *const mem = make_on(size, 0);
    *host = malloc(size);
    ck_assert_ptr_nonnull(*host);
    host_fill(*host, size, 5);
    OK(synced_mem_set_cpu_data(mem, *host));
    const void *const data = synced_mem_gpu_data(mem);
    ck_assert_ptr_nonnull(data);
    gpu_copy(into, data, size, blocking);
    return mem;
}

/* One call on both: the use of one is open, and its end is awaited. That of the other is over, but not its kernel. */
START_TEST(contents_of_several_come_behind)
{
    begin(_i % 2);
    const bool alone = _i / 4;
    void *const into = gpu_alloc(0, STAGED);
    void *hosts[2];
    synced_mem *mems[2];
    synced_mem *const open = make_read(STAGED, &hosts[0], into);
    synced_mem *const closed = make_on(STAGED, 0);
    hosts[1] = malloc(STAGED);
    ck_assert_ptr_nonnull(hosts[1]);
    OK(synced_mem_set_cpu_data(closed, hosts[1]));
    void *const old = synced_mem_mutable_gpu_data(closed);
    gpu_fill(old, STAGED, 1, NULL);
    ck_assert(host_is(synced_mem_cpu_data(closed), STAGED, 1));
    gpu_fill(old, STAGED, 2, blocking);
    mems[_i / 2 % 2] = open;
    mems[1 - _i / 2 % 2] = closed;
    for (int i = 0; i < 2; i++)
        host_fill(synced_mem_mutable_cpu_data(mems[i]), STAGED, 3);
    for (int i = 0; i < 2 && alone; i++)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mems[i]));
    if (!alone)
        OK(synced_mem_async_gpu_push_n(mems, 2, other));
    const void *const data = synced_mem_gpu_data(open);
    ck_assert_ptr_eq(synced_mem_gpu_data(closed), old);
    emu_run_all();
    ck_assert(device_is(into, STAGED, 5));
    ck_assert(device_is(data, STAGED, 3));
    ck_assert(device_is(old, STAGED, 3));
    for (int i = 0; i < 2; i++) {
        OK(synced_mem_release(mems[i]));
        free(hosts[i]);
    }
    gpu_free(into);
    finish();
}
END_TEST

static synced_mem *accessed;

static void *access_device(void *out)
{
    *(const void **)out = synced_mem_gpu_data(accessed);
    return NULL;
}

/* While the access waits for the kernel, the object gets a part and gives up its memory. The contents come behind the
 * allocation of the new memory, although the access needs no more events behind kernels. */
START_TEST(contents_come_behind_an_allocation)
{
    const void *got = NULL;
    void *host;
    synced_mem *view;
    pthread_t thread;
    begin(true);
    keep_no_spares();
    set_staging(0, 1 << 20);
    void *const into = gpu_alloc(0, STAGED);
    accessed = make_read(STAGED, &host, into);
    OK(synced_mem_wait(accessed));
    host_fill(synced_mem_mutable_cpu_data(accessed), STAGED, 3);
    gpu_hold(blocking);
    const unsigned waits = emu_calls("cudaEventSynchronize");
    ck_assert_int_eq(pthread_create(&thread, NULL, access_device, &got), 0);
    while (emu_calls("cudaEventSynchronize") == waits)
        (void)sched_yield();
    OK(synced_mem_view(&view, accessed, 0, STAGED / 2, NULL));
    if (_i)
        OK(synced_mem_release_gpu_data(accessed));
    gpu_unhold();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_ptr_nonnull(got);
    emu_run_all();
    ck_assert(device_is(got, STAGED, 3));
    ck_assert(device_is(into, STAGED, 5));
    OK(synced_mem_release(view));
    OK(synced_mem_release(accessed));
    free(host);
    gpu_free(into);
    finish();
}
END_TEST

/* A staged push behind an open use waits for one event, and picks a stream after that. A second event is behind the
 * transfer. */
START_TEST(calls_of_a_staged_push)
{
    static const char *const names[] = {"cudaEventRecord", "cudaStreamQuery", "cudaStreamWaitEvent"};
    static const unsigned most[] = {2, 1, 0};
    unsigned before[3];
    void *host;
    begin(true);
    set_staging(0, 1 << 20);
    void *const into = gpu_alloc(0, FEW_CHUNKS);
    synced_mem *const mem = make_read(FEW_CHUNKS, &host, into);
    gpu_stream_sync(blocking);
    host_fill(synced_mem_mutable_cpu_data(mem), FEW_CHUNKS, 3);
    for (int i = 0; i < 3; i++)
        before[i] = emu_calls(names[i]);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    for (int i = 0; i < 3; i++)
        ck_assert_msg(emu_calls(names[i]) - before[i] <= most[i], "%s", names[i]);
    OK(synced_mem_release(mem));
    free(host);
    gpu_free(into);
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("old_pointers_contents");
    TCase *const tests = add_case(of, "contents");
    tcase_add_loop_test(tests, contents_come_behind, 0, 16);
    tcase_add_loop_test(tests, contents_of_several_come_behind, 0, 8);
    tcase_add_loop_test(tests, contents_come_behind_an_allocation, 0, 2);
    tcase_add_test(tests, calls_of_a_staged_push);
    return of;
}
