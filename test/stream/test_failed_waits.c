/* Checks waits that fail while the library's own work is in flight. The work still completes, so the head and the
 * contents stay as they were. The next call goes on where the failed one stopped. */
#include "failing_calls.h"

enum { SIZE = 5000, LARGE = 90000, LARGER = 400000 };

/* ---- One failure, at each call of the runtime ---- */

/* The work in flight when the failing call begins. */
enum under_way { ZEROS_BEHIND, LARGER_MEMORY, A_PULL, A_PUSH, UNDER_WAY };

static synced_mem_stream stream, another;

static void *device_to_write(synced_mem *mem)
{
    void *const data = synced_mem_overwrite_gpu_data_on(mem, another);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    return data;
}

static synced_mem *make_with(enum under_way what)
{
    synced_mem *const mem = make_on(what == ZEROS_BEHIND ? LARGE : SIZE, 0);
    switch (what) {
    case ZEROS_BEHIND: /* the copy had room for them before */
        (void)device_to_write(mem);
        OK(synced_mem_resize(mem, SIZE));
        gpu_fill(device_to_write(mem), SIZE, 1, another);
        OK(synced_mem_resize(mem, LARGE));
        break;
    case LARGER_MEMORY:
        gpu_fill(device_to_write(mem), SIZE, 1, another);
        OK(synced_mem_resize(mem, LARGE));
        break;
    case A_PULL:
        gpu_fill(device_to_write(mem), SIZE, 1, another);
        OK(synced_mem_async_cpu_pull(mem, stream));
        break;
    case A_PUSH:
    case UNDER_WAY:
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
        OK(synced_mem_async_gpu_push(mem, stream));
        break;
    }
    return mem;
}

enum asked {
    WAIT,
    QUERY,
    HOST_READ,
    HOST_WRITE,
    DEVICE_READ,
    DEVICE_WRITE,
    READ_ON,
    WRITE_ON,
    PUSH,
    PULL,
    GIVE_UP_HOST,
    GIVE_UP_DEVICE,
    GROW,
    ASKED
};

static bool ask(synced_mem *mem, enum asked asked)
{
    int pending;
    switch (asked) {
    case WAIT:
        return synced_mem_wait(mem) == SYNCED_MEM_OK;
    case QUERY:
        return synced_mem_query(mem, &pending) == SYNCED_MEM_OK;
    case HOST_READ:
        return synced_mem_cpu_data(mem) != NULL;
    case HOST_WRITE:
        return synced_mem_mutable_cpu_data(mem) != NULL;
    case DEVICE_READ:
        return synced_mem_gpu_data(mem) != NULL;
    case DEVICE_WRITE:
        return synced_mem_mutable_gpu_data(mem) != NULL;
    case READ_ON:
        return synced_mem_gpu_data_on(mem, another) != NULL;
    case WRITE_ON:
        return synced_mem_mutable_gpu_data_on(mem, another) != NULL;
    case PUSH:
        return synced_mem_async_gpu_push(mem, another) == SYNCED_MEM_OK;
    case PULL:
        return synced_mem_async_cpu_pull(mem, another) == SYNCED_MEM_OK;
    case GIVE_UP_HOST:
        return synced_mem_release_cpu_data(mem) == SYNCED_MEM_OK;
    case GIVE_UP_DEVICE:
        return synced_mem_release_gpu_data(mem) == SYNCED_MEM_OK;
    case GROW:
    case ASKED:
        break;
    }
    return synced_mem_resize(mem, LARGER) == SYNCED_MEM_OK;
}

/* Checks for the pattern, followed by zeros. */
static void check_contents(synced_mem *mem)
{
    const size_t size = synced_mem_size(mem);
    const char *const data = synced_mem_cpu_data(mem);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_note_host_read(data, size);
    ck_assert(pattern_is(data, SIZE, 1));
    ck_assert(pattern_is(data + SIZE, size - SIZE, 0));
}

/* Regression test: a failed wait declared contents lost that were still arriving, and the object became empty. */
START_TEST(contents_that_arrive_after_a_failure)
{
    const enum under_way what = (enum under_way)(_i / ASKED);
    const enum asked asked = (enum asked)(_i % ASKED);
    stream = open_stream(NON_BLOCKING);
    another = open_stream(NON_BLOCKING);
    for (struct failing it = each_call("*", cudaErrorUnknown); next_failure(&it);) {
        synced_mem *const mem = make_with(what);
        const struct facts facts = facts_of(mem);
        begin_failing(&it);
        const bool succeeded = ask(mem, asked);
        if (end_failing(&it) && !succeeded)
            ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_CUDA);
        if (!succeeded) {
            ck_assert_msg(synced_mem_head(mem) == facts.head, "call %u failed: head %d, not %d (%s)", it.nth,
                          synced_mem_head(mem), facts.head, synced_mem_last_error_message());
            ck_assert_uint_eq(synced_mem_size(mem), facts.size);
        }
        check_contents(mem);
        OK(synced_mem_release(mem));
    }
    CLOSE_EACH(stream, another);
}
END_TEST

/* A wait for the work of a resize fails. The contents are there at the second try. */
START_TEST(a_failed_wait_after_a_new_size)
{
    const bool room = _i / 2;
    synced_mem *const mem = make(room ? LARGE : SIZE);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    OK(synced_mem_resize(mem, SIZE));
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 1, NULL);
    OK(synced_mem_resize(mem, LARGE));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    if (_i % 2)
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(mem));
    else
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_wait(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    check_contents(mem);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    OK(synced_mem_release(mem));
}
END_TEST

/* A wait for a pull fails. The host copy arrives all the same, and no second transfer is needed. */
START_TEST(a_failed_wait_after_a_pull)
{
    synced_mem *const mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 1, NULL);
    OK(synced_mem_async_cpu_pull(mem, stream));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    if (_i == 0)
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    else
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_wait(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    check_contents(mem);
    ck_assert_uint_eq(stats_now().d2h_transfers, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- Two failures at once ---- */

/* The next call records an event behind untracked work. Such a call may conflict with nothing. It does not end the use
 * of a stream that was given the pointer before. */
START_TEST(a_reader_is_waited_for_after_two_failures)
{
    synced_mem_stream streams[4];
    for (int i = 0; i < 4; i++)
        streams[i] = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make(LARGE);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, streams[0]), LARGE, 1, streams[0]);
    OK(synced_mem_resize(mem, SIZE));
    const void *const read = synced_mem_gpu_data_on(mem, streams[1]);
    emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_resize(mem, LARGE));
    emu_fail_clear();
    switch (_i) {
    case 0:
        ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, streams[2]), read);
        break;
    case 1:
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
        break;
    case 2:
        OK(synced_mem_async_cpu_pull(mem, streams[2]));
        break;
    }
    gpu_delay(streams[1]);
    gpu_copy(seen, read, SIZE, streams[1]);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, streams[3]), SIZE, 2, streams[3]);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    for (int i = 0; i < 4; i++)
        close_stream(streams[i]);
    gpu_free(seen);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("failed_waits");
    TCase *const one = add_case(made, "one");
    tcase_add_loop_test(one, contents_that_arrive_after_a_failure, 0, UNDER_WAY * ASKED);
    tcase_add_loop_test(one, a_failed_wait_after_a_new_size, 0, 4);
    tcase_add_loop_test(one, a_failed_wait_after_a_pull, 0, 2);
    tcase_add_loop_test(add_case(made, "two"), a_reader_is_waited_for_after_two_failures, 0, 3);
    return made;
}
