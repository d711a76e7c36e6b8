/* Checks that a thread forgets and destroys a stream while another thread's call uses it. */
#include "interleavings_kit.h"

static void be_done(void)
{
    sound(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
}

static void destroy(void)
{
    be_done();
    sound(cudaStreamDestroy(stream) == cudaSuccess);
}

/* The next stream gets the handle. */
static void destroy_and_create(void)
{
    destroy();
    sound(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking) == cudaSuccess);
}

/* One thread ends the stream's use while the other forgets and destroys the stream. No event is recorded on the
 * destroyed stream, and its work is waited for all the same. */
START_TEST(a_stream_goes_while_its_use_ends)
{
    const enum moment moment = _i & 1 ? AT_THE_RECORD : AT_THE_LOOK;
    mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    if (_i & 4)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    run_second_at(moment, _i & 2 ? destroy_and_create : destroy);
    if (_i & 8)
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    join_second();
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    if (next)
        close_stream(next);
}
END_TEST

/* The same while memory is freed in the stream's order. The free comes before the stream is destroyed, or on another
 * stream. */
START_TEST(a_stream_goes_while_memory_is_freed)
{
    static const enum moment moments[] = {AT_THE_LOOK, AT_THE_FREE, AFTER_THE_FREE};
    keep_no_spares();
    mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    run_second_at(moments[_i / 2], _i % 2 ? destroy_and_create : destroy);
    OK(synced_mem_release(mem));
    join_second();
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    if (next)
        close_stream(next);
}
END_TEST

/* Two threads forget one stream, which is destroyed when the first of them returns. */
START_TEST(two_are_done_with_a_stream)
{
    synced_mem *const two[] = {make_on(SIZE, 0), make_on(SIZE, 0)};
    stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 2; i++)
        gpu_fill(synced_mem_overwrite_gpu_data_on(two[i], stream), SIZE, i + 1, stream);
    run_second_at(_i ? AT_THE_RECORD : AFTER_THE_RECORD, be_done);
    OK(synced_mem_forget_stream(stream));
    join_second();
    gpu_stream_destroy(stream);
    stream = open_stream(NON_BLOCKING);
    OK(synced_mem_release_data(two[0]));
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(two[0], stream));
    ck_assert(host_is(synced_mem_cpu_data(two[1]), SIZE, 2));
    release_all(two, 2);
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("interleavings_streams");
    TCase *const tests = add_case(made, "interleavings_streams");
    tcase_add_loop_test(tests, a_stream_goes_while_its_use_ends, 0, 16);
    tcase_add_loop_test(tests, a_stream_goes_while_memory_is_freed, 0, 6);
    tcase_add_loop_test(tests, two_are_done_with_a_stream, 0, 2);
    return made;
}
