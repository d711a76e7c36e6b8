/* Checks staged transfers that fail, and what a failed call leaves. The suite sweep lets each call of the runtime
 * fail. */
#include "calls.h"
#include "cudart_emu.h"
#include "failing_calloc.h"
#include "staged_kit.h"

#include <pthread.h>
#include <unistd.h>

static const int kinds[] = {GPU_READ, ON_READ, PUSH, CPU_READ, PULL_AND_WAIT};
enum { KINDS = 5 };

static bool goes_up(int kind)
{
    return kind < 3;
}

/* Without memory for buffers the runtime transfers the chunks itself. */
START_TEST(without_buffers)
{
    emu_set_pinned_memory(0);
    for (unsigned threads = 0; threads < 3; threads++) {
        void *const mine = malloc(SIZE);
        stage(threads);
        synced_mem *const mem = make_in(mine, 1);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
        OK(synced_mem_release(mem));
        free(mine);
    }
}
END_TEST

/* A transfer fails without memory for its record. */
START_TEST(without_records)
{
    void *const mine = malloc(SIZE);
    stage((unsigned)_i);
    synced_mem *const mem = make_in(mine, 1);
    unsigned nth = 1;
    const void *data = NULL;
    for (; nth < 10; nth++) {
        fail_calloc_in = (int)nth;
        data = synced_mem_gpu_data(mem);
        if (data)
            break;
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    }
    fail_calloc_in = 0;
    ck_assert_uint_gt(nth, 1);
    ck_assert(device_is(data, SIZE, 1));
    OK(synced_mem_release(mem));
    free(mine);
}
END_TEST

/* The device is lost during a transfer. The head goes back to the side that the contents come from. */
START_TEST(the_device_is_lost)
{
    void *const mine = malloc(SIZE);
    stage((unsigned)_i % 2);
    synced_mem *const mem = make_in(mine, 1);
    if (_i / 2 == 0) {
        emu_break_device(0, cudaErrorLaunchFailure);
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    } else {
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 2, stream);
        emu_break_device(0, cudaErrorLaunchFailure);
        (void)synced_mem_async_cpu_pull(mem, stream);
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 3);
    }
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    emu_reset(fixture_schedule());
    free(mine);
}
END_TEST

/* The first wait or query after a failed pull reports the failure. The head is AT_GPU again. */
START_TEST(waiting_says_that_a_pull_failed)
{
    int pending = 1;
    void *const mine = malloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    stage(1);
    synced_mem *const mem = make_in(mine, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_cpu_pull(mem, stream));
    gpu_stream_sync(stream);
    if (_i > 0)
        (void)usleep(20000); /* the copy thread has probably failed by then */
    synced_mem_status status = _i == 1 ? SYNCED_MEM_OK : synced_mem_wait(mem);
    while (_i == 1 && status == SYNCED_MEM_OK && pending)
        status = synced_mem_query(mem, &pending);
    ck_assert_int_eq(status, SYNCED_MEM_ERR_CUDA);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    OK(synced_mem_wait(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* A pull reads nothing if the work before it can't be waited for. */
START_TEST(the_source_of_a_pull_fails)
{
    void *const mine = malloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    stage(1);
    synced_mem *const mem = make_in(mine, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    const unsigned copies = gpu_calls("cudaMemcpyAsync");
    gpu_hold(stream);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_cpu_pull(mem, stream));
    (void)usleep(20000); /* the copy thread has probably failed by then, else the wait does */
    gpu_unhold();
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_wait(mem));
    ck_assert_uint_eq(gpu_calls("cudaMemcpyAsync"), copies);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* One pull of several fails. The transfer of the other has begun, and the call does not wait for it. */
START_TEST(one_of_several_fails)
{
    void *const mine = malloc(SIZE);
    void *const small = malloc(64);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    stage((unsigned)_i);
    synced_mem *const mems[] = {make_in(mine, 0), make_on(64, 0)};
    OK(synced_mem_set_cpu_data(mems[1], small));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mems[0], stream), SIZE, 1, stream);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mems[1], stream), 64, 2, stream);
    gpu_hold(stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull_n(mems, 2, stream));
    ck_assert_int_eq(synced_mem_head(mems[0]), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_head(mems[1]), SYNCED_MEM_AT_GPU);
    gpu_unhold();
    gpu_fill(synced_mem_mutable_gpu_data_on(mems[0], stream), SIZE, 3, stream);
    OK(synced_mem_async_cpu_pull_n(mems, 2, stream));
    ck_assert(host_is(synced_mem_cpu_data(mems[0]), SIZE, 3));
    ck_assert(host_is(synced_mem_cpu_data(mems[1]), 64, 2));
    RELEASE_EACH(mems[0], mems[1]);
    close_stream(stream);
    free(small);
    free(mine);
}
END_TEST

/* A failed call cancels the transfers that it has begun. Without copy threads nothing would ever complete them. */
START_TEST(nothing_is_left_of_a_failed_push)
{
    set_staging(4, SIZE_MAX);
    void *const mine = malloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mems[] = {make_in(mine, 1), make_at_cpu(64, 2)};
    int pending = 0;
    OK(synced_mem_query(mems[0], &pending));
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    if (_i == 2)
        emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push_n(mems, 2, stream));
    ck_assert_uint_eq(emu_failures(), _i == 2 ? 2 : 1);
    SAYS("64 bytes");
    ck_assert_int_eq(synced_mem_head(mems[0]), SYNCED_MEM_AT_CPU);
    for (int i = 0; i < 9 && (i == 0 || pending); i++) {
        gpu_stream_sync(stream);
        emu_run_all();
        OK(synced_mem_query(mems[0], &pending));
    }
    ck_assert_int_eq(pending, 0);
    if (_i != 1) {
        OK(synced_mem_async_gpu_push_n(mems, 2, stream));
        ck_assert(device_is(synced_mem_gpu_data(mems[0]), SIZE, 1));
        ck_assert(device_is(synced_mem_gpu_data(mems[1]), 64, 2));
    }
    RELEASE_EACH(mems[0], mems[1]);
    emu_run_all();
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
    close_stream(stream);
    free(mine);
}
END_TEST

static bool is_left_pending(synced_mem *mem)
{
    int pending = 1;
    for (int i = 0; i < 9 && pending; i++) {
        gpu_sync_device(0);
        emu_run_all();
        OK(synced_mem_query(mem, &pending));
    }
    return pending;
}

/* The same for an access, or a resize, of an object in parts, for which memory is refused at any place. kind 5: a
 * resize. */
static bool fails_for_parts(int kind, struct failing *failing, void *mine)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_in(mine, 1);
    synced_mem *part = NULL, *third = NULL;
    OK(synced_mem_view(&part, mem, SIZE / 3, SIZE / 3, NULL));
    if (kind == 5) {
        OK(synced_mem_view(&third, mem, 0, SIZE / 6, NULL));
        gpu_fill(synced_mem_overwrite_gpu_data_on(part, stream), SIZE / 3, 1, stream);
        gpu_fill(synced_mem_overwrite_gpu_data_on(third, stream), SIZE / 6, 1, stream);
        RELEASE_EACH(part, third);
    } else if (!goes_up(kind)) {
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    }
    gpu_stream_sync(stream);
    const synced_mem_head_kind before = synced_mem_head(mem);
    begin_failing(failing);
    const bool made = kind == 5 ? synced_mem_resize(mem, SIZE) == SYNCED_MEM_OK
                                : make_call(mem, kinds[kind], stream) == SYNCED_MEM_OK;
    ck_assert(end_failing(failing) || made);
    if (!made) {
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        ck_assert_int_eq(synced_mem_head(mem), before);
        ck_assert_msg(!is_left_pending(mem), "kind %d: allocation %u", kind, failing->nth);
    }
    if (kind != 5)
        OK(synced_mem_release(part));
    OK(synced_mem_release(mem));
    emu_run_all();
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
    close_stream(stream);
    OK(synced_mem_shutdown()); /* no records are kept for the next one */
    return !made;
}

START_TEST(nothing_is_left_of_a_failed_access)
{
    void *const mine = malloc(SIZE);
    int failures = 0;
    stage(0);
    for (struct failing it = each_calloc(); next_failure(&it);)
        failures += fails_for_parts(_i, &it, mine);
    ck_assert_int_gt(failures, 2);
    free(mine);
}
END_TEST

/* A push by another thread, which waits for buffers. */
struct pushing {
    synced_mem *mem;
    synced_mem_stream stream;
};

static void *push(void *argument)
{
    const struct pushing *const it = argument;
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(it->mem, it->stream));
    return NULL;
}

/* Returns NULL if the call failed. */
static void *overwrite(void *argument)
{
    const struct pushing *const it = argument;
    return it->stream ? synced_mem_overwrite_gpu_data_on(it->mem, it->stream) : synced_mem_overwrite_gpu_data(it->mem);
}

/* An overwrite needs no contents, so a lost push does not make it fail, with a stream or without one. */
START_TEST(an_overwrite_survives_a_lost_push)
{
    const size_t size = (size_t)40 * BUFFER;
    void *const mine = calloc(1, size);
    stage(1);
    synced_mem *const mem = make_on(size, 0);
    struct pushing one = {.mem = mem, .stream = open_stream(NON_BLOCKING)};
    struct pushing other = {.mem = mem, .stream = _i ? open_stream(NON_BLOCKING) : NULL};
    OK(synced_mem_set_cpu_data(mem, mine));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    pthread_t pusher;
    pthread_t writer;
    void *data = NULL;
    const unsigned copies = emu_calls("cudaMemcpyAsync");
    gpu_hold(NULL);
    ck_assert_int_eq(pthread_create(&pusher, NULL, push, &one), 0);
    while (emu_calls("cudaMemcpyAsync") == copies)
        (void)usleep(1000);
    ck_assert_int_eq(pthread_create(&writer, NULL, overwrite, &other), 0);
    (void)usleep(20000);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    gpu_unhold();
    ck_assert_int_eq(pthread_join(pusher, NULL), 0);
    ck_assert_int_eq(pthread_join(writer, &data), 0);
    ck_assert_ptr_nonnull(data);
    gpu_fill(data, size, 3, other.stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 3));
    OK(synced_mem_release(mem));
    close_stream(one.stream);
    if (other.stream)
        close_stream(other.stream);
    free(mine);
}
END_TEST

/* One pull of several fails. The pull that arrived has ended the open write of its stream, as after a success. */
START_TEST(a_turn_ends_though_another_pull_failed)
{
    void *mine[2];
    synced_mem *mems[2];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream reader = open_stream(NON_BLOCKING);
    stage(0);
    for (int i = 0; i < 2; i++) {
        mine[i] = malloc(SIZE);
        mems[i] = make_in(mine[i], 0);
        gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], stream), SIZE, 1, stream);
    }
    const unsigned chunks = (SIZE + BUFFER - 1) / BUFFER;
    emu_fail("cudaMemcpyAsync", _i ? 1 : chunks + 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull_n(mems, 2, stream));
    ck_assert_int_eq(synced_mem_head(mems[_i]), SYNCED_MEM_SYNCED);
    ck_assert_int_eq(synced_mem_head(mems[1 - _i]), SYNCED_MEM_AT_GPU);
    const unsigned records = emu_calls("cudaEventRecord");
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mems[_i], reader));
    ck_assert_uint_eq(emu_calls("cudaEventRecord"), records);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mems[1 - _i], reader));
    ck_assert_uint_eq(emu_calls("cudaEventRecord"), records + 1);
    for (int i = 0; i < 2; i++) {
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, 1));
        OK(synced_mem_release(mems[i]));
        free(mine[i]);
    }
    CLOSE_EACH(reader, stream);
}
END_TEST

/* The same of an object in parts, one of several in the call. Of its parts those that arrived are valid on the host,
 * and their open write has ended. The others are as before. */
START_TEST(a_part_arrives_though_another_failed)
{
    void *const mine[] = {malloc(SIZE), malloc(SIZE)};
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream reader = open_stream(NON_BLOCKING);
    synced_mem *const mems[] = {make_in(mine[0], 0), make_in(mine[1], 0)};
    synced_mem *parts[2];
    stage(0);
    for (size_t i = 0; i < 2; i++)
        OK(synced_mem_view(&parts[i], mems[0], i * (SIZE / 2), SIZE / 2, NULL));
    void *const data = synced_mem_overwrite_gpu_data_on(mems[0], stream);
    gpu_fill(data, SIZE, 1, stream);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mems[1], stream), SIZE, 1, stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false); /* of the first part */
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull_n(mems, 2, stream));
    ck_assert_int_eq(synced_mem_head(parts[0]), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_head(parts[1]), SYNCED_MEM_SYNCED);
    ck_assert_int_eq(synced_mem_head(mems[1]), SYNCED_MEM_SYNCED);
    gpu_fill(data, SIZE / 2, 2, stream); /* may still be written */
    ck_assert(host_is(synced_mem_cpu_data(parts[0]), SIZE / 2, 2));
    const unsigned records = emu_calls("cudaEventRecord");
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(parts[1], reader));
    ck_assert_uint_eq(emu_calls("cudaEventRecord"), records);
    for (int i = 0; i < 2; i++) {
        RELEASE_EACH(parts[i], mems[i]);
        free(mine[i]);
    }
    CLOSE_EACH(reader, stream);
}
END_TEST

/* A failed pull does not end the open write. The stream may go on to write, and later accesses wait for that too. */
START_TEST(a_turn_outlives_a_failed_pull)
{
    void *const mine = malloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    stage(0);
    synced_mem *const mem = make_in(mine, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    gpu_fill(data, SIZE, 1, stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* The runtime can no longer report that memory is page-locked when its transfer is queued. */
START_TEST(no_more_known_as_page_locked)
{
    const unsigned looks = (unsigned)_i + 1;
    void *const mine = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    stage(1);
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *const other = make_at_cpu(SIZE, 2);
    synced_mem *const mems[] = {other, mem};
    gpu_delay(stream);
    gpu_fill_host(mine, SIZE, 1, stream);
    OK(USE(mem, .cpu_data = mine, .stream = stream));
    emu_fail("cudaPointerGetAttributes", looks, cudaErrorUnknown, false);
    OK(synced_mem_async_gpu_push_n(mems, 2, stream));
    emu_fail_clear();
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(other), SIZE, 2));
    RELEASE_EACH(mem, other);
    close_stream(stream);
    gpu_pinned_free(mine);
}
END_TEST

/* Memory that was found pageable is page-locked meanwhile, and there is no memory for buffers. */
START_TEST(page_locked_meanwhile_without_buffers)
{
    void *const mine = malloc(SIZE);
    stage((unsigned)_i);
    synced_mem *const mem = make_in(mine, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    gpu_register(mine, SIZE);
    OK(synced_mem_host_pool_trim(0));
    emu_set_pinned_memory(0);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(synced_mem_async_gpu_push(mem, stream));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 9);
    OK(synced_mem_async_gpu_push(mem, stream));
    host_fill(mine, SIZE, 8); /* the contents have been read by now */
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 9));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 3, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_unregister(mine);
    free(mine);
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("staged failures");
    TCase *failing = add_case_without_end(of, "failing");
    tcase_add_loop_test(failing, the_device_is_lost, 0, 4);
    TCase *limited = add_case(of, "limited");
    add_tests(limited, without_buffers, the_source_of_a_pull_fails, a_turn_outlives_a_failed_pull,
              a_part_arrives_though_another_failed);
    tcase_add_loop_test(limited, without_records, 0, 2);
    tcase_add_loop_test(limited, waiting_says_that_a_pull_failed, 0, 3);
    tcase_add_loop_test(limited, one_of_several_fails, 0, 2);
    tcase_add_loop_test(limited, nothing_is_left_of_a_failed_push, 0, 3);
    tcase_add_loop_test(limited, nothing_is_left_of_a_failed_access, 0, KINDS + 1);
    tcase_add_loop_test(limited, an_overwrite_survives_a_lost_push, 0, 2);
    tcase_add_loop_test(limited, a_turn_ends_though_another_pull_failed, 0, 2);
    tcase_add_loop_test(limited, no_more_known_as_page_locked, 0, 6);
    tcase_add_loop_test(limited, page_locked_meanwhile_without_buffers, 0, 2);
    return of;
}
