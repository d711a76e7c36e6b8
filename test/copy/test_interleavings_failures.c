/* Checks calls that fail while another thread's call on the object succeeds: no contents and no work are lost. */
#include "interleavings_kit.h"

/* ---- Contents ---- */

static const void *got;

static void read_on_stream(void)
{
    got = synced_mem_gpu_data_on(mem, stream);
    sound(got != NULL);
}

static void read_without_stream(void)
{
    got = synced_mem_gpu_data(mem);
    sound(got != NULL);
}

/* Another thread relies on the work that a failed call has begun. The device copy stays, with the contents in transfer.
 * No second transfer changes it under its readers. */
START_TEST(a_failed_call_takes_nothing_from_others)
{
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    stream = open_stream(BLOCKING);
    mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    second.fails = true;
    run_second_at(AT_THE_WAIT, _i ? read_without_stream : read_on_stream);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(mem));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, other), got);
    gpu_copy(seen, got, SIZE, stream);
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, other), SIZE, 2, other);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_free(seen);
    CLOSE_EACH(stream, other);
}
END_TEST

static synced_mem *from;
static void *handed_in[2];

static void copy_on_stream(void)
{
    sound(synced_mem_async_gpu_copy(mem, from, next) == SYNCED_MEM_OK);
}

static void copy_on_host(void)
{
    sound(synced_mem_cpu_copy(mem, from) == SYNCED_MEM_OK);
}

static void hand_in_host_memory(void)
{
    sound(synced_mem_set_cpu_data(mem, handed_in[0]) == SYNCED_MEM_OK);
}

static void hand_in_device_memory(void)
{
    sound(synced_mem_set_gpu_data(mem, handed_in[1]) == SYNCED_MEM_OK);
}

static void hand_in_both(void)
{
    sound(USE(mem, .cpu_data = handed_in[0], .gpu_data = handed_in[1]) == SYNCED_MEM_OK);
}

/* Other calls that bring contents, and the head afterwards. */
static const struct {
    void (*act)(void);
    synced_mem_head_kind head;
} bringers[] = {{copy_on_stream, SYNCED_MEM_AT_GPU},
                {copy_on_host, SYNCED_MEM_AT_CPU},
                {hand_in_host_memory, SYNCED_MEM_AT_CPU},
                {hand_in_device_memory, SYNCED_MEM_AT_GPU},
                {hand_in_both, SYNCED_MEM_SYNCED}};
enum { BRINGERS = sizeof bringers / sizeof bringers[0] };

/* An access to an object without contents waits and fails. Another thread's call has brought contents meanwhile. They
 * are not lost. In a view, they are one part of the root's. */
START_TEST(a_failed_call_keeps_the_contents_of_others)
{
    const int which = _i % BRINGERS;
    const bool in_parts = _i / BRINGERS == 1;
    synced_mem *view = NULL;
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    from = make_on(SIZE, 0);
    if (in_parts)
        OK(synced_mem_view(&view, mem, SIZE / 2, SIZE / 4, NULL));
    handed_in[0] = gpu_pinned_alloc(SIZE);
    handed_in[1] = gpu_alloc(0, SIZE);
    host_fill(handed_in[0], SIZE, 2);
    gpu_fill(handed_in[1], SIZE, 2, next);
    gpu_stream_sync(next);
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 2);
    if (_i / BRINGERS == 2) /* no pointer was given out */
        OK(synced_mem_cpu_copy(mem, from));
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_clear(mem));
    second.fails = true;
    run_second_at(AT_THE_WAIT, bringers[which].act);
    const void *const data = synced_mem_cpu_data(mem); /* succeeds if the other call has waited for the same work */
    join_second();
    ck_assert(data || synced_mem_last_error() == SYNCED_MEM_ERR_CUDA);
    if (!data)
        ck_assert_int_eq(synced_mem_head(mem), bringers[which].head);
    ck_assert(device_is(synced_mem_gpu_data_on(mem, next), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    if (in_parts)
        OK(synced_mem_release(view));
    RELEASE_EACH(mem, from);
    gpu_pinned_free(handed_in[0]);
    gpu_free(handed_in[1]);
    CLOSE_EACH(stream, next);
}
END_TEST

/* ---- Open writes ---- */

/* A failed call ends no open write, although an access of the stream or a push succeeds meanwhile. Later writes of the
 * stream are still waited for. */
START_TEST(a_turn_goes_on_after_a_failed_call)
{
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    if (_i == 2) /* the stream is also a reader then */
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    gpu_fill(data, SIZE, 1, stream);
    second.fails = true;
    run_second_at(AT_THE_WAIT, _i == 0 ? push_on_next : read_on_stream);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    CLOSE_EACH(stream, next);
}
END_TEST

/* Makes a call that fails in the middle of another one, which ends a stream's open write. */
static void fail_to_overwrite(void)
{
    emu_fail("cudaStreamWaitEvent", 1, cudaErrorUnknown, false);
    sound(!synced_mem_overwrite_gpu_data_on(mem, next));
    emu_fail_clear();
}

START_TEST(a_turn_ends_in_spite_of_a_failed_call)
{
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 1, stream);
    run_second_at(AT_THE_WAIT, fail_to_overwrite);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    if (_i) {
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, next), SIZE, 3, next);
    } else {
        host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
        ck_assert(device_is(synced_mem_gpu_data_on(mem, next), SIZE, 3));
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
    CLOSE_EACH(stream, next);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("interleavings_failures");
    TCase *const tests = add_case(made, "interleavings_failures");
    tcase_add_loop_test(tests, a_failed_call_takes_nothing_from_others, 0, 2);
    tcase_add_loop_test(tests, a_failed_call_keeps_the_contents_of_others, 0, 3 * BRINGERS);
    tcase_add_loop_test(tests, a_turn_goes_on_after_a_failed_call, 0, 3);
    tcase_add_loop_test(tests, a_turn_ends_in_spite_of_a_failed_call, 0, 2);
    return made;
}
