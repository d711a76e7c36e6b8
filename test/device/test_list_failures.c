/* Checks devices whose kernels do not run lists, and failures of loading and of launches. */
#include "failing_calls.h"
#include "fixture.h"

#include "device/device.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned await_processors(int device)
{
    (void)sm_device_list_processors(device);
    sm_device_await_lists();
    return sm_device_list_processors(device);
}

START_TEST(other_devices)
{
    static const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } others[] = {{cudaDevAttrUnifiedAddressing, 0},
                  {cudaDevAttrIntegrated, 1},
                  {cudaDevAttrPageableMemoryAccessUsesHostPageTables, 1},
                  {cudaDevAttrHostRegisterSupported, 0},
                  {cudaDevAttrCanUseHostPointerForRegisteredMem, 0},
                  {cudaDevAttrMultiProcessorCount, 0}};
    OK(sm_device_resolve(0, &(int){0}));
    emu_set_attribute(1, others[_i].attribute, others[_i].value);
    ck_assert_uint_eq(await_processors(1), 0);
    ck_assert_uint_gt(await_processors(0), 0);
    ck_assert_uint_eq(await_processors(1), 0);
}
END_TEST

START_TEST(old_driver)
{
    OK(sm_device_resolve(0, &(int){0}));
    emu_set_driver_version(11080);
    ck_assert_uint_eq(await_processors(0), 0);
}
END_TEST

/* After any failure of loading the device has none, and another one may. */
START_TEST(loading_fails)
{
    static const struct {
        const char *call;
        unsigned nth;
    } rows[] = {{"cudaDeviceGetAttribute", 1}, {"cudaRuntimeGetVersion", 1}, {"cudaDeviceGetStreamPriorityRange", 1},
                {"cudaLibraryLoadData", 1},    {"cudaLibraryGetKernel", 1},  {"cudaLibraryGetKernel", 2},
                {"cudaFuncGetAttributes", 1},  {"cudaFuncGetAttributes", 2}, {"cudaHostAlloc", 1}};
    OK(sm_device_resolve(0, &(int){0}));
    emu_fail(rows[_i].call, rows[_i].nth, cudaErrorUnknown, false);
    ck_assert_uint_eq(await_processors(0), 0);
    ck_assert_uint_eq(await_processors(0), 0);
    ck_assert_uint_gt(await_processors(1), 0);
}
END_TEST

/* The thread that loads cannot stay on the device. It loads all the same, since each call enters the device. */
START_TEST(no_stay)
{
    OK(sm_device_resolve(0, &(int){0}));
    emu_fail("cudaSetDevice", 1, cudaErrorUnknown, false);
    ck_assert_uint_gt(await_processors(0), 0);
    ck_assert_uint_eq(emu_failures(), 1);
}
END_TEST

/* A forked child has no kernel, as it has no device. The thread that has loaded it may be about to end, with a lock of
 * the sanitizer's that the child would wait for. */
START_TEST(forked_child)
{
    int status = -1;
    OK(sm_device_resolve(0, &(int){0}));
    ck_assert_uint_gt(await_processors(0), 0);
    let_others_sleep();
    const pid_t child = fork();
    if (child == 0)
        exit(sm_device_list_processors(0) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(unloading_fails)
{
    OK(sm_device_resolve(0, &(int){0}));
    ck_assert_uint_gt(await_processors(0), 0);
    emu_fail("cudaLibraryUnload", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_shutdown());
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_live(EMU_LIBRARY), 0);
}
END_TEST

START_TEST(launch_fails)
{
    const struct sm_list_job job = {.value = -1};
    OK(sm_device_resolve(0, &(int){0}));
    ck_assert_uint_gt(await_processors(0), 0);
    emu_fail("cudaLaunchKernelExC", 1, cudaErrorLaunchOutOfResources, false);
    ck_assert_int_eq(sm_device_run_list(0, &job, 1, SM_HANDLE_PER_THREAD), SYNCED_MEM_ERR_CUDA);
    OK(sm_device_run_list(0, &job, 1, SM_HANDLE_PER_THREAD));
    OK(sm_device_stream_sync(0, SM_HANDLE_PER_THREAD));
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("list_failures");
    TCase *const failures = add_case(all, "failures");
    tcase_add_loop_test(failures, other_devices, 0, 6);
    tcase_add_loop_test(failures, loading_fails, 0, 9);
    add_tests(failures, no_stay, old_driver, forked_child, unloading_fails, launch_fails);
    return all;
}
