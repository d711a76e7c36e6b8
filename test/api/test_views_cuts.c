/*
 * Checks views that are made and released while work runs on their bytes: both halves of a cut inherit the work. Checks
 * the end of a use of a part, and memory that is obtained or released while parts of it are in use. A call that waits
 * in vain lets the test time out.
 */
#include "views_busy_kit.h"

/* ---- Cuts ---- */

/* Both halves inherit the open write, in whatever order the halves are made and the view is released. */
START_TEST(halves_inherit_an_open_write)
{
    if (!gpu_expected())
        return;
    begin(_i / 4);
    kernel_is_held();
    synced_mem *const left = view_of(it.busy, 0, BUSY / 2), *const right = view_of(it.busy, BUSY / 2, BUSY / 2);
    if (_i % 2) { /* nobody but the halves knows of the write */
        OK(synced_mem_release(it.busy));
        it.busy = view_of(it.root, 0, 0);
    }
    HEAD(left, AT_GPU);
    HEAD(right, AT_GPU);
    check_waits(_i / 2 % 2 ? left : right, HOST_READS);
    ck_assert(host_reads_right(left));
    ck_assert(host_reads_right(right));
    OK(synced_mem_release(left));
    OK(synced_mem_release(right));
    finish();
}
END_TEST

/* A stream that may write a view keeps its pointer when the view is cut, and when the cut is gone. */
START_TEST(a_writer_goes_on)
{
    if (!gpu_expected())
        return;
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

/* Writes a half by the host, or by a kernel of another stream. In both cases the stream comes after the kernel that
 * reads the half. */
static void write_after_the_reader(synced_mem *half, bool by_host)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    if (by_host) {
        host_writes(half, 6);
        OK(synced_mem_async_gpu_push(half, stream));
    } else {
        device_writes(half, 7, stream);
    }
    ck_assert(!gpu_stream_is_idle(stream));
    OK(synced_mem_forget_stream(stream));
    gpu_stream_destroy(stream);
}

/* Kernels read a view that is cut and released. Later writers of the halves come after them. */
START_TEST(halves_inherit_a_read)
{
    unsigned char then[BUSY], now[BUSY];
    if (!gpu_expected())
        return;
    begin(false);
    gpu_hold(it.held);
    read_into_seen(it.busy, it.held);
    memcpy(then, expected + BUSY_BEGIN, BUSY);
    synced_mem *const left = view_of(it.busy, 0, BUSY / 2), *const right = view_of(it.busy, BUSY / 2, BUSY / 2);
    OK(synced_mem_release(it.busy));
    it.busy = view_of(it.root, 0, 0);
    write_after_the_reader(left, _i % 2);
    write_after_the_reader(right, _i / 2);
    let_go();
    gpu_stream_sync(it.held);
    gpu_read(now, it.seen, BUSY);
    ck_assert_int_eq(memcmp(then, now, BUSY), 0);
    ck_assert(device_reads_right(left));
    OK(synced_mem_release(left));
    OK(synced_mem_release(right));
    finish();
}
END_TEST

/* Memory whose pointer was given without a stream stays marked in both halves: pushes come after kernels that read by
 * the pointer. */
START_TEST(halves_inherit_the_mark)
{
    unsigned char then[BUSY], now[BUSY];
    if (!gpu_expected())
        return;
    begin(false);
    synced_mem_stream blocking = open_stream(BLOCKING);
    const void *const data = given(synced_mem_gpu_data(it.busy));
    if (_i / 2) { /* ends the use, but not the mark */
        host_writes(it.busy, 5);
        OK(synced_mem_async_gpu_push(it.busy, it.other));
        gpu_sync_device(0);
        OK(synced_mem_wait(it.busy));
    }
    ck_assert(host_reads_right(it.busy));
    memcpy(then, expected + BUSY_BEGIN, BUSY);
    synced_mem *const left = view_of(it.busy, 0, BUSY / 2), *const right = view_of(it.busy, BUSY / 2, BUSY / 2);
    synced_mem *const half = _i % 2 ? left : right;
    host_writes(half, 6);
    gpu_hold(blocking);
    gpu_copy(it.seen, data, BUSY, blocking);
    OK(synced_mem_async_gpu_push(half, it.other));
    ck_assert(!gpu_stream_is_idle(it.other));
    gpu_unhold();
    gpu_stream_sync(blocking);
    gpu_read(now, it.seen, BUSY);
    ck_assert_int_eq(memcmp(then, now, BUSY), 0);
    OK(synced_mem_release(left));
    OK(synced_mem_release(right));
    finish();
    close_stream(blocking);
}
END_TEST

/* A view inside one that is being pulled has the same contents arriving. */
START_TEST(halves_inherit_a_pull)
{
    if (!gpu_expected())
        return;
    begin(_i % 2);
    device_writes(it.busy, 5, it.held);
    gpu_hold(it.held);
    OK(synced_mem_async_cpu_pull(it.busy, it.held));
    synced_mem *const inner = view_of(it.busy, 3000, 1000);
    HEAD(inner, SYNCED);
    if (_i / 2) {
        OK(synced_mem_release(it.busy));
        it.busy = view_of(it.root, BUSY_BEGIN, BUSY);
    }
    int pending = 0;
    OK(synced_mem_query(inner, &pending));
    ck_assert_int_eq(pending, 1);
    OK(synced_mem_query(it.free, &pending));
    ck_assert_int_eq(pending, 0);
    check_waits(inner, HOST_READS);
    OK(synced_mem_release(inner));
    ck_assert(host_reads_right(it.busy));
    finish();
}
END_TEST

/* To make and release views takes the same memory and time each time, behind however many pulls. */
START_TEST(come_and_go_behind_pulls)
{
    const int pulls = _i ? 12 : 1;
    if (!gpu_expected())
        return;
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
    if (!gpu_expected())
        return;
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
        check_waits(right, HOST_READS);
    } else {
        ck_assert(host_reads_right(right));
        ck_assert(host_reads_right(it.root));
        let_go();
    }
    OK(synced_mem_release(left));
    OK(synced_mem_release(right));
    finish();
}
END_TEST

/* ---- New memory, and the end ---- */

/* The root's memory is obtained in the order of one stream. The first use of other bytes comes after that. */
START_TEST(memory_that_was_just_obtained)
{
    if (!gpu_expected())
        return;
    synced_mem_stream one = open_stream(NON_BLOCKING), two = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 4; i++) {
        synced_mem *const root = make_root(false), *const a = view_of(root, 0, 9000),
                          *const b = view_of(root, 9000, 100);
        synced_mem *const mems[] = {a, b, root};
        gpu_delay(one);
        if (i % 2)
            device_writes(a, 1, one);
        else
            (void)given(synced_mem_gpu_data_on(a, one));
        if (i / 2)
            device_writes(b, 2, two);
        else
            kernel_reads(b, two);
        ck_assert(host_reads_right(b));
        ck_assert(host_reads_right(root));
        release_all(mems, 3);
    }
    close_stream(one);
    close_stream(two);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
}
END_TEST

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
    if (!gpu_expected())
        return;
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

/* The last of all releases comes while a kernel writes. The memory outlives the kernel, and nobody waits. */
START_TEST(released_while_busy)
{
    if (!gpu_expected())
        return;
    begin(false);
    keep_no_spares();
    kernel_is_held();
    synced_mem *const mems[] = {it.root, it.free, it.busy};
    release_all(mems, 3);
    ck_assert_uint_eq(stats_now().objects, 0);
    let_go();
    close_stream(it.held);
    close_stream(it.other);
    gpu_free(it.seen);
}
END_TEST

static void add(TCase *to, const TTest *test, int count)
{
    tcase_add_loop_test(to, test, 0, count);
    tcase_set_timeout(to, PATIENCE_S);
}

Suite *suite(void)
{
    Suite *const made = suite_create("cuts of views");
    TCase *const halves = add_case(made, "halves");
    add(halves, halves_inherit_an_open_write, 8);
    add(halves, a_writer_goes_on, 2);
    add(halves, halves_inherit_a_read, 4);
    add(halves, halves_inherit_the_mark, 4);
    add(halves, halves_inherit_a_pull, 4);
    add(halves, end_of_a_use, 8);
    add(halves, come_and_go_behind_pulls, 2);
    TCase *const memory = add_case(made, "memory");
    add(memory, memory_that_was_just_obtained, 1);
    add(memory, replaced_while_another_waits, 3);
    add(memory, released_while_busy, 1);
    return made;
}
