/* Checks that an error's detail is that of the call that failed first, where several calls fail. */
#include "fixture.h"

#include "cudart_emu.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { SIZE = 5000 };

/* A wait fails, and so does the call that restores the order of the open write. The detail is that of the wait. */
START_TEST(the_detail_is_not_of_the_clean_up)
{
    static const char *const calls[] = {"cudaStreamIsCapturing", "cudaStreamWaitEvent"};
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    emu_fail(calls[_i], 2, cudaErrorInvalidResourceHandle, false);
    const unsigned before = emu_failures();
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    ck_assert_uint_eq(emu_failures(), before + 2);
    SAYS("cudaEventSynchronize");
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

/* Several of the shutdown's calls of a kind fail. The detail is that of the first. */
START_TEST(the_detail_is_of_the_first_of_several_failures)
{
    static const char *const calls[] = {"cudaStreamDestroy", "cudaEventDestroy", "cudaMemPoolDestroy",
                                        "cudaHostUnregister"};
    synced_mem *mems[2];
    for (int device = 0; device < 2; device++) {
        mems[device] = make_on(64 << 20, device); /* needs a segment of its own */
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mems[device]));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mems[device]));
    }
    for (int device = 0; device < 2; device++)
        OK(synced_mem_release(mems[device]));
    emu_fail(calls[_i], 1, cudaErrorUnknown, false);
    emu_fail(calls[_i], 2, cudaErrorInvalidResourceHandle, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_shutdown());
    ck_assert_uint_eq(emu_failures(), 2);
    SAYS("cudaErrorUnknown");
    OK(synced_mem_shutdown());
}
END_TEST

/* The shutdown's waits for two pieces of released memory fail. The detail is that of the first. */
START_TEST(the_detail_is_of_the_first_wait)
{
    synced_mem_stream streams[2];
    for (int i = 0; i < 2; i++) {
        synced_mem *const mem = make_on(SIZE, 0);
        streams[i] = gpu_stream_create(0, false);
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
        gpu_delay(streams[i]);
        OK(synced_mem_async_gpu_push(mem, streams[i]));
        OK(synced_mem_release(mem));
    }
    const bool pending = stats_now().retired == 2;
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    emu_fail("cudaEventSynchronize", 2, cudaErrorInvalidResourceHandle, false);
    const synced_mem_status status = synced_mem_shutdown();
    if (pending && emu_failures() == 2) {
        ck_assert_int_eq(status, SYNCED_MEM_ERR_CUDA);
        SAYS("cudaErrorUnknown");
    }
    ck_assert(fixture_schedule() > 0 || emu_failures() == 2);
    emu_fail_clear();
    OK(synced_mem_shutdown());
    for (int i = 0; i < 2; i++) {
        gpu_stream_sync(streams[i]);
        gpu_stream_destroy(streams[i]);
    }
}
END_TEST

/* ---- Calls on two objects ---- */

struct two {
    synced_mem_stream stream;
    synced_mem *to[2], *from[2];
};

static synced_mem_status push(const struct two *two)
{
    return synced_mem_async_gpu_push_n(two->from, 2, two->stream);
}

static synced_mem_status copy(const struct two *two)
{
    return synced_mem_async_gpu_copy_n(two->to, two->from, 2, two->stream);
}

static synced_mem_status copy_on_host(const struct two *two)
{
    return synced_mem_cpu_copy_n(two->to, two->from, 2);
}

enum memory { LOCKED, PAGEABLE, ARRIVING };
enum { FAILED_CALLS = 3 };

/* Calls of the runtime that fail. The message has the code UNKNOWN, and names one of the objects, or none if it may be
 * because of any of them. Transfers of pageable memory are staged by the calling thread. */
static const struct {
    synced_mem_status (*call)(const struct two *two);
    const char *named;
    enum memory sources;
    struct {
        const char *call;
        unsigned nth;
        cudaError_t code;
    } fails[FAILED_CALLS];
} twos[] = {
    {copy,
     "'to 0'",
     PAGEABLE,
     {{"cudaMemcpyAsync", 1, cudaErrorUnknown}, {"cudaMemcpyAsync", 2, cudaErrorInvalidResourceHandle}}},
    {copy, "'to 1'", PAGEABLE, {{"cudaMemcpyAsync", 2, cudaErrorUnknown}}},
    {copy, "'to 0'", LOCKED, {{"cudaMemcpyAsync", 1, cudaErrorUnknown}}},
    {copy,
     "'to 1'",
     LOCKED,
     {{"cudaMemcpyAsync", 2, cudaErrorUnknown},
      {"cudaEventRecord", 1, cudaErrorInvalidResourceHandle},
      {"cudaStreamSynchronize", 1, cudaErrorInvalidResourceHandle}}},
    {copy_on_host, NULL, ARRIVING, {{"cudaEventSynchronize", 1, cudaErrorUnknown}}},
    {push,
     NULL,
     LOCKED,
     {{"cudaEventRecord", 1, cudaErrorInvalidResourceHandle}, {"cudaStreamSynchronize", 1, cudaErrorUnknown}}},
    {push,
     NULL,
     PAGEABLE,
     {{"cudaMemcpyAsync", 1, cudaErrorUnknown}, {"cudaMemcpyAsync", 2, cudaErrorInvalidResourceHandle}}},
};
enum { TWOS = sizeof twos / sizeof twos[0] };

START_TEST(the_detail_is_of_the_first_of_two_objects)
{
    static _Alignas(4096) unsigned char mine[2][SIZE];
    static const char *const names[2][2] = {{"to 0", "to 1"}, {"from 0", "from 1"}};
    struct two two = {.stream = open_stream(NON_BLOCKING)};
    set_staging(0, 1);
    for (int i = 0; i < 2; i++) {
        two.to[i] = make_named_on(names[0][i], SIZE, 0);
        two.from[i] = make_named_on(names[1][i], SIZE, 0);
        (void)given(synced_mem_overwrite_gpu_data_on(two.to[i], two.stream));
        host_fill(given(synced_mem_overwrite_cpu_data(two.to[i])), SIZE, 9);
        if (twos[_i].sources == PAGEABLE)
            OK(synced_mem_set_cpu_data(two.from[i], mine[i]));
        host_fill(given(synced_mem_overwrite_cpu_data(two.from[i])), SIZE, 1);
    }
    gpu_stream_sync(two.stream);
    if (twos[_i].sources == ARRIVING)
        gpu_hold(two.stream);
    for (int i = 0; i < 2 && twos[_i].sources == ARRIVING; i++) {
        gpu_fill(given(synced_mem_overwrite_gpu_data_on(two.from[i], two.stream)), SIZE, 1, two.stream);
        OK(synced_mem_async_cpu_pull(two.from[i], two.stream));
    }
    const unsigned before = emu_failures();
    for (unsigned i = 0; i < FAILED_CALLS && twos[_i].fails[i].call; i++)
        emu_fail(twos[_i].fails[i].call, twos[_i].fails[i].nth, twos[_i].fails[i].code, false);
    FAILS(SYNCED_MEM_ERR_CUDA, twos[_i].call(&two));
    unsigned expected = 0;
    while (expected < FAILED_CALLS && twos[_i].fails[expected].call)
        expected++;
    ck_assert_uint_eq(emu_failures(), before + expected);
    SAYS("cudaErrorUnknown");
    if (twos[_i].named)
        SAYS(twos[_i].named);
    else
        ck_assert_ptr_null(strstr(synced_mem_last_error_message(), " of '"));
    if (twos[_i].sources == ARRIVING)
        gpu_unhold();
    gpu_stream_sync(two.stream);
    for (int i = 0; i < 2; i++) {
        ck_assert(host_is(given(synced_mem_cpu_data(two.from[i])), SIZE, 1));
        OK(synced_mem_release(two.from[i]));
        OK(synced_mem_release(two.to[i]));
    }
    close_stream(two.stream);
    emu_reset(0); /* the end of some transfers is unknown */
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("first failure");
    TCase *const tests = add_case(made, "first failure");
    tcase_add_test(tests, the_detail_is_of_the_first_wait);
    add_divided_test(tests, the_detail_is_not_of_the_clean_up, 0, 2);
    add_divided_test(tests, the_detail_is_of_the_first_of_several_failures, 0, 4);
    TCase *const lost = add_case_without_end(made, "two objects");
    tcase_add_loop_test(lost, the_detail_is_of_the_first_of_two_objects, 0, TWOS);
    return made;
}
