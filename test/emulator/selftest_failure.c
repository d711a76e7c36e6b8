/*
 * Failures that a test sets, and reports of misuse.
 */
#include "selftest.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned reports;
static char last_report[2048];

static void count_report(const char *report, void *user)
{
    (void)user;
    reports++;
    snprintf(last_report, sizeof last_report, "%s", report);
}

static void expect_misuse(void)
{
    reports = 0;
    emu_set_misuse_handler(count_report, NULL);
}

/* ---- Failures ---- */

/* A refused batch may have queued some of its copies. */
static void test_refused_batch(void)
{
    static bool some, none;
    unsigned char *const memory = device_memory(), *const from = pinned(3);
    void *const to[] = {memory, memory + 16};
    const void *const sources[] = {from, from + 16};
    const size_t sizes[] = {16, 16};
    size_t first = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    GIVES(cudaMemcpyBatchAsync(to, sources, sizes, 2, &attributes, &first, 1, stream), cudaErrorUnknown);
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorNotSupported, false);
    const int queued = (int)emu_calls("cudaMemcpyBatchAsync");
    GIVES(cudaMemcpyBatchAsync(to, sources, sizes, 2, &attributes, &first, 1, stream), cudaErrorNotSupported);
    CHECK(queued == 1 && emu_pending() <= 1);
    OK(cudaStreamSynchronize(stream));
    const int arrived = (peek(memory) == 3) + (peek(memory + 16) == 3);
    CHECK(seed == 0 ? arrived == 1 : arrived < 2);
    some = some || arrived == 1;
    none = none || arrived == 0;
    CHECK(seed < 50 || (some && none));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
    OK(cudaFreeHost(from));
}

static void test_failures(void)
{
    void *memory = NULL;
    cudaEvent_t event;
    int version;
    emu_fail("cudaMalloc", 2, cudaErrorMemoryAllocation, false);
    OK(cudaMalloc(&memory, SIZE));
    GIVES(cudaMalloc(&memory, SIZE), cudaErrorMemoryAllocation);
    CHECK(emu_failures() == 1 && emu_calls("cudaMalloc") == 2);
    GIVES(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    GIVES(cudaGetLastError(), cudaErrorMemoryAllocation);
    GIVES(cudaGetLastError(), cudaSuccess);
    OK(cudaFree(memory));
    emu_fail("*", 1, cudaErrorECCUncorrectable, true);
    GIVES(cudaEventCreate(&event), cudaErrorECCUncorrectable);
    GIVES(cudaMalloc(&memory, 1), cudaErrorECCUncorrectable);
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&memory, 1));
    emu_break_device(1, cudaErrorLaunchFailure);
    OK(cudaMemsetAsync(memory, 1, 1, NULL));
    GIVES(cudaDeviceSynchronize(), cudaErrorLaunchFailure);

    emu_reset(seed);
    emu_set_machine(EMU_NO_DRIVER);
    GIVES(cudaGetDeviceCount(&version), cudaErrorInsufficientDriver);
    OK(cudaDriverGetVersion(&version));
    CHECK(version == 0);
    emu_set_machine(EMU_UNLOADING);
    GIVES(cudaGetDeviceCount(&version), cudaErrorCudartUnloading);
    emu_set_machine(EMU_PRESENT);
    GIVES(cudaSetDevice(4), cudaErrorInvalidDevice);
    GIVES(cudaSetDevice(-1), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&version));
    CHECK(!emu_has_context(0));
    OK(cudaFree(NULL));
    CHECK(emu_has_context(0) && !emu_has_context(1));
}

static void test_dropped_wait(void)
{
    cudaEvent_t event = new_event();
    unsigned char *memory = device_memory();
    OK(cudaMemsetAsync(memory, 1, SIZE, NULL));
    OK(cudaEventRecord(event, NULL));
    emu_drop_wait("cudaEventSynchronize", 1);
    OK(cudaEventSynchronize(event));
    if (seed == 0)
        CHECK(peek(memory) == 0xCD);
    OK(cudaEventSynchronize(event));
    CHECK(peek(memory) == 1);
    OK(cudaEventDestroy(event));
    OK(cudaFree(memory));
}

static void test_fork(void)
{
    unsigned char *host = pinned(3);
    cudaEvent_t event = new_event();
    int status, device;
    const pid_t child = fork();
    if (child == 0) {
        GIVES(cudaGetDevice(&device), cudaErrorInitializationError);
        GIVES(cudaFreeHost(host), cudaErrorInitializationError);
        OK(cudaEventQuery(event));
        CHECK(host[0] == 3);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    OK(cudaEventDestroy(event));
    OK(cudaFreeHost(host));
}

/* ---- Misuse ---- */

static void test_dead_handles(void)
{
    cudaStream_t stream = stream_of(cudaStreamDefault);
    cudaEvent_t event = new_event();
    OK(cudaStreamDestroy(stream));
    OK(cudaEventDestroy(event));
    expect_misuse();
    GIVES(cudaStreamSynchronize(stream), cudaErrorUnknown);
    GIVES(cudaEventRecord(event, NULL), cudaErrorUnknown);
    GIVES(cudaStreamDestroy(stream), cudaErrorUnknown);
    CHECK(reports == 3 && strstr(last_report, "cudaStreamDestroy") != NULL);
    GIVES(cudaEventRecord(NULL, NULL), cudaErrorInvalidResourceHandle);
    GIVES(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
}

static void nothing(void *unused)
{
    (void)unused;
}

static void test_bad_ranges(void)
{
    unsigned char *memory = device_memory();
    int pageable;
    struct emu_range range = {memory + 1, SIZE, true};
    expect_misuse();
    GIVES(emu_launch(NULL, nothing, NULL, &range, 1), cudaErrorUnknown);
    range = (struct emu_range){&pageable, EMU_WHOLE, true};
    GIVES(emu_launch(NULL, nothing, NULL, &range, 1), cudaErrorUnknown);
    OK(cudaFree(memory));
    range.data = memory;
    GIVES(emu_launch(NULL, nothing, NULL, &range, 1), cudaErrorUnknown);
    CHECK(reports == 3);
    range.size = 0;
    OK(emu_launch(NULL, nothing, NULL, &range, 1));
}

static void test_bad_frees(void)
{
    cudaStream_t first = stream_of(cudaStreamNonBlocking), second = stream_of(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    void *memory, *host = pinned(0);
    expect_misuse();
    OK(cudaMallocAsync(&memory, SIZE, first));
    OK(cudaMemsetAsync(memory, 1, SIZE, first));
    OK(cudaEventRecord(event, first));
    if (seed == 0) {
        GIVES(cudaFreeAsync(memory, second), cudaErrorUnknown);
        GIVES(cudaFree(memory), cudaErrorUnknown);
        CHECK(reports == 2);
    }
    OK(cudaStreamWaitEvent(second, event, 0));
    reports = 0;
    OK(cudaFreeAsync(memory, second));
    GIVES(cudaFreeAsync(memory, second), cudaErrorUnknown);
    GIVES(cudaFree(memory), cudaErrorUnknown);
    GIVES(cudaMemsetAsync(memory, 1, 1, second), cudaErrorUnknown);
    CHECK(reports == 3);
    OK(cudaStreamSynchronize(second));
    GIVES(cudaFree(memory), cudaErrorInvalidValue);
    CHECK(reports == 3);
    /* These two calls wait. */
    OK(cudaMalloc(&memory, SIZE));
    OK(cudaMemcpyAsync(memory, host, SIZE, cudaMemcpyDefault, first));
    OK(cudaFreeHost(host));
    OK(cudaMemsetAsync(memory, 1, SIZE, first));
    OK(cudaFree(memory));
    CHECK(reports == 3);
    emu_host_read(host, 1);
    CHECK(reports == 4);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    CHECK(emu_live(EMU_STREAM) == 0 && emu_live(EMU_EVENT) == 0 && emu_live(EMU_PINNED) == 0);
}

/* The host must not access device memory. */
static void test_fault(void)
{
    int status;
    char *memory = device_memory();
    const pid_t child = fork();
    if (child == 0) {
        /* A sanitizer's handler would only report the expected fault. */
        fclose(stderr);
        _exit(*(volatile char *)memory == 0 ? 0 : 2);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 2));
    OK(cudaFree(memory));
}

static void misuse(void)
{
    cudaEvent_t event = new_event();
    OK(cudaEventDestroy(event));
    (void)cudaEventDestroy(event);
    _exit(0);
}

static void leak(void)
{
    emu_report_leaks(true);
    (void)new_event();
    exit(0);
}

static int end_of(void (*run)(void))
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        emu_reset(0);
        fclose(stderr);
        run();
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void test_ends(void)
{
    int status = end_of(misuse);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = end_of(leak);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

void (*const failure_tests[])(void) = {
    test_failures, test_refused_batch, test_dropped_wait, test_dead_handles, test_bad_ranges, test_bad_frees, NULL};
void (*const failure_tests_once[])(void) = {test_fork, test_fault, test_ends, NULL};
