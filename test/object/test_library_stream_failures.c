/*
 * Checks transfers on the library's stream, and the question whether they have arrived, while each call of the runtime
 * fails once: the heads are as before, no contents are lost, and the same call succeeds when it is repeated.
 */
#include "staged_kit.h"

#include "break_device.h"
#include "failing_calls.h"

#include <string.h>

enum { MANY = 3 };

static synced_mem_status move(synced_mem *const *mems, size_t count, bool push)
{
    if (count == 1)
        return push ? synced_mem_async_gpu_push(mems[0], SYNCED_MEM_STREAM_LIBRARY)
                    : synced_mem_async_cpu_pull(mems[0], SYNCED_MEM_STREAM_LIBRARY);
    return push ? synced_mem_async_gpu_push_n(mems, count, SYNCED_MEM_STREAM_LIBRARY)
                : synced_mem_async_cpu_pull_n(mems, count, SYNCED_MEM_STREAM_LIBRARY);
}

static synced_mem *make_filled(bool push, unsigned pattern, synced_mem_stream stream)
{
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, push ? pattern : 0);
    if (!push)
        gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, stream)), SIZE, pattern, stream);
    return mem;
}

static void fail_once(size_t count, bool push, struct failing *failing)
{
    synced_mem *mems[MANY];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    const synced_mem_head_kind before = push ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU;
    for (size_t i = 0; i < count; i++)
        mems[i] = make_filled(push, 1 + (unsigned)i, stream);
    begin_failing(failing);
    const synced_mem_status status = move(mems, count, push);
    ck_assert(end_failing(failing) || status == SYNCED_MEM_OK);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(synced_mem_head(mems[i]), status == SYNCED_MEM_OK ? SYNCED_MEM_SYNCED : before);
    if (status != SYNCED_MEM_OK && failing->nth % 2)
        OK(move(mems, count, push));
    for (size_t i = 0; i < count; i++) {
        ck_assert(host_is(given(synced_mem_cpu_data(mems[i])), SIZE, 1 + (unsigned)i));
        ck_assert(device_is(given(synced_mem_gpu_data(mems[i])), SIZE, 1 + (unsigned)i));
    }
    release_all(mems, count);
    close_stream(stream);
}

START_TEST(each_call_fails)
{
    const struct failing kinds[] = {each_call("*", cudaErrorUnknown), each_call("*", cudaErrorMemoryAllocation)};
    for (int kind = 0; kind < 2; kind++) {
        struct failing failing = kinds[kind];
        while (next_failure(&failing))
            fail_once(_i / 2 ? MANY : 1, _i % 2, &failing);
        ck_assert_uint_gt(failing.nth, 1);
    }
}
END_TEST

/* A staged pull fails after the call: the question returns the reason, once. */
START_TEST(a_staged_pull_fails)
{
    stage(1 + (unsigned)_i);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = memory();
    synced_mem *const mem = make_written_on(mine, 3, stream);
    int arrived = -1;
    gpu_hold(stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_cpu_pull(mem, SYNCED_MEM_STREAM_LIBRARY));
    OK(synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_CPU, &arrived));
    ck_assert_int_eq(arrived, 0);
    gpu_unhold();
    synced_mem_status status = SYNCED_MEM_OK;
    while (status == SYNCED_MEM_OK && arrived == 0)
        status = synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_CPU, &arrived);
    ck_assert_int_eq(status, SYNCED_MEM_ERR_CUDA);
    ck_assert_int_eq(arrived, 0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    OK(synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_CPU, &arrived));
    ck_assert_int_eq(arrived, 0);
    emu_fail_clear();
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 3));
    OK(synced_mem_release(mem));
    free(mine);
    close_stream(stream);
}
END_TEST

START_TEST(a_lost_device)
{
    leaves_memory = true;
    synced_mem *const mem = make_filled(true, 4, NULL);
    int arrived = -1;
    OK(synced_mem_async_gpu_push(mem, SYNCED_MEM_STREAM_LIBRARY));
    break_device();
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_GPU, &arrived));
    ck_assert_int_eq(arrived, -1);
    ck_assert(pattern_is(given(synced_mem_cpu_data(mem)), SIZE, 4));
    (void)synced_mem_release(mem);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("library_stream_failures");
    TCase *const failures = add_case(made, "failures");
    tcase_add_loop_test(failures, each_call_fails, 0, 4);
    tcase_add_loop_test(failures, a_staged_pull_fails, 0, 2);
    TCase *const lost = add_case_without_end(made, "lost");
    tcase_add_test(lost, a_lost_device);
    return made;
}
