/* Checks a library with CUDA on machines that lack something: a driver, a device, memory pools or memory. */
#include "cpu_only.h"

#include "cudart_emu.h"
#include "stream/stream.h"

#include <stdlib.h>

enum { SIZE = 5000, BIG = 8 << 20 };

/* ---- No GPU to use ---- */

START_TEST(no_gpu)
{
    static const enum emu_machine machines[] = {EMU_NO_DRIVER, EMU_NO_DEVICE, EMU_OLD_DRIVER};
    if (_i < 3)
        emu_set_machine(machines[_i]);
    else
        emu_set_device_count(0);
    ck_assert_int_eq(synced_mem_device_count(), 0);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_OK);
    check_cpu_only(SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_ERR_NO_GPU);
    check_cpu_only(0, SYNCED_MEM_ERR_NO_GPU);
    check_cpu_only(3, SYNCED_MEM_ERR_NO_GPU);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
    SAYS("synced_mem_gpu_data: no GPU: ");
    if (_i < 3 && machines[_i] == EMU_NO_DRIVER)
        SAYS("(the driver is missing, or older than the CUDA runtime)");
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(emu_calls("cudaHostRegister") + emu_calls("cudaMalloc") + emu_calls("cudaStreamCreateWithFlags"),
                      0);
}
END_TEST

/* With one device, every call of the runtime is made there. */
START_TEST(one_device)
{
    emu_set_device_count(1);
    ck_assert_int_eq(synced_mem_device_count(), 1);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* At the end of the process, or in a forked child, every call of the runtime fails. */
START_TEST(no_runtime)
{
    const synced_mem_status expected = _i == 0 ? SYNCED_MEM_ERR_DEVICE_LOST : SYNCED_MEM_ERR_CUDA;
    emu_set_machine(_i == 0 ? EMU_UNLOADING : EMU_FORKED);
    ck_assert_int_eq(synced_mem_device_count(), 0);
    check_cpu_only(SYNCED_MEM_DEVICE_CURRENT, expected);
    check_cpu_only(0, expected);
}
END_TEST

/* The runtime is unloaded while objects are in use. Host contents stay, and every release succeeds. */
START_TEST(unloaded_in_use)
{
    synced_mem *const synced = make_at_cpu(SIZE, 1);
    synced_mem *const host = make_at_cpu(SIZE, 2);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(synced));
    synced_mem *const device = make_at_gpu(SIZE, 3);
    emu_set_machine(EMU_UNLOADING);
    ck_assert(host_is(synced_mem_cpu_data(synced), SIZE, 1));
    ck_assert(host_is(synced_mem_mutable_cpu_data(host), SIZE, 2));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(device));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(host));
    ck_assert_int_eq(synced_mem_head(device), SYNCED_MEM_AT_GPU);
    RELEASE_EACH(device, host, synced);
    (void)synced_mem_shutdown();
    ck_assert_uint_eq(stats_now().pageable_bytes, 0);
    ck_assert_uint_eq(stats_now().retired, 0);
    emu_reset(0);
}
END_TEST

/* The absence of a device is not cached: the next call queries the runtime again. */
START_TEST(a_driver_comes)
{
    emu_set_machine(EMU_NO_DRIVER);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
    emu_set_machine(EMU_PRESENT);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- No pools ---- */

static void round_trip(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release_gpu_data(mem));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
    OK(synced_mem_async_gpu_push(mem, NULL));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
    synced_mem *const zeros = make(SIZE);
    ck_assert(device_is(synced_mem_gpu_data(zeros), SIZE, 0));
    OK(synced_mem_release(zeros));
}

START_TEST(pools)
{
    round_trip();
    ck_assert_uint_eq(emu_calls("cudaMalloc"), 0);
    ck_assert_uint_eq(emu_calls("cudaMemPoolCreate"), 1);
}
END_TEST

START_TEST(no_pools)
{
    keep_no_spares();
    emu_set_pools_supported(0, false);
    round_trip();
    ck_assert_uint_gt(emu_calls("cudaMalloc"), 0);
    ck_assert_uint_eq(emu_calls("cudaMalloc"), emu_calls("cudaFree"));
    ck_assert_uint_eq(
        emu_calls("cudaMallocFromPoolAsync") + emu_calls("cudaFreeAsync") + emu_calls("cudaMemPoolCreate"), 0);
}
END_TEST

/* A driver that is older than pools has no attribute for them either. The library does not query the attribute. */
START_TEST(driver_before_pools)
{
    emu_set_driver_version(11010);
    round_trip();
    ck_assert_uint_gt(emu_calls("cudaMalloc"), 0);
    ck_assert_uint_eq(emu_calls("cudaDeviceGetAttribute"), 0);
    ck_assert_uint_eq(
        emu_calls("cudaMallocFromPoolAsync") + emu_calls("cudaFreeAsync") + emu_calls("cudaMemPoolCreate"), 0);
}
END_TEST

/* Support for pools is queried for each device. */
START_TEST(pools_on_one_of_two)
{
    emu_set_pools_supported(1, false);
    for (int device = 0; device < 2; device++) {
        synced_mem *const mem = make_on(SIZE, device);
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(emu_calls("cudaMalloc"), 1);
    ck_assert_uint_eq(emu_calls("cudaMallocFromPoolAsync"), 1);
}
END_TEST

/* ---- Out of memory ---- */

START_TEST(out_of_device_memory)
{
    synced_mem *const mem = make_at_cpu(BIG, 1);
    if (_i > 0)
        emu_set_pools_supported(0, false);
    emu_set_device_memory(0, 1 << 20);
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    SAYS("8388608 bytes");
    SAYS("cudaErrorMemoryAllocation");
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_mutable_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_async_gpu_push(mem, NULL));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_release_cpu_data(mem));
    check_unchanged(mem, &before);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    emu_set_device_memory(0, 1 << 30);
    ck_assert(device_is(synced_mem_gpu_data(mem), BIG, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(out_of_pinned_memory)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    emu_set_pinned_memory(100);
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
    SAYS("cudaHostRegister");
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_release_gpu_data(mem));
    check_unchanged(mem, &before);
    emu_set_pinned_memory(1 << 20);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Error codes of the runtime ---- */

static const struct {
    cudaError_t code;
    synced_mem_status status;
} codes[] = {
    {cudaErrorMemoryAllocation, SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY},
    {cudaErrorInsufficientDriver, SYNCED_MEM_ERR_NO_GPU},
    {cudaErrorCallRequiresNewerDriver, SYNCED_MEM_ERR_NO_GPU},
    {cudaErrorNoDevice, SYNCED_MEM_ERR_NO_GPU},
    {cudaErrorInvalidDevice, SYNCED_MEM_ERR_INVALID_DEVICE},
    {cudaErrorCudartUnloading, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorIllegalAddress, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorLaunchTimeout, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorAssert, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorHardwareStackError, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorIllegalInstruction, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorMisalignedAddress, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorInvalidAddressSpace, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorInvalidPc, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorLaunchFailure, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorECCUncorrectable, SYNCED_MEM_ERR_DEVICE_LOST},
    {cudaErrorInvalidValue, SYNCED_MEM_ERR_CUDA},
    {cudaErrorUnknown, SYNCED_MEM_ERR_CUDA},
};

START_TEST(code)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    emu_fail("cudaMemcpyAsync", 1, codes[_i].code, false);
    FAILS_NULL(codes[_i].status, synced_mem_gpu_data(mem));
    SAYS("cudaMemcpyAsync of 5000 bytes on device 0");
    SAYS(cudaGetErrorName(codes[_i].code));
    SAYS(cudaGetErrorString(codes[_i].code));
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* A failed push leaves device memory. The next use of the memory, on another stream, comes after its allocation. */
START_TEST(memory_of_a_failed_push)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem_stream stream = gpu_stream_create(0, false);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_DEVICE);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert_uint_eq(stats_now().gpu_allocations, 1);
    OK(synced_mem_release(mem));
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

/* A pointer that was handed out stays valid after a failed call: later transfers still wait for its kernels. */
START_TEST(pointers_after_a_failed_push)
{
    static const char *const calls[] = {"cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord"};
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem_stream stream = gpu_stream_create(0, false);
    void *const seen = gpu_alloc(0, SIZE);
    const void *const data = synced_mem_gpu_data(mem);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    emu_fail(calls[_i], 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(mem, stream));
    gpu_copy(seen, data, SIZE, NULL);
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_stream_sync(stream);
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_stream_destroy(stream);
    gpu_free(seen);
}
END_TEST

/* Page-locked memory is an optimization. Pageable memory replaces it if page-locking fails for any reason but too
 * little memory. */
START_TEST(no_page_locking)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    emu_fail("cudaHostRegister", 1, _i == 0 ? cudaErrorNotSupported : cudaErrorUnknown, false);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_eq(stats_now().pageable_fallbacks, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Calls that are not made ---- */

static void add_up(const char *call, unsigned count, void *sum)
{
    (void)call;
    *(unsigned *)sum += count;
}

/* Nothing about the machine is queried before a device is needed. */
START_TEST(nothing_is_started)
{
    synced_mem *mem = NULL;
    OK(synced_mem_create(&mem, SIZE, NULL));
    OK(synced_mem_retain(mem));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(synced_mem_device(mem), SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_release(mem));
    unsigned calls = 0;
    emu_each_call(add_up, &calls);
    ck_assert_uint_eq(calls, 0);
}
END_TEST

START_TEST(no_context_without_need)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(synced_mem_device_count(), 4);
    for (int device = 0; device < 4; device++)
        ck_assert(!emu_has_context(device));
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    for (int device = 0; device < 4; device++)
        ck_assert(!emu_has_context(device));
}
END_TEST

/* An object of the current device starts no other device's context. */
START_TEST(no_stray_contexts)
{
    gpu_make_current(2);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    for (int device = 0; device < 4; device++)
        ck_assert_int_eq(emu_has_context(device), device == 2);
}
END_TEST

/* The library's internal streams and the legacy stream do not wait for each other. */
START_TEST(lanes_do_not_block)
{
    struct sm_stream *internal = NULL;
    unsigned flags = 0;
    for (int i = 0; i < SM_INTERNALS; i++) {
        OK(sm_internal_stream(0, (enum sm_internal)i, &internal));
        ck_assert_int_eq(cudaStreamGetFlags(internal->handle, &flags), cudaSuccess);
        ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    }
}
END_TEST

/* An error of the caller's own work stays the runtime's last error. The library neither clears it nor reports it. */
START_TEST(errors_of_the_caller)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(cudaSetDevice(77), cudaErrorInvalidDevice);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    OK(synced_mem_release(mem));
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidDevice);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("absent");
    TCase *const absent = add_case(made, "absent");
    tcase_add_test(absent, a_driver_comes);
    tcase_add_loop_test(absent, no_gpu, 0, 4);
    tcase_add_test(absent, one_device);
    tcase_add_loop_test(absent, no_runtime, 0, 2);
    tcase_add_test(add_case_without_end(made, "unloading"), unloaded_in_use);
    TCase *const no_pool = add_case(made, "pools");
    add_tests(no_pool, pools, no_pools, driver_before_pools, pools_on_one_of_two);
    TCase *const memory = add_case(made, "memory");
    add_tests(memory, out_of_pinned_memory, memory_of_a_failed_push);
    tcase_add_loop_test(memory, out_of_device_memory, 0, 2);
    tcase_add_loop_test(memory, code, 0, sizeof codes / sizeof codes[0]);
    tcase_add_loop_test(memory, pointers_after_a_failed_push, 0, 3);
    tcase_add_loop_test(memory, no_page_locking, 0, 2);
    TCase *const quiet = add_case(made, "quiet");
    add_tests(quiet, nothing_is_started, no_context_without_need, no_stray_contexts, lanes_do_not_block,
              errors_of_the_caller);
    return made;
}
