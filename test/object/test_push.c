/* Checks pushes. The suite hazards checks each call that comes while a push is in flight. */
#include "fixture.h"

enum { SIZE = 70000 };

/* Destroys a stream that only pushes were on, which needs no synced_mem_forget_stream(). */
static void close_pushed(synced_mem_stream stream)
{
    gpu_stream_sync(stream);
    if (stream)
        gpu_stream_destroy(stream);
}

/* ---- Effects of a push ---- */

START_TEST(push_then_read)
{
    synced_mem_stream stream = open_stream(_i);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    const synced_mem_stats pushed = stats_now();
    ck_assert_uint_eq(pushed.h2d_transfers, 1);
    ck_assert_uint_eq(pushed.h2d_bytes, SIZE);
    const void *const data = synced_mem_gpu_data(mem);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem_stream another = gpu_stream_create(0, false);
    gpu_copy(seen, data, SIZE, another);
    close_pushed(another);
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    gpu_free(seen);
    OK(synced_mem_release(mem));
    close_pushed(stream);
}
END_TEST

START_TEST(push_again)
{
    synced_mem_stream stream = open_stream(_i);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    for (int i = 0; i < 10; i++)
        OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_pushed(stream);
}
END_TEST

/* Work behind a push sees the contents, even if a push on another stream brings them. */
START_TEST(push_on_a_second_stream)
{
    synced_mem_stream stream = open_stream(_i), second = gpu_stream_create(0, false);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 9);
    const void *const data = given(synced_mem_gpu_data(mem));
    OK(synced_mem_release_cpu_data(mem)); /* the next host memory is page-locked */
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_async_gpu_push(mem, second));
    gpu_copy(seen, data, SIZE, second);
    gpu_stream_sync(second);
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    close_pushed(stream);
    close_pushed(second);
    gpu_free(seen);
}
END_TEST

START_TEST(push_from_wrong_heads)
{
    synced_mem *const nothing = make(SIZE);
    struct facts before = facts_of(nothing);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(nothing, NULL));
    SAYS("UNINITIALIZED");
    check_unchanged(nothing, &before);
    OK(synced_mem_release(nothing));
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    SAYS("AT_GPU");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(push_without_gpu)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(mem, NULL));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Streams and memory that go while a push may run ---- */

/* The stream may be destroyed as soon as its work is done. The library makes no call with its handle after that. */
START_TEST(push_then_destroy_stream)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    for (unsigned i = 0; i < 5; i++) {
        synced_mem_stream stream = gpu_stream_create(0, i % 2 == 0);
        host_fill(synced_mem_mutable_cpu_data(mem), SIZE, i + 1);
        OK(synced_mem_async_gpu_push(mem, stream));
        close_pushed(stream);
        synced_mem_stream next = gpu_stream_create(0, false);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, i + 1));
        close_pushed(next);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* Once the object is released another object may get its device memory, while a kernel still uses it. */
START_TEST(memory_used_again_too_early)
{
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const void *const data = synced_mem_gpu_data(mem);
    gpu_delay(NULL);
    gpu_copy(seen, data, SIZE, NULL);
    OK(synced_mem_release(mem));
    synced_mem *const next = make_at_cpu(SIZE, 2);
    synced_mem_stream stream = gpu_stream_create(0, false);
    OK(synced_mem_async_gpu_push(next, stream));
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(next), SIZE, 2));
    OK(synced_mem_release(next));
    close_pushed(stream);
    gpu_free(seen);
}
END_TEST

/* The object is released while more pushes are in flight than it keeps records for. Each push has its own stream. */
START_TEST(many_readers)
{
    enum { MANY = 9 };
    synced_mem_stream streams[MANY];
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    for (int i = 0; i < MANY; i++) {
        streams[i] = gpu_stream_create(0, false);
        OK(synced_mem_release_gpu_data(mem));
        gpu_delay(streams[i]);
        OK(synced_mem_async_gpu_push(mem, streams[i]));
    }
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    for (int i = 0; i < MANY; i++)
        close_pushed(streams[i]);
}
END_TEST

static synced_mem_stats push_behind_two_uses(synced_mem_stream stream, bool listed)
{
    synced_mem *mem = make_at_gpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, NULL));
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    const synced_mem_stats before = stats_now();
    if (listed)
        OK(synced_mem_async_gpu_push_n(&mem, 1, stream));
    else
        OK(synced_mem_async_gpu_push(mem, stream));
    synced_mem_stats counted = stats_now();
    counted.event_records -= before.event_records;
    counted.stream_waits -= before.stream_waits;
    OK(synced_mem_release(mem));
    return counted;
}

/* One event on the legacy stream ends a use on that stream and one without a stream, in either call. */
START_TEST(two_uses_with_one_end)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    const synced_mem_stats listed = push_behind_two_uses(stream, true);
    const synced_mem_stats alone = push_behind_two_uses(stream, false);
    ck_assert_uint_eq(alone.event_records, listed.event_records);
    ck_assert_uint_eq(alone.stream_waits, listed.stream_waits);
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("push");
    TCase *const pushing = add_case(made, "push");
    add_tests(pushing, push_from_wrong_heads, push_without_gpu);
    add_gpu_loop_test(pushing, push_then_read, 0, STREAM_KINDS);
    add_gpu_loop_test(pushing, push_again, 0, STREAM_KINDS);
    add_gpu_loop_test(pushing, push_on_a_second_stream, 0, STREAM_KINDS);
    TCase *const going = add_case(made, "going");
    add_gpu_tests(going, push_then_destroy_stream, memory_used_again_too_early, many_readers, two_uses_with_one_end);
    return made;
}
