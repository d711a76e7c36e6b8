/* Checks calls on an object in parts while another thread's call writes, makes or releases a view of it. */
#include "interleavings_kit.h"

/* ---- A call fails ---- */

static synced_mem_head_kind head_of(size_t offset)
{
    synced_mem *view;
    OK(synced_mem_view(&view, mem, offset, SIZE / 2, NULL));
    const synced_mem_head_kind head = synced_mem_head(view);
    OK(synced_mem_release(view));
    return head;
}

/* A resize, or an access, of an object in parts brings the device's part to the host, and fails. Another thread has
 * pushed the host's part meanwhile. That part stays valid on the device, and only the first one is taken back. */
START_TEST(a_failed_call_keeps_the_push_of_others)
{
    synced_mem *view;
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(view, stream)); /* the contents stay as they are */
    gpu_hold(stream);
    OK(synced_mem_release(view));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_MIXED);
    second.fails = true;
    run_second_at(AT_THE_WAIT, push_on_next);
    if (_i)
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    else
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_resize(mem, LARGER));
    gpu_unhold();
    join_second();
    ck_assert_int_eq(head_of(0), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(head_of(SIZE / 2), SYNCED_MEM_SYNCED);
    ck_assert(device_is(synced_mem_gpu_data_on(mem, next), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    CLOSE_EACH(stream, next);
}
END_TEST

static synced_mem *part;

/* Then nothing holds the part and its neighbour apart. */
static void write_and_release_part(void)
{
    void *const data = synced_mem_overwrite_cpu_data(part);
    sound(data != NULL);
    host_fill(data, SIZE / 4, 2);
    sound(synced_mem_release(part) == SYNCED_MEM_OK);
}

/* The access has filled two parts with zeros, and waits for a third one. Another thread writes the first part, which is
 * then joined to the second. Pointers of the second were given out more often before. */
START_TEST(a_failed_call_keeps_what_was_joined)
{
    synced_mem *neighbour, *last;
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    OK(synced_mem_view(&part, mem, 0, SIZE / 4, NULL));
    OK(synced_mem_view(&neighbour, mem, SIZE / 4, SIZE / 4, NULL));
    OK(synced_mem_view(&last, mem, SIZE / 2, SIZE / 2, NULL));
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(neighbour));
        OK(synced_mem_clear(neighbour));
    }
    OK(synced_mem_release(neighbour));
    gpu_fill(synced_mem_overwrite_gpu_data_on(last, stream), SIZE / 2, 1, stream);
    gpu_stream_sync(stream);
    gpu_hold(stream);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(last, stream));
    second.fails = true;
    run_second_at(AT_THE_WAIT, write_and_release_part);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    gpu_unhold();
    join_second();
    OK(synced_mem_view(&part, mem, 0, SIZE / 4, NULL));
    ck_assert_int_eq(synced_mem_head(part), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(part), SIZE / 4, 2));
    ck_assert(host_is((const char *)synced_mem_cpu_data(mem) + SIZE / 4, SIZE / 4, 0));
    RELEASE_EACH(part, last, mem);
    close_stream(stream);
}
END_TEST

/* ---- A stream goes on ---- */

static void write_again(void)
{
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    sound(data != NULL);
    gpu_fill(data, SIZE, 2, stream);
}

/* A pull waits for the work of the stream that writes. Meanwhile that stream gets the pointer to all parts again, to
 * write more. The end of the pull does not end that. */
START_TEST(a_write_again_during_a_pull)
{
    synced_mem *view;
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    for (int i = 0; i < 2; i++)
        gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, stream)), SIZE, 1, stream);
    run_second_at(AT_THE_WAIT, write_again);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    join_second();
    ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    RELEASE_EACH(view, mem);
    close_stream(stream);
}
END_TEST

/* ---- A view of the target of a copy ---- */

static synced_mem *from;

static void make_whole_view(void)
{
    sound(synced_mem_view(&part, mem, 0, SIZE, NULL) == SYNCED_MEM_OK);
}

static void make_small_view(void)
{
    sound(synced_mem_view(&part, mem, 100, 100, NULL) == SYNCED_MEM_OK);
}

/* While a copy to an object waits for its transfer, the object becomes divided. The contents are its contents all the
 * same. _i / 2: the head before. */
START_TEST(a_view_of_the_target_of_a_copy)
{
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    from = make_on(SIZE, 0);
    if (_i / 2 > 0)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    if (_i / 2 > 1)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    gpu_fill(synced_mem_overwrite_gpu_data_on(from, stream), SIZE, 2, stream);
    run_second_at(AT_THE_WAIT, _i % 2 ? make_whole_view : make_small_view);
    OK(synced_mem_cpu_copy(mem, from));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_head(part), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    RELEASE_EACH(part, mem, from);
    close_stream(stream);
}
END_TEST

static void write_small_view(void)
{
    make_small_view();
    void *const data = synced_mem_overwrite_cpu_data(part);
    sound(data != NULL);
    host_fill(data, 100, 3);
}

/* The same, and the wait fails. The target was the only valid copy, so its contents are lost, but not those that
 * another thread has written to a view. */
START_TEST(a_written_view_of_the_target_of_a_failed_copy)
{
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    from = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(from, stream), SIZE, 2, stream);
    second.fails = true;
    run_second_at(AT_THE_WAIT, write_small_view);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_copy(mem, from));
    join_second();
    ck_assert_int_eq(synced_mem_head(part), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(part), 100, 3));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_MIXED);
    RELEASE_EACH(part, mem, from);
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("interleavings_views");
    TCase *const tests = add_case(made, "interleavings_views");
    add_tests(tests, a_failed_call_keeps_what_was_joined, a_write_again_during_a_pull,
              a_written_view_of_the_target_of_a_failed_copy);
    tcase_add_loop_test(tests, a_failed_call_keeps_the_push_of_others, 0, 2);
    tcase_add_loop_test(tests, a_view_of_the_target_of_a_copy, 0, 6);
    return made;
}
