/*
 * Checks that conflicts are by bytes. A stream is held with work on one view. Calls that concern other bytes return and
 * their work runs. A call that waits in vain lets the test time out. That calls on the same bytes come after the work,
 * the random calls on views check.
 */
#include "views_busy_kit.h"

/* ---- Other bytes ---- */

static void host_write(void)
{
    host_fill(given(synced_mem_mutable_cpu_data(it.free)), BUSY, 6);
    expect(it.free, 6);
    HEAD(it.free, AT_CPU);
    ck_assert(host_reads_right(it.free));
}

static void push(void)
{
    host_writes(it.free, 6);
    OK(synced_mem_async_gpu_push(it.free, it.other));
    kernel_reads(it.free, it.other);
    gpu_stream_sync(it.other);
    OK(synced_mem_wait(it.free));
}

static void write_and_pull(void)
{
    device_writes(it.free, 6, it.other);
    OK(synced_mem_async_cpu_pull(it.free, it.other));
    ck_assert(host_reads_right(it.free));
    gpu_stream_sync(it.other);
}

static void write_on_another_and_read(void)
{
    device_writes(it.free, 6, it.other);
    ck_assert(host_reads_right(it.free));
}

static void write_without_a_stream(void)
{
    gpu_fill(given(synced_mem_mutable_gpu_data(it.free)), BUSY, 6, NULL);
    expect(it.free, 6);
    gpu_stream_sync(NULL);
    ck_assert(host_reads_right(it.free));
}

static void query(void)
{
    int pending = 1;
    OK(synced_mem_wait(it.free));
    OK(synced_mem_query(it.free, &pending));
    ck_assert_int_eq(pending, 0);
    OK(synced_mem_end_use_on(it.free, it.other));
}

static void make_and_release(void)
{
    synced_mem *const across = view_of(it.root, 5000, 8000), *const inside = view_of(it.busy, 10, 100);
    synced_mem *const beside = view_of(it.free, 10, 100), *const whole = view_of(it.root, 0, ROOT);
    HEAD(across, AT_GPU);
    HEAD(inside, AT_GPU);
    HEAD(beside, SYNCED);
    HEAD(whole, AT_GPU);
    ck_assert(host_reads_right(beside));
    RELEASE_EACH(inside, whole, across, beside);
    ck_assert(host_reads_right(it.free));
}

static void clear(void)
{
    OK(synced_mem_clear(it.free));
    expect(it.free, 0);
    HEAD(it.root, MIXED);
    ck_assert(host_reads_right(it.free));
}

static void copy(void)
{
    synced_mem *const to = make_on(BUSY, 0);
    OK(synced_mem_cpu_copy(to, it.free));
    ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(to)), expected + FREE_BEGIN, BUSY), 0);
    OK(synced_mem_release(to));
}

static void release(void)
{
    OK(synced_mem_release(it.free));
    it.free = view_of(it.root, FREE_BEGIN, BUSY);
    ck_assert(host_reads_right(it.free));
}

static void print(void)
{
    FILE *const file = fopen("/dev/null", "w");
    ck_assert_ptr_nonnull(file);
    OK(synced_mem_print(it.root, file));
    OK(synced_mem_print(it.busy, file));
    ck_assert_int_eq(fclose(file), 0);
    HEAD(it.root, AT_GPU);
}

static void (*const others[])(void) = {host_read,
                                       host_write,
                                       push,
                                       write_and_pull,
                                       write_on_another_and_read,
                                       query,
                                       make_and_release,
                                       clear,
                                       copy,
                                       write_without_a_stream,
                                       release,
                                       print};
enum { OTHERS = sizeof others / sizeof others[0] };

START_TEST(other_bytes_do_not_wait)
{
    begin(_i / OTHERS);
    kernel_is_held();
    others[_i % OTHERS]();
    let_go();
    finish();
}
END_TEST

/* The work is a pull, or kernels that only read, or kernels on a pointer that was given without a stream. */
START_TEST(other_bytes_do_not_wait_for_other_work)
{
    begin(false);
    synced_mem_stream blocking = open_stream(BLOCKING);
    const int action = _i / 3;
    if (_i % 3 == 0) {
        device_writes(it.busy, 5, it.held);
        gpu_hold(it.held);
        OK(synced_mem_async_cpu_pull(it.busy, it.held));
    } else if (_i % 3 == 1) {
        gpu_hold(it.held);
        read_into_seen(it.busy, it.held);
    } else {
        void *const data = given(synced_mem_mutable_gpu_data(it.busy));
        gpu_hold(blocking);
        gpu_fill(data, BUSY, 5, blocking);
        expect(it.busy, 5);
    }
    if (action == 0)
        host_write();
    if (action == 1)
        push();
    if (action == 2)
        write_and_pull();
    if (action == 3)
        query();
    gpu_unhold();
    gpu_stream_sync(blocking);
    finish();
    close_stream(blocking);
}
END_TEST

/* Writers of different bytes, on streams of their own, need no event and no wait. */
START_TEST(writers_side_by_side)
{
    begin(false);
    device_writes(it.busy, 5, it.held);
    device_writes(it.free, 6, it.other);
    const synced_mem_stats before = stats_now();
    const unsigned calls = gpu_calls("cudaEventRecord") + gpu_calls("cudaStreamWaitEvent");
    for (unsigned i = 7; i < 15; i++) {
        device_writes(it.busy, i, it.held);
        device_writes(it.free, i + 20, it.other);
    }
    const synced_mem_stats after = stats_now();
    if (!old_pointers_fault()) {
        ck_assert_uint_eq(after.event_records, before.event_records);
        ck_assert_uint_eq(after.stream_waits, before.stream_waits);
        ck_assert_uint_eq(after.host_waits, before.host_waits);
        ck_assert_uint_eq(gpu_calls("cudaEventRecord") + gpu_calls("cudaStreamWaitEvent"), calls);
    }
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("conflicts of views");
    TCase *const others_go_on = add_case(made, "other bytes");
    add_gpu_loop_test(others_go_on, other_bytes_do_not_wait, 0, 2 * OTHERS);
    add_gpu_loop_test(others_go_on, other_bytes_do_not_wait_for_other_work, 0, 12);
    add_gpu_loop_test(others_go_on, writers_side_by_side, 0, 1);
    return made;
}
