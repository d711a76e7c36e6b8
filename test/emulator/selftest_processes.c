/*
 * The driver's memory between processes, and its failures. The processes are forked and begin anew with emu_reset(), or
 * run this program again.
 */
#include "selftest_mappings.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Helpers ---- */

static int exported(CUmemGenericAllocationHandle handle)
{
    int file = -1;
    FINE(cu.cuMemExportToShareableHandle(&file, handle, FD_TYPE, 0));
    CHECK(file >= 0);
    return file;
}

static void *os_handle(int file)
{
    return (void *)(intptr_t)file;
}

static CUmemGenericAllocationHandle imported(int file)
{
    CUmemGenericAllocationHandle handle = 0;
    FINE(cu.cuMemImportFromShareableHandle(&handle, os_handle(file), FD_TYPE));
    CHECK(handle != 0);
    return handle;
}

/* Begins a new process. Returns as fork() does. */
static pid_t start_process(void)
{
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(200);
        emu_reset(seed);
    }
    return child;
}

/* Checks the exit status, or minus the signal that ended the process. */
static void expect_end(pid_t child, int end)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)) == end);
}

static void fill(unsigned char *memory, int value, size_t size)
{
    OK(cudaMemset(memory, value, size));
    OK(cudaDeviceSynchronize());
}

/* ---- One process ---- */

static void test_imported_twice(void)
{
    const size_t before = available(2);
    const CUmemGenericAllocationHandle handle = created(2, UNIT, true);
    const int file = exported(handle), again = exported(handle);
    CHECK(file != again);
    const CUmemGenericAllocationHandle first = imported(file), second = imported(again);
    int none = -1;
    close(file);
    close(again);
    /* Only the handle that created the memory exports it. */
    IS(cu.cuMemExportToShareableHandle(&none, first, FD_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(none == -1);
    close(exported(handle));
    CHECK(first != second && available(2) == before - UNIT);
    unsigned char *const one = mapped(first, UNIT, 2), *const two = mapped(second, UNIT, 2);
    CHECK(one != two);
    OK(cudaSetDevice(2));
    fill(one, 6, UNIT);
    CHECK(peek(two + UNIT - 1) == 6);
    FINE(cu.cuMemRelease(handle));
    FINE(cu.cuMemRelease(first));
    unmap(one, UNIT);
    IS(cu.cuMemExportToShareableHandle(&none, second, FD_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    FINE(cu.cuMemRelease(second));
    CHECK(available(2) == before - UNIT && peek(two) == 6);
    unmap(two, UNIT);
    CHECK(available(2) == before && emu_live(EMU_MEMORY_HANDLE) == 0 && emu_live(EMU_ADDRESS_RANGE) == 0);
}

static void test_bad_exports(void)
{
    char text[] = "/tmp/selftest_XXXXXX";
    const CUmemGenericAllocationHandle handle = created(0, UNIT, true), closed = created(0, UNIT, false);
    CUmemGenericAllocationHandle other;
    int file = -1;
    IS(cu.cuMemExportToShareableHandle(&file, closed, FD_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_WIN32, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemExportToShareableHandle(&file, handle, FD_TYPE, 1), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemExportToShareableHandle(NULL, handle, FD_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemExportToShareableHandle(&file, 0, FD_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(file == -1);
    IS(cu.cuMemImportFromShareableHandle(&other, os_handle(-1), FD_TYPE), CUDA_ERROR_INVALID_VALUE);
    file = mkstemp(text);
    CHECK(file >= 0 && unlink(text) == 0);
    IS(cu.cuMemImportFromShareableHandle(&other, os_handle(file), FD_TYPE), CUDA_ERROR_INVALID_VALUE);
    CHECK(ftruncate(file, 2 * UNIT) == 0);
    IS(cu.cuMemImportFromShareableHandle(&other, os_handle(file), FD_TYPE), CUDA_ERROR_INVALID_VALUE);
    close(file);
    file = exported(handle);
    /* The importer cannot change the size. */
    CHECK(ftruncate(file, 4096) != 0);
    IS(cu.cuMemImportFromShareableHandle(NULL, os_handle(file), FD_TYPE), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemImportFromShareableHandle(&other, os_handle(file), CU_MEM_HANDLE_TYPE_FABRIC), CUDA_ERROR_INVALID_VALUE);
    emu_set_gpu(0, 7);
    IS(cu.cuMemImportFromShareableHandle(&other, os_handle(file), FD_TYPE), CUDA_ERROR_NOT_SUPPORTED);
    emu_set_gpu(0, 0);
    close(file);
    FINE(cu.cuMemRelease(closed));
    FINE(cu.cuMemRelease(handle));
}

/* ---- Failures ---- */

static void test_failing_calls(void)
{
    static const char *const names[] = {"cuMemGetAllocationGranularity",
                                        "cuMemCreate",
                                        "cuMemGetAllocationPropertiesFromHandle",
                                        "cuMemExportToShareableHandle",
                                        "cuMemImportFromShareableHandle",
                                        "cuMemAddressReserve",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemUnmap",
                                        "cuMemAddressFree",
                                        "cuMemRelease",
                                        "cuDeviceGet",
                                        "cuDeviceGetUuid",
                                        "cuDeviceGetAttribute"};
    const CUmemAllocationProp prop = device_memory_properties(0, true);
    for (size_t i = 0; i <= sizeof names / sizeof *names; i++) {
        CUmemAllocationProp found;
        CUmemGenericAllocationHandle handle = 0, second = 0;
        CUdeviceptr start = 0;
        CUuuid uuid;
        CUdevice device;
        size_t size;
        int file = -1, value;
        emu_reset(seed);
        if (i < sizeof names / sizeof *names)
            emu_fail(names[i], 1, cudaErrorOperatingSystem, false);
            /* Each call that fails is made again. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const unsigned before_ = emu_failures();                                                                       \
        const CUresult result_ = (call);                                                                               \
        CHECK(result_ == (emu_failures() > before_ ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS));                     \
        if (result_ != CUDA_SUCCESS)                                                                                   \
            FINE(call);                                                                                                \
    } while (0)
        TRY(cu.cuDeviceGet(&device, 0));
        TRY(cu.cuDeviceGetUuid(&uuid, 0));
        TRY(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
        TRY(cu.cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        TRY(cu.cuMemCreate(&handle, UNIT, &prop, 0));
        TRY(cu.cuMemGetAllocationPropertiesFromHandle(&found, handle));
        TRY(cu.cuMemExportToShareableHandle(&file, handle, FD_TYPE, 0));
        TRY(cu.cuMemImportFromShareableHandle(&second, os_handle(file), FD_TYPE));
        TRY(cu.cuMemAddressReserve(&start, UNIT, 0, 0, 0));
        TRY(cu.cuMemMap(start, UNIT, 0, second, 0));
        TRY(permit(start, UNIT, 0));
        TRY(cu.cuMemUnmap(start, UNIT));
        TRY(cu.cuMemAddressFree(start, UNIT));
        TRY(cu.cuMemRelease(handle));
        TRY(cu.cuMemRelease(second));
#undef TRY
        close(file);
        CHECK(emu_failures() == (i < sizeof names / sizeof *names));
        CHECK(emu_live(EMU_MEMORY_HANDLE) == 0 && emu_live(EMU_ADDRESS_RANGE) == 0 && emu_live(EMU_DEVICE_MEMORY) == 0);
    }
}

static void test_lost_device(void)
{
    const CUmemAllocationProp prop = device_memory_properties(0, true);
    const CUmemGenericAllocationHandle handle = created(0, UNIT, true), other = created(1, UNIT, true);
    unsigned char *const memory = mapped(handle, UNIT, 0);
    const CUdeviceptr start = reserved(UNIT);
    const int file = exported(handle);
    CUmemGenericAllocationHandle next;
    int value;
    emu_break_device(0, cudaErrorLaunchFailure);
    OK(cudaMemsetAsync(memory, 1, 1, NULL));
    GIVES(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    IS(cu.cuMemCreate(&next, UNIT, &prop, 0), CUDA_ERROR_LAUNCH_FAILED);
    IS(cu.cuMemImportFromShareableHandle(&next, os_handle(file), FD_TYPE), CUDA_ERROR_LAUNCH_FAILED);
    IS(cu.cuMemExportToShareableHandle(&value, handle, FD_TYPE, 0), CUDA_ERROR_LAUNCH_FAILED);
    IS(cu.cuMemMap(start, UNIT, 0, handle, 0), CUDA_ERROR_LAUNCH_FAILED);
    IS(permit((uintptr_t)memory, UNIT, 1), CUDA_ERROR_LAUNCH_FAILED);
    IS(cu.cuMemUnmap((uintptr_t)memory, UNIT), CUDA_ERROR_LAUNCH_FAILED);
    IS(cu.cuMemRelease(handle), CUDA_ERROR_LAUNCH_FAILED);
    /* Another device is not affected. */
    FINE(cu.cuMemMap(start, UNIT, 0, other, 0));
    FINE(permit(start, UNIT, 1));
    unmap(pointer_to(start), UNIT);
    FINE(cu.cuMemRelease(other));
    close(file);
    emu_reset(seed);
    emu_fail("cuMemCreate", 1, cudaErrorECCUncorrectable, true);
    IS(cu.cuMemCreate(&next, UNIT, &prop, 0), CUDA_ERROR_ECC_UNCORRECTABLE);
    IS(cu.cuMemCreate(&next, UNIT, &prop, 0), CUDA_ERROR_ECC_UNCORRECTABLE);
    GIVES(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
}

/* ---- Several processes ---- */

/* The part of a process that gets the file. It sees the memory's GPU as device 2. */
static void take_part(int file)
{
    emu_set_gpu(2, 0);
    emu_set_gpu(0, 2);
    const size_t before = available(2);
    const CUmemGenericAllocationHandle handle = imported(file);
    CUmemAllocationProp prop;
    CHECK(available(2) == before - UNIT);
    FINE(cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(prop.location.id == 2);
    int none = -1;
    IS(cu.cuMemExportToShareableHandle(&none, handle, FD_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    unsigned char *const memory = mapped(handle, UNIT, 2);
    struct cudaPointerAttributes attributes;
    OK(cudaSetDevice(2));
    OK(cudaPointerGetAttributes(&attributes, memory));
    CHECK(attributes.device == 2 && attributes.devicePointer == memory);
    CHECK(peek(memory) == 0x5A && peek(memory + UNIT - 1) == 0x5A);
    fill(memory, 0xA5, UNIT);
    unmap(memory, UNIT);
    FINE(cu.cuMemRelease(handle));
    CHECK(available(2) == before);
}

static void test_processes(void)
{
    const CUmemGenericAllocationHandle handle = created(0, UNIT, true);
    unsigned char *const memory = mapped(handle, UNIT, 0);
    const int file = exported(handle);
    fill(memory, 0x5A, UNIT);
    const pid_t forked = start_process();
    if (forked == 0) {
        take_part(file);
        _exit(0);
    }
    expect_end(forked, 0);
    CHECK(peek(memory) == 0xA5 && peek(memory + UNIT - 1) == 0xA5);
    fill(memory, 0x5A, UNIT);
    /* A program that is executed inherits the descriptor, as it is not closed on exec. */
    const pid_t executed = start_process();
    if (executed == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", file);
        execl("/proc/self/exe", "selftest", "take_part", number, (char *)NULL);
        _exit(2);
    }
    expect_end(executed, 0);
    CHECK(peek(memory) == 0xA5);
    close(file);
    unmap(memory, UNIT);
    FINE(cu.cuMemRelease(handle));
}

int selftest_process(int file)
{
    CHECK(load_driver_calls(&cu));
    take_part(file);
    return 0;
}

/* The memory outlives the process that created it. */
static void test_killed_exporter(void)
{
    const pid_t importer = start_process();
    if (importer == 0) {
        int pair[2];
        CHECK(pipe(pair) == 0);
        const pid_t exporter = start_process();
        if (exporter == 0) {
            const CUmemGenericAllocationHandle handle = created(0, UNIT, true);
            unsigned char *const memory = mapped(handle, UNIT, 0);
            fill(memory, 0x77, UNIT);
            const int file = exported(handle);
            CHECK(write(pair[1], &file, sizeof file) == sizeof file);
            pause();
        }
        char path[64];
        int theirs, file;
        CHECK(read(pair[0], &theirs, sizeof theirs) == sizeof theirs);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)exporter, theirs);
        file = open(path, O_RDWR | O_CLOEXEC);
        CHECK(file >= 0);
        const CUmemGenericAllocationHandle handle = imported(file);
        close(file);
        CHECK(kill(exporter, SIGKILL) == 0);
        expect_end(exporter, -SIGKILL);
        unsigned char *const memory = mapped(handle, UNIT, 0);
        CHECK(peek(memory) == 0x77 && peek(memory + UNIT - 1) == 0x77);
        unmap(memory, UNIT);
        FINE(cu.cuMemRelease(handle));
        _exit(0);
    }
    expect_end(importer, 0);
}

/* Under valgrind a process has less address space than the emulator asks for first. */
static void test_little_address_space(void)
{
    const size_t left = (size_t)80 << 30;
    unsigned long pages = 0;
    const pid_t child = start_process();
    if (child == 0) {
        CUdeviceptr address = 0;
        FILE *const file = fopen("/proc/self/statm", "re");
        CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
        fclose(file);
        const struct rlimit limit = {.rlim_cur = pages * 4096 + left, .rlim_max = RLIM_INFINITY};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        FINE(cu.cuMemAddressReserve(&address, 4 << 20, 0, 0, 0));
        FINE(cu.cuMemAddressFree(address, 4 << 20));
        _exit(0);
    }
    expect_end(child, 0);
}

/* A forked process cannot use its parent's memory. */
static void test_forked(void)
{
    const CUmemGenericAllocationHandle handle = created(0, UNIT, true);
    unsigned char *const memory = mapped(handle, UNIT, 0);
    void *found;
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        IS(cu.cuMemUnmap((uintptr_t)memory, UNIT), CUDA_ERROR_NOT_INITIALIZED);
        IS(cu.cuMemRelease(handle), CUDA_ERROR_NOT_INITIALIZED);
        GIVES(driver_call("cuMemCreate", &found), cudaErrorInitializationError);
        _exit(0);
    }
    expect_end(child, 0);
    /* The child that begins anew does not touch the parent's mapping. */
    fill(memory, 0x33, UNIT);
    const pid_t anew = start_process();
    if (anew == 0) {
        CHECK(peek(memory) == -1 && emu_live(EMU_MEMORY_HANDLE) == 0);
        const CUmemGenericAllocationHandle own = created(0, UNIT, true);
        fill(mapped(own, UNIT, 0), 0x44, UNIT);
        _exit(0);
    }
    expect_end(anew, 0);
    CHECK(peek(memory) == 0x33);
    unmap(memory, UNIT);
    FINE(cu.cuMemRelease(handle));
}

static void leak_handle(void)
{
    (void)created(0, UNIT, false);
}

static void leak_range(void)
{
    (void)reserved(UNIT);
}

static void leak_nothing(void)
{
    const CUmemGenericAllocationHandle handle = created(0, UNIT, false);
    unmap(mapped(handle, UNIT, 0), UNIT);
    FINE(cu.cuMemRelease(handle));
}

static void expect_exit(void (*leak)(void), int end)
{
    const pid_t child = start_process();
    if (child == 0) {
        CHECK(freopen("/dev/null", "w", stderr) != NULL);
        emu_report_leaks(true);
        leak();
        exit(0);
    }
    expect_end(child, end);
}

static void test_leaks(void)
{
    expect_exit(leak_handle, 1);
    expect_exit(leak_range, 1);
    expect_exit(leak_nothing, 0);
}

void (*const process_tests[])(void) = {test_imported_twice, NULL};
void (*const process_tests_once[])(void) = {test_bad_exports,
                                            test_failing_calls,
                                            test_lost_device,
                                            test_processes,
                                            test_killed_exporter,
                                            test_forked,
                                            test_little_address_space,
                                            test_leaks,
                                            NULL};
