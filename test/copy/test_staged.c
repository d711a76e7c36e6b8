/* Checks staged transfers of one object: pageable memory goes through page-locked buffers, with and without copy
 * threads. */
#include "staged_kit.h"

#include <pthread.h>
#include <unistd.h>

START_TEST(there_and_back)
{
    stage((unsigned)_i);
    void *const mine = memory();
    synced_mem *const mem = make_in(mine, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert(pattern_is(mine, SIZE, 1));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), mine);
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.staged_transfers, 2);
    ck_assert_uint_eq(stats.h2d_transfers, 1);
    ck_assert_uint_eq(stats.h2d_bytes, SIZE);
    ck_assert_uint_eq(stats.d2h_transfers, 1);
    ck_assert_uint_eq(stats.d2h_bytes, SIZE);
    OK(synced_mem_release(mem));
    free(mine);
}
END_TEST

/* By default, transfers of 128 KiB and more are staged. The larger one takes several chunks. */
START_TEST(defaults)
{
    const size_t size = 5 * 1048576 + 17;
    char *const mine = malloc(size);
    synced_mem *const small = make_on(131071, 0);
    synced_mem *const mem = make_on(size, 0);
    OK(synced_mem_set_cpu_data(mem, mine));
    OK(synced_mem_set_cpu_data(small, mine));
    pattern_write(mine, size, 3);
    ck_assert(device_is(synced_mem_gpu_data(small), 131071, 3));
    ck_assert_uint_eq(stats_now().staged_transfers, 0);
    ck_assert(device_is(synced_mem_gpu_data(mem), size, 3));
    ck_assert_uint_eq(stats_now().staged_transfers, 1);
    RELEASE_EACH(small, mem);
    free(mine);
}
END_TEST

START_TEST(read_on_a_stream)
{
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(_i / MOST_THREADS);
    void *const mine = memory();
    void *const seen = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_in(mine, 1);
    const void *const data = synced_mem_gpu_data_on(mem, stream);
    if (!old_pointers_fault())
        pattern_write(mine, SIZE, 9); /* the contents have been read by now */
    gpu_copy_to_host(seen, data, SIZE, stream);
    gpu_stream_sync(stream);
    ck_assert(host_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(seen);
    free(mine);
}
END_TEST

START_TEST(push)
{
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(_i / MOST_THREADS);
    void *const mine = memory();
    void *const seen = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_in(mine, 1);
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    if (!old_pointers_fault())
        pattern_write(mine, SIZE, 9);
    gpu_copy_to_host(seen, synced_mem_gpu_data_on(mem, stream), SIZE, stream);
    gpu_stream_sync(stream);
    ck_assert(host_is(seen, SIZE, 1));
    ck_assert_uint_eq(stats_now().staged_transfers, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(seen);
    free(mine);
}
END_TEST

/* Work behind the push sees the contents. The caller knows the pointer, and does not request it. */
START_TEST(push_seen_without_asking)
{
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(_i / MOST_THREADS);
    void *const mine = memory();
    void *const device = gpu_alloc(0, SIZE);
    void *const seen = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(synced_mem_set_gpu_data(mem, device));
    OK(synced_mem_set_cpu_data(mem, mine));
    pattern_write(mine, SIZE, 1);
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_copy_to_host(seen, device, SIZE, stream);
    gpu_stream_sync(stream);
    ck_assert(host_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_free(device);
    gpu_pinned_free(seen);
    free(mine);
}
END_TEST

/* Kernels on another stream still read the device copy. */
START_TEST(push_over_what_is_read)
{
    stage((unsigned)_i);
    synced_mem_stream reader = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = memory();
    void *const seen = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_in(mine, 1);
    const void *const data = synced_mem_gpu_data_on(mem, reader);
    gpu_delay(reader);
    gpu_copy_to_host(seen, data, SIZE, reader);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_stream_sync(reader);
    ck_assert(host_is(seen, SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    CLOSE_EACH(reader, stream);
    gpu_pinned_free(seen);
    free(mine);
}
END_TEST

START_TEST(pull)
{
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(_i / MOST_THREADS);
    void *const mine = memory();
    synced_mem *const mem = make_written_on(mine, 1, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_int_eq(is_pending(mem), 0);
    ck_assert(device_is(synced_mem_gpu_data_on(mem, NULL), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* A pull waits for no earlier work. Only a call that needs its contents does. */
START_TEST(pull_returns_at_once)
{
    stage(1);
    synced_mem_stream stuck = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine[] = {memory(), memory()};
    synced_mem *const first = make_written_on(mine[0], 1, stuck);
    synced_mem *const second = make_written_on(mine[1], 2, stream);
    gpu_hold(stuck);
    OK(synced_mem_async_cpu_pull(first, stuck));
    OK(synced_mem_async_cpu_pull(second, stream));
    ck_assert_int_eq(is_pending(first), 1);
    ck_assert(host_is(synced_mem_cpu_data(second), SIZE, 2));
    ck_assert_int_eq(is_pending(first), 1);
    gpu_unhold();
    switch (_i) {
    case 0:
        ck_assert(host_is(synced_mem_cpu_data(first), SIZE, 1));
        break;
    case 1:
        OK(synced_mem_wait(first));
        break;
    case 2:
        while (is_pending(first))
            gpu_stream_sync(stuck);
        break;
    }
    ck_assert(pattern_is(mine[0], SIZE, 1));
    RELEASE_EACH(first, second);
    CLOSE_EACH(stuck, stream);
    free(mine[0]);
    free(mine[1]);
}
END_TEST

/* A view of pageable memory is always staged. So the pull of a small one starts the copy threads too. */
START_TEST(pull_of_a_small_view_returns_at_once)
{
    enum { OFFSET = 4096, SMALL = 1000 };
    stage(1);
    synced_mem_stream stuck = open_stream(NON_BLOCKING);
    void *const mine = memory();
    synced_mem *const root = make_in(mine, 1);
    synced_mem *view = NULL;
    OK(synced_mem_view(&view, root, OFFSET, SMALL, NULL));
    gpu_fill(synced_mem_overwrite_gpu_data_on(view, stuck), SMALL, 2, stuck);
    gpu_hold(stuck);
    OK(synced_mem_async_cpu_pull(view, stuck));
    ck_assert_int_eq(is_pending(view), 1);
    ck_assert_int_eq(synced_mem_head(view), SYNCED_MEM_SYNCED);
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(view), SMALL, 2));
    RELEASE_EACH(view, root);
    CLOSE_EACH(stuck);
    free(mine);
}
END_TEST

/* A second pull does not wait for the transfer in flight, and makes no other transfer. */
START_TEST(pull_again)
{
    stage(1);
    synced_mem_stream stuck = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = memory();
    synced_mem *const mem = make_written_on(mine, 1, stuck);
    gpu_hold(stuck);
    OK(synced_mem_async_cpu_pull(mem, stuck));
    OK(synced_mem_async_cpu_pull(mem, _i ? stream : stuck));
    ck_assert_int_eq(is_pending(mem), 1);
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_uint_eq(stats_now().d2h_transfers, 1);
    OK(synced_mem_release(mem));
    CLOSE_EACH(stuck, stream);
    free(mine);
}
END_TEST

/* A call may wait until a copy thread has queued a transfer. Queries of other threads run meanwhile. */
struct waiting {
    synced_mem *mem;
    int kind;
    synced_mem_stream stream;
    bool succeeded;
};

static void *wait_for_pull(void *argument)
{
    struct waiting *const waiting = argument;
    synced_mem *const mem = waiting->mem;
    switch (waiting->kind) {
    case 0:
        waiting->succeeded = synced_mem_resize(mem, 2 * (size_t)SIZE) == SYNCED_MEM_OK;
        break;
    case 1:
        waiting->succeeded = synced_mem_gpu_data(mem) != NULL;
        break;
    case 2:
        waiting->succeeded = synced_mem_gpu_data_on(mem, waiting->stream) != NULL;
        break;
    default:
        waiting->succeeded = synced_mem_async_gpu_push(mem, waiting->stream) == SYNCED_MEM_OK;
        break;
    }
    return NULL;
}

static void ignore(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
}

START_TEST(others_ask_meanwhile)
{
    stage(1);
    synced_mem_stream stuck = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = memory();
    void *const pinned = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_on(2 * (size_t)SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, stuck));
    OK(synced_mem_resize(mem, SIZE));
    OK(USE(mem, .cpu_data = mine, .callback = ignore));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stuck), SIZE, 1, stuck);
    gpu_hold(stuck);
    OK(synced_mem_async_cpu_pull(mem, stuck));
    if (_i == 1 || _i == 2)
        OK(synced_mem_resize_discard(mem, SIZE));
    if (_i == 3)
        OK(USE(mem, .cpu_data = pinned, .callback = ignore));
    if (_i == 3)
        pattern_write(pinned, SIZE, 1);
    struct waiting waiting = {.mem = mem, .kind = _i, .stream = stream};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_pull, &waiting), 0);
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(is_pending(mem), 1);
        (void)usleep(1000);
    }
    gpu_unhold();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(waiting.succeeded);
    if (_i == 0 || _i == 3)
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    CLOSE_EACH(stuck, stream);
    OK(synced_mem_shutdown());
    gpu_pinned_free(pinned);
    free(mine);
}
END_TEST

/* No pull waits for another one: those on a second stream complete while the first is stuck. */
START_TEST(pulls_behind_one_that_is_stuck)
{
    enum { PULLS = 3 };
    stage(3);
    synced_mem_stream stuck = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *mine[PULLS];
    synced_mem *mems[PULLS];
    for (unsigned i = 0; i < PULLS; i++) {
        mine[i] = memory();
        mems[i] = make_written_on(mine[i], i + 1, i == 0 ? stuck : stream);
        if (i == 0)
            gpu_hold(stuck);
        OK(synced_mem_async_cpu_pull(mems[i], i == 0 ? stuck : stream));
    }
    for (unsigned i = 1; i < PULLS; i++) {
        while (is_pending(mems[i]))
            (void)usleep(100);
        ck_assert(pattern_is(mine[i], SIZE, i + 1));
    }
    ck_assert_int_eq(is_pending(mems[0]), 1);
    gpu_unhold();
    for (unsigned i = 0; i < PULLS; i++) {
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, i + 1));
        OK(synced_mem_release(mems[i]));
        free(mine[i]);
    }
    CLOSE_EACH(stuck, stream);
}
END_TEST

/* Later work on the device does not disturb the pull. */
START_TEST(pull_then_write_the_device)
{
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = _i / MOST_THREADS ? open_stream(NON_BLOCKING) : stream;
    char *const mine = memory();
    synced_mem *const mem = make_written_on(mine, 1, stream);
    gpu_delay(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, other), SIZE, 2, other);
    OK(synced_mem_wait(mem));
    ck_assert(old_pointers_fault() || pattern_is(mine, SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
    if (other != stream)
        close_stream(other);
    free(mine);
}
END_TEST

/* The memory is given up while the transfer is in flight. */
static void count_callback(void *data, void *user, synced_mem_stream stream)
{
    (void)stream;
    ck_assert(pattern_is(data, SIZE, 1));
    ++*(int *)user;
}

START_TEST(let_go_meanwhile)
{
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = memory();
    int called = 0;
    synced_mem *const mem = make_written_on(mine, 1, stream);
    OK(USE(mem, .cpu_data = mine, .callback = count_callback, .user = &called));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    gpu_delay(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    switch (_i / MOST_THREADS) {
    case 0:
        OK(synced_mem_release(mem));
        break;
    case 1:
        OK(synced_mem_resize_discard(mem, 2 * SIZE));
        break;
    case 2:
        OK(synced_mem_resize(mem, 2 * SIZE));
        break;
    case 3:
        OK(synced_mem_release_gpu_data(mem));
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
        break;
    case 4:
        OK(synced_mem_release_cpu_data(mem));
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        break;
    }
    if (_i / MOST_THREADS > 0)
        OK(synced_mem_release(mem));
    for (int i = 0; called == 0 && i < 1000000; i++) {
        OK(synced_mem_reap());
        if (i > 1000)
            (void)usleep(100);
    }
    gpu_stream_sync(stream);
    OK(synced_mem_shutdown());
    ck_assert_int_eq(called, 1);
    close_stream(stream);
    free(mine);
}
END_TEST

/* The call that releases borrowed memory waits for the transfer. */
START_TEST(borrowed_memory_is_handed_back)
{
    stage((unsigned)_i);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = memory();
    synced_mem *const mem = make_written_on(mine, 1, stream);
    gpu_delay(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    OK(synced_mem_release(mem));
    ck_assert(pattern_is(mine, SIZE, 1));
    free(mine);
    close_stream(stream);
}
END_TEST

START_TEST(larger_by_a_pull_and_back)
{
    stage((unsigned)_i);
    void *const mine = memory();
    synced_mem *const mem = make_in(mine, 1);
    const void *const data = synced_mem_gpu_data(mem);
    OK(synced_mem_resize(mem, SIZE - 1));
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), data);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE - 1, 2);
    OK(synced_mem_resize(mem, SIZE + 1));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE - 1, 2));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE - 1, 2));
    OK(synced_mem_release(mem));
    free(mine);
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("staged");
    TCase *one = add_case(of, "one object");
    add_gpu_tests(one, defaults, pull_of_a_small_view_returns_at_once, pulls_behind_one_that_is_stuck);
    add_gpu_loop_test(one, there_and_back, 0, MOST_THREADS);
    add_gpu_loop_test(one, read_on_a_stream, 0, MOST_THREADS * STREAM_KINDS);
    add_gpu_loop_test(one, push, 0, MOST_THREADS * STREAM_KINDS);
    add_gpu_loop_test(one, push_seen_without_asking, 0, MOST_THREADS * STREAM_KINDS);
    add_gpu_loop_test(one, push_over_what_is_read, 0, MOST_THREADS);
    add_gpu_loop_test(one, pull, 0, MOST_THREADS * STREAM_KINDS);
    add_gpu_loop_test(one, pull_returns_at_once, 0, 3);
    add_gpu_loop_test(one, pull_again, 0, 2);
    add_gpu_loop_test(one, others_ask_meanwhile, 0, 4);
    add_gpu_loop_test(one, pull_then_write_the_device, 0, 2 * MOST_THREADS);
    add_gpu_loop_test(one, let_go_meanwhile, 0, 5 * MOST_THREADS);
    add_gpu_loop_test(one, borrowed_memory_is_handed_back, 0, MOST_THREADS);
    add_gpu_loop_test(one, larger_by_a_pull_and_back, 0, MOST_THREADS);
    return of;
}
