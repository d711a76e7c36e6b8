/*
 * Checks views that are made and released while work runs on their bytes, the end of a use of a part, and memory that
 * is replaced while a call waits for a part of it. A call that waits in vain lets the test time out. That both halves
 * of a cut inherit the work, the random calls on views check.
 */
#include "views_busy_kit.h"

/* ---- Cuts ---- */

/* A stream that may write a view keeps its pointer when the view is cut, and when the cut is gone. */
START_TEST(a_writer_goes_on)
{
    begin(_i);
    void *const data = given(synced_mem_mutable_gpu_data_on(it.busy, it.held));
    gpu_fill(data, BUSY, 5, it.held);
    synced_mem *const inner = view_of(it.busy, 1000, 1000);
    gpu_fill(data, BUSY, 6, it.held); /* no call on the object has conflicted */
    expect(it.busy, 6);
    ck_assert(host_reads_right(it.free));
    OK(synced_mem_release(inner));
    gpu_fill(data, BUSY, 7, it.held);
    expect(it.busy, 7);
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(it.busy, it.held), data);
    gpu_fill(data, BUSY, 8, it.held);
    expect(it.busy, 8);
    ck_assert(host_reads_right(it.busy));
    finish();
}
END_TEST

/* To make and release views takes the same memory and time each time, behind however many pulls. */
START_TEST(come_and_go_behind_pulls)
{
    const int pulls = _i ? 12 : 1;
    begin(false);
    gpu_hold(it.held);
    device_writes(it.root, 5, it.held);
    for (int i = 0; i < pulls; i++) {
        OK(synced_mem_async_cpu_pull(it.root, it.other));
        device_writes(it.root, (unsigned char)(6 + i), it.held);
    }
    for (int i = 0; i < 10000; i++)
        OK(synced_mem_release(view_of(it.root, BUSY_BEGIN + 500, 2000)));
    let_go();
    finish();
}
END_TEST

/* ---- The end of a use ---- */

/* The end of a view's use is that of its bytes alone. */
START_TEST(end_of_a_use)
{
    begin(_i % 2);
    synced_mem *const left = view_of(it.busy, 0, BUSY / 2), *const right = view_of(it.busy, BUSY / 2, BUSY / 2);
    device_writes(it.busy, 5, it.held);
    switch (_i / 2) {
    case 0:
        OK(synced_mem_end_use_on(left, it.held));
        break;
    case 1:
        OK(synced_mem_end_use_on(it.busy, it.held));
        break;
    case 2:
        OK(synced_mem_end_use_on(it.root, it.held));
        break;
    case 3:
        OK(synced_mem_forget_stream(it.held));
        break;
    }
    gpu_hold(it.held);
    ck_assert(host_reads_right(left)); /* without a wait for later work */
    if (_i / 2 == 0) {
        check_waits(right);
    } else {
        ck_assert(host_reads_right(right));
        ck_assert(host_reads_right(it.root));
        let_go();
    }
    RELEASE_EACH(left, right);
    finish();
}
END_TEST

/* ---- New memory, and the end ---- */

static void *read_the_busy_view(void *out)
{
    *(const void **)out = synced_mem_cpu_data(it.busy);
    return NULL;
}

/* A thread waits to read a view. Another call replaces or releases the root's memory, and does not wait. */
START_TEST(replaced_while_another_waits)
{
    static unsigned char other[ROOT];
    pthread_t thread;
    const void *got = NULL;
    begin(false);
    kernel_is_held();
    ck_assert_int_eq(pthread_create(&thread, NULL, read_the_busy_view, &got), 0);
    (void)usleep(A_WHILE_US);
    pattern_write(other, ROOT, 9);
    if (_i == 0)
        OK(synced_mem_set_cpu_data(it.root, other));
    else if (_i == 1)
        OK(synced_mem_release_data(it.root));
    else
        OK(synced_mem_clear(it.root));
    expect(it.root, _i == 0 ? 9 : 0);
    ck_assert_int_eq(synced_mem_head(it.free), _i == 0 ? SYNCED_MEM_AT_CPU : SYNCED_MEM_UNINITIALIZED);
    synced_mem *const inner = view_of(it.busy, 10, 20);
    let_go();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_ptr_nonnull(got);
    ck_assert_ptr_eq(got, synced_mem_cpu_data(it.busy));
    ck_assert(bytes_are_right(it.busy, got));
    OK(synced_mem_release(inner));
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("cuts of views");
    TCase *const halves = add_case(made, "halves");
    add_gpu_loop_test(halves, a_writer_goes_on, 0, 2);
    add_gpu_loop_test(halves, end_of_a_use, 0, 8);
    add_gpu_loop_test(halves, come_and_go_behind_pulls, 0, 2);
    TCase *const memory = add_case(made, "memory");
    add_gpu_loop_test(memory, replaced_while_another_waits, 0, 3);
    return made;
}
