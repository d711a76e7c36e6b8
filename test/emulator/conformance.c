/*
 * Asserts facts about the CUDA runtime that the library relies on, on the emulated and the real runtime alike. The
 * facts are results recorded on a real machine, and the documented semantics on which the CUDA back end is built.
 *
 * Exit status: 0 if all facts hold, 1 if one does not, 77 if the real runtime finds no device. With an argument, runs
 * only the section of that name.
 */
#include "conformance.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Written by the sections' processes, read by the parent. */
struct tally {
    atomic_int right, wrong, skipped;
    int devices;
    cudaError_t devices_code;
};

static struct tally *tally;

/* The exit status of a section that has counted a failure and cannot continue. */
enum { ENDED_EARLY = 3 };

/* ---- Facts ---- */

int device_count(void)
{
    return tally->devices;
}

static void right(const char *fact)
{
    printf("ok %s\n", fact);
    atomic_fetch_add(&tally->right, 1);
}

static void wrong(const char *fact, long long want, long long got)
{
    printf("FAIL %s: expected %lld got %lld\n", fact, want, got);
    atomic_fetch_add(&tally->wrong, 1);
}

void expect_value(const char *fact, long long want, long long got)
{
    if (want == got)
        right(fact);
    else
        wrong(fact, want, got);
}

void expect_true(const char *fact, bool got)
{
    expect_value(fact, 1, got);
}

void expect_code(const char *fact, cudaError_t want, cudaError_t got)
{
    const cudaError_t recorded = got == cudaErrorNotReady ? cudaSuccess : got;
    const cudaError_t last = cudaGetLastError();
    const cudaError_t then = cudaGetLastError();

    if (want != got) {
        wrong(fact, want, got);
    } else if (last != recorded) {
        printf("(cudaGetLastError afterwards) ");
        wrong(fact, recorded, last);
    } else if (then != cudaSuccess) {
        printf("(the second cudaGetLastError afterwards) ");
        wrong(fact, cudaSuccess, then);
    } else {
        right(fact);
    }
}

bool same_bytes(int want, const void *data, size_t size)
{
    const unsigned char *const bytes = data;

    for (size_t i = 0; i < size; i++)
        if (bytes[i] != want)
            return false;
    return true;
}

void expect_bytes(const char *fact, int want, const void *data, size_t size)
{
    const unsigned char *const bytes = data;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != want) {
            printf("(byte %zu of %zu) ", i, size);
            wrong(fact, want, bytes[i]);
            return;
        }
    }
    right(fact);
}

void skip(const char *fact, const char *why)
{
    printf("skip %s: %s\n", fact, why);
    atomic_fetch_add(&tally->skipped, 1);
}

void must(const char *call, cudaError_t code)
{
    if (code == cudaSuccess)
        return;
    printf("(the section ends here) ");
    wrong(call, cudaSuccess, code);
    _exit(ENDED_EARLY);
}

/* ---- Keeping a stream busy ---- */

#if WITH_EMULATOR

/* Work runs only when something forces it. So a stream with any work in it is busy enough. */
static void pass(void *argument)
{
    (void)argument;
}

void hold_stream_for(cudaStream_t stream, int milliseconds)
{
    (void)milliseconds;
    MUST(cudaLaunchHostFunc(stream, pass, NULL));
}

void let_go(void)
{
}

static void settle(void)
{
}

#else

struct hold {
    atomic_bool released;
    int milliseconds;
};

static struct hold holds[1024];
static int holds_used;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void wait_for_release(void *argument)
{
    struct hold *const hold = argument;
    const struct timespec pause = {.tv_nsec = 100000};
    const double start = now();

    while (!atomic_load(&hold->released) && now() - start < hold->milliseconds)
        nanosleep(&pause, NULL);
}

void hold_stream_for(cudaStream_t stream, int milliseconds)
{
    if (holds_used == (int)(sizeof holds / sizeof *holds))
        abort();
    holds[holds_used].milliseconds = milliseconds;
    MUST(cudaLaunchHostFunc(stream, wait_for_release, &holds[holds_used]));
    holds_used++;
}

void let_go(void)
{
    for (int i = 0; i < holds_used; i++)
        atomic_store(&holds[i].released, true);
}

static void settle(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    nanosleep(&pause, NULL);
}

#endif

void hold_stream(cudaStream_t stream)
{
    hold_stream_for(stream, 2000);
}

void expect_held(const char *fact, cudaEvent_t event)
{
    settle();
    expect_value(fact, cudaErrorNotReady, cudaEventQuery(event));
}

/* ---- The kit ---- */

void in_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, argument) != 0 || pthread_join(thread, NULL) != 0)
        abort();
}

cudaMemPool_t make_pool(int device)
{
    struct cudaMemPoolProps props;
    unsigned long long keep = UINT64_MAX;
    cudaMemPool_t pool;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypeNone;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    MUST(cudaMemPoolCreate(&pool, &props));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return pool;
}

void make_kit(struct kit *kit)
{
    MUST(cudaStreamCreateWithFlags(&kit->stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&kit->other, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&kit->event, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&kit->later, cudaEventDisableTiming));
    MUST(cudaMalloc((void **)&kit->device_a, SIZE));
    MUST(cudaMalloc((void **)&kit->device_b, SIZE));
    MUST(cudaMallocHost((void **)&kit->pinned_a, SIZE));
    MUST(cudaMallocHost((void **)&kit->pinned_b, SIZE));
    MUST(cudaMemset(kit->device_a, 0xa1, SIZE));
    MUST(cudaMemset(kit->device_b, 0xb2, SIZE));
    memset(kit->pinned_a, 0xa1, SIZE);
    memset(kit->pinned_b, 0xb2, SIZE);
    kit->pool = make_pool(0);
    MUST(cudaDeviceSynchronize());
}

/* ---- Running the sections ---- */

static void in_child(const struct section *section)
{
    alarm(200);
#if WITH_EMULATOR
    emu_reset(0);
    if (section->dies_by && !freopen("/dev/null", "w", stderr)) /* the report of the expected misuse */
        _exit(1);
#endif
    section->run();
    fflush(stdout);
    _exit(0); /* no clean-up, which is no part of any fact */
}

/* Runs the section in a child. Returns 0, the signal that ended it, or minus its exit status. */
static int run_apart(const struct section *section)
{
    int status;

    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0)
        in_child(section);
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            perror("waitpid");
            exit(1);
        }
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void count_devices(void)
{
    tally->devices_code = cudaGetDeviceCount(&tally->devices);
    if (tally->devices_code != cudaSuccess)
        tally->devices = 0;
    else if (tally->devices > 0)
        tally->devices_code = cudaFree(NULL); /* a device that cannot be used does not count */
}

static bool usable(void)
{
    return tally->devices_code == cudaSuccess && tally->devices > 0;
}

static void run_sections(const struct section *sections, const char *only)
{
    for (const struct section *section = sections; section->name; section++) {
        if (only && strcmp(only, section->name) != 0)
            continue;
        printf("# %s\n", section->name);
        if (section->devices > 0 && !usable()) {
            skip(section->name, "no device");
            continue;
        }
        if (section->devices > tally->devices) {
            skip(section->name, "needs two devices");
            continue;
        }
        const int end = run_apart(section);
        if (end == -ENDED_EARLY)
            continue;
        if (end != section->dies_by)
            wrong(section->name, section->dies_by, end);
        else if (section->dies_by)
            right(section->name);
    }
}

int main(int argc, char **argv)
{
    const struct section count = {"count of the devices", count_devices, 0, 0};
    const char *const only = argc > 1 ? argv[1] : NULL;

    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    tally->devices_code = cudaErrorUnknown;
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that the output of a section that crashes appears */
    run_apart(&count);

    run_sections(name_sections, only);
    run_sections(call_sections, only);
    run_sections(memory_sections, only);
    run_sections(batch_sections, only);
    run_sections(library_sections, only);
    run_sections(order_sections, only);
    run_sections(capture_sections, only);
    run_sections(graph_sections, only);
    run_sections(thread_sections, only);
    run_sections(shared_sections, only);

    printf("%d facts hold, %d do not, %d skipped\n", atomic_load(&tally->right), atomic_load(&tally->wrong),
           atomic_load(&tally->skipped));
    const int stated = atomic_load(&tally->right) + atomic_load(&tally->wrong) + atomic_load(&tally->skipped);
    if (atomic_load(&tally->wrong) > 0 || stated == 0)
        return 1;
    if (!usable()) {
        printf("no usable device: code %d\n", (int)tally->devices_code);
        return 77;
    }
    return 0;
}
