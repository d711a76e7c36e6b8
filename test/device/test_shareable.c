/* Checks the seam's memory that processes share, on the emulated runtime: failures of each call, and bad files. */
#include "failing_calls.h"
#include "leftovers.h"

#include "device/device.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 3 << 20, GRANULARITY = 2 << 20, ALIGNMENT = 2 << 20 };

START_TEST(memory_is_shared)
{
    struct sm_device_shareable made;
    void *other;
    OK(sm_device_share(1, SIZE, ALIGNMENT, &made));
    ck_assert_uint_eq(made.bytes, 2 * GRANULARITY);
    ck_assert_int_eq(fcntl(made.file, F_GETFD), FD_CLOEXEC);
    ck_assert_uint_eq((uintptr_t)made.data % ALIGNMENT, 0);
    OK(sm_device_import(1, made.file, made.bytes, ALIGNMENT, &other));
    ck_assert_ptr_ne(other, made.data);
    gpu_make_current(1);
    gpu_fill(made.data, SIZE, 1, NULL);
    ck_assert(device_is(other, SIZE, 1));
    OK(sm_device_unmap(1, made.data, made.bytes));
    ck_assert(device_is(other, SIZE, 1));
    OK(sm_device_unmap(1, other, made.bytes));
    (void)close(made.file);
    OK(sm_device_share(0, 0, 1, &made));
    ck_assert_uint_eq(made.bytes, GRANULARITY);
    OK(sm_device_unmap(0, made.data, made.bytes));
    (void)close(made.file);
}
END_TEST

START_TEST(each_device_has_a_uuid)
{
    unsigned char uuids[4][SM_DEVICE_UUID_BYTES];
    for (int i = 0; i < devices(); i++)
        OK(sm_device_uuid(i, uuids[i]));
    for (int i = 1; i < devices(); i++)
        ck_assert_int_ne(memcmp(uuids[i], uuids[0], SM_DEVICE_UUID_BYTES), 0);
    FAILS_WITHOUT_GPU(sm_device_uuid(0, uuids[0]));
    ck_assert_int_eq(sm_device_uuid(77, uuids[0]), SYNCED_MEM_ERR_INVALID_DEVICE);
}
END_TEST

/* Makes, imports and unmaps. Returns whether all succeeded. */
static bool share_and_import(void)
{
    struct sm_device_shareable made;
    unsigned char uuid[SM_DEVICE_UUID_BYTES];
    void *other;
    if (sm_device_uuid(0, uuid) != SYNCED_MEM_OK || sm_device_share(0, SIZE, 1, &made) != SYNCED_MEM_OK)
        return false;
    bool well = sm_device_import(0, made.file, made.bytes, 1, &other) == SYNCED_MEM_OK;
    if (well)
        well = sm_device_unmap(0, other, made.bytes) == SYNCED_MEM_OK;
    well = sm_device_unmap(0, made.data, made.bytes) == SYNCED_MEM_OK && well;
    (void)close(made.file);
    return well;
}

START_TEST(each_call_fails)
{
    const cudaError_t codes[] = {cudaErrorUnknown, cudaErrorMemoryAllocation};
    struct failing it = each_call("*", codes[_i]);
    ck_assert(share_and_import());
    while (next_failure(&it)) {
        const int before = count_open_descriptors();
        begin_failing(&it);
        const bool well = share_and_import();
        ck_assert(end_failing(&it) || well);
        ck_assert_uint_eq(emu_live(EMU_MEMORY_HANDLE) + emu_live(EMU_ADDRESS_RANGE), 0);
        ck_assert_uint_eq(emu_live(EMU_DEVICE_MEMORY), 0);
        ck_assert_int_eq(count_open_descriptors(), before);
    }
    ck_assert_uint_gt(it.nth, 29);
}
END_TEST

/* The memory can be neither used nor unmapped, as on a lost device. So it stays, with its address: the emulated runtime
 * would report that an address with memory is freed. */
START_TEST(a_mapping_that_stays)
{
    struct sm_device_shareable made;
    emu_fail("cuMemSetAccess", 1, cudaErrorLaunchFailure, _i == 0);
    emu_fail("cuMemUnmap", 1, cudaErrorUnknown, false);
    emu_fail("cuMemUnmap", 2, cudaErrorUnknown, false);
    ck_assert_int_ne(sm_device_share(0, SIZE, 1, &made), SYNCED_MEM_OK);
    ck_assert_uint_eq(emu_live(EMU_ADDRESS_RANGE), 1);
    ck_assert_uint_eq(emu_live(EMU_DEVICE_MEMORY), 1);
}
END_TEST

/* The call that looks up the driver's functions fails. No file is to blame. */
START_TEST(failures_before_an_import)
{
    struct sm_device_shareable made;
    void *other;
    OK(sm_device_share(0, SIZE, 1, &made));
    emu_fail("cudaGetDriverEntryPoint", 1, cudaErrorUnknown, false);
    emu_fail("cudaGetDriverEntryPointByVersion", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_device_import(0, made.file, made.bytes, 1, &other), SYNCED_MEM_ERR_CUDA);
    emu_fail_clear();
    emu_fail("cuMemImportFromShareableHandle", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_device_import(0, made.file, made.bytes, 1, &other), SYNCED_MEM_ERR_PEER);
    emu_fail_clear();
    OK(sm_device_unmap(0, made.data, made.bytes));
    (void)close(made.file);
}
END_TEST

START_TEST(bad_files)
{
    struct sm_device_shareable elsewhere;
    void *data = &elsewhere;
    int ends[2];
    OK(sm_device_share(1, SIZE, 1, &elsewhere));
    ck_assert_int_eq(pipe(ends), 0);
    const int files[] = {ends[0], open("/dev/zero", O_RDWR), memfd_create("test", 0), elsewhere.file, -1};
    ck_assert_int_eq(ftruncate(files[2], 2 * GRANULARITY), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ck_assert_int_eq(sm_device_import(0, files[i], elsewhere.bytes, 1, &data), SYNCED_MEM_ERR_PEER);
        ck_assert_ptr_eq(data, &elsewhere);
    }
    ck_assert_int_eq(sm_device_import(1, elsewhere.file, 2 * elsewhere.bytes, 1, &data), SYNCED_MEM_ERR_PEER);
    for (int i = 0; i < 3; i++)
        (void)close(files[i]);
    (void)close(ends[1]);
    (void)close(elsewhere.file);
    OK(sm_device_unmap(1, elsewhere.data, elsewhere.bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("shareable");
    TCase *const cases = add_case(suite, "shareable");
    add_tests(cases, memory_is_shared, each_device_has_a_uuid, failures_before_an_import, bad_files);
    add_divided_test(cases, each_call_fails, 0, 2);
    tcase_add_loop_test(add_case_without_end(suite, "lost"), a_mapping_that_stays, 0, 2);
    return suite;
}
