/* Checks that an error's detail is that of the call that failed first, where several calls fail. */
#include "fixture.h"

#include "cudart_emu.h"

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

Suite *suite(void)
{
    Suite *const made = suite_create("first failure");
    TCase *const tests = add_case(made, "first failure");
    tcase_add_test(tests, the_detail_is_of_the_first_wait);
    add_divided_test(tests, the_detail_is_not_of_the_clean_up, 0, 2);
    add_divided_test(tests, the_detail_is_of_the_first_of_several_failures, 0, 4);
    return made;
}
