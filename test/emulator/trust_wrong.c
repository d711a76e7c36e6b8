/*
 * Wrong programs, each of which the emulated runtime must catch. Each is caught in its way: by a report that names the
 * call and an abort, by a fault, by the code that the real runtime returns, by wrong bytes, or by a report of leaks at
 * exit.
 *
 * Usage: trust_wrong [program]
 */
#include "trust_wrong.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- Destroyed handles ---- */

static void destroyed_stream_used(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();

    MUST(cudaStreamDestroy(stream));
    cudaMemsetAsync(device, 0, SIZE, stream);
}

static void destroyed_stream_synchronized(void)
{
    const cudaStream_t stream = new_stream();

    MUST(cudaStreamDestroy(stream));
    cudaStreamSynchronize(stream);
}

static void destroyed_stream_destroyed(void)
{
    const cudaStream_t stream = new_blocking_stream();

    MUST(cudaStreamDestroy(stream));
    cudaStreamDestroy(stream);
}

static void destroyed_event_recorded(void)
{
    const cudaEvent_t event = new_event();

    MUST(cudaEventDestroy(event));
    cudaEventRecord(event, NULL);
}

static void destroyed_event_waited_for(void)
{
    const cudaEvent_t event = new_event();
    const cudaStream_t stream = new_stream();

    MUST(cudaEventRecord(event, NULL));
    MUST(cudaEventDestroy(event));
    cudaStreamWaitEvent(stream, event, 0);
}

static void destroyed_event_queried(void)
{
    const cudaEvent_t event = new_event();

    MUST(cudaEventDestroy(event));
    cudaEventQuery(event);
}

static void destroyed_event_destroyed(void)
{
    const cudaEvent_t event = new_event();

    MUST(cudaEventDestroy(event));
    cudaEventDestroy(event);
}

static void destroyed_pool_used(void)
{
    const cudaMemPool_t pool = new_pool(0);
    void *data;

    MUST(cudaMemPoolDestroy(pool));
    cudaMallocFromPoolAsync(&data, SIZE, pool, NULL);
}

/* ---- Memory that is freed, or freed too early ---- */

static void freed_twice_in_flight(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream);

    MUST(cudaFreeAsync(device, stream));
    cudaFreeAsync(device, stream);
}

static void freed_while_being_freed(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream);

    MUST(cudaStreamSynchronize(stream));
    MUST(cudaFreeAsync(device, stream));
    cudaFree(device);
}

static void freed_beside_its_last_use(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream), *const host = new_pinned();

    after(other, new_event(), stream);
    to_host(host, device, other);
    cudaFreeAsync(device, stream);
}

static void freed_beside_a_kernel(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_pool_memory(new_pool(0), stream);
    struct sum sum = {.to = device, .from = device, .plus = 1};

    after(other, event, stream);
    launch(&sum, other);
    MUST(cudaEventRecord(event, other)); /* but no stream or thread waits for it */
    cudaFreeAsync(device, stream);
}

static void copied_after_free_async(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream), *const host = new_pinned();

    MUST(cudaFreeAsync(device, stream));
    cudaMemcpyAsync(host, device, SIZE, cudaMemcpyDeviceToHost, stream);
}

static void copied_after_free(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaFree(device));
    cudaMemcpyAsync(host, device, SIZE, cudaMemcpyDeviceToHost, NULL);
}

/* The copies of a batch are not ordered. */
static void batch_onto_its_own_source(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    void *const to[] = {device, host};
    const void *const from[] = {host, device};
    const size_t sizes[] = {SIZE, SIZE};
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;

    cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, new_stream());
}

static void batch_to_one_target_twice(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    void *const to[] = {device, device + SIZE / 2 - 1};
    const void *const from[] = {host, host + SIZE / 2};
    const size_t sizes[] = {SIZE / 2, SIZE / 2};
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;

    cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, new_stream());
}

static void kernel_on_freed_memory(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();
    struct sum sum = {.to = device, .from = device, .plus = 1};

    MUST(cudaFree(device));
    launch(&sum, stream);
    cudaStreamSynchronize(stream);
}

static void kernel_behind_free_async(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_pool_memory(new_pool(0), stream);
    struct sum sum = {.to = device, .from = device, .plus = 1};

    MUST(cudaFreeAsync(device, stream));
    launch(&sum, stream);
    cudaStreamSynchronize(stream);
}

static void unregistered_in_flight(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();
    byte *const slab = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(slab != MAP_FAILED);
    MUST(cudaHostRegister(slab, SIZE, cudaHostRegisterDefault));
    to_host(slab, device, stream);
    cudaHostUnregister(slab);
}

static void freed_host_memory_read(void)
{
    byte *const host = new_pinned();

    MUST(cudaFreeHost(host));
    emu_host_read(host, SIZE);
}

/* ---- Memory of another owner ---- */

static void host_reads_device_memory(void)
{
    const volatile byte *const device = new_device_memory();

    printf("%d\n", device[10]);
}

static void host_writes_device_memory(void)
{
    volatile byte *const device = new_device_memory();

    device[10] = 1;
}

static void host_reads_pool_memory(void)
{
    const volatile byte *const device = new_pool_memory(new_pool(0), NULL);

    MUST(cudaDeviceSynchronize());
    printf("%d\n", device[10]);
}

static void touch(void *argument)
{
    *(volatile byte *)argument = 1;
}

static void host_function_writes_device_memory(void)
{
    const cudaStream_t stream = new_stream();

    MUST(cudaLaunchHostFunc(stream, touch, new_device_memory()));
    cudaStreamSynchronize(stream);
}

static void touch_through_pointer(void *argument)
{
    *(volatile byte *)emu_pointer(argument) = 1;
}

static void kernel_outside_its_ranges(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();
    const struct emu_range range = {device, SIZE / 2, true};

    MUST(emu_launch(stream, touch_through_pointer, device + SIZE / 2, &range, 1));
    cudaStreamSynchronize(stream);
}

/* ---- Leaks at exit ---- */

static void device_memory_left(void)
{
    new_device_memory();
}

static void pool_memory_left(void)
{
    const cudaMemPool_t pool = new_pool(0);

    new_pool_memory(pool, NULL);
    MUST(cudaMemPoolDestroy(pool));
}

static void pinned_left(void)
{
    new_pinned();
}

static void registered_left(void)
{
    byte *const slab = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(cudaHostRegister(slab, SIZE, cudaHostRegisterDefault));
}

static void managed_left(void)
{
    void *data;

    MUST(cudaMallocManaged(&data, SIZE, cudaMemAttachGlobal));
}

static void stream_left(void)
{
    new_stream();
}

static void event_left(void)
{
    new_event();
}

static void pool_left(void)
{
    new_pool(0);
}

/* ---- Runs ---- */

static const struct wrong programs[] = {
    {{"destroyed stream used", destroyed_stream_used}, ABORTS, SEEDS, {"cudaMemsetAsync in", "stream"}},
    {{"destroyed stream synchronized", destroyed_stream_synchronized},
     ABORTS,
     SEEDS,
     {"cudaStreamSynchronize in", "stream"}},
    {{"destroyed stream destroyed", destroyed_stream_destroyed}, ABORTS, SEEDS, {"cudaStreamDestroy in", "stream"}},
    {{"destroyed event recorded", destroyed_event_recorded}, ABORTS, SEEDS, {"cudaEventRecord in", "event"}},
    {{"destroyed event waited for", destroyed_event_waited_for}, ABORTS, SEEDS, {"cudaStreamWaitEvent in", "event"}},
    {{"destroyed event queried", destroyed_event_queried}, ABORTS, SEEDS, {"cudaEventQuery in", "event"}},
    {{"destroyed event destroyed", destroyed_event_destroyed}, ABORTS, SEEDS, {"cudaEventDestroy in", "event"}},
    {{"destroyed pool used", destroyed_pool_used}, ABORTS, SEEDS, {"cudaMallocFromPoolAsync in", "pool"}},
    {{"freed twice in flight", freed_twice_in_flight}, ABORTS, SEEDS, {"cudaFreeAsync in", "freed"}},
    {{"freed while being freed", freed_while_being_freed}, ABORTS, SEEDS, {"cudaFree in", "cudaFreeAsync in"}},
    {{"freed beside its last use", freed_beside_its_last_use},
     ABORTS,
     SEEDS,
     {"cudaFreeAsync in", "cudaMemcpyAsync in"}},
    {{"freed beside a kernel", freed_beside_a_kernel}, ABORTS, SEEDS, {"cudaFreeAsync in", "emu_launch in"}},
    {{"copied after FreeAsync", copied_after_free_async}, ABORTS, SEEDS, {"cudaMemcpyAsync in", "cudaFreeAsync in"}},
    {{"copied after Free", copied_after_free}, ABORTS, SEEDS, {"cudaMemcpyAsync in", "no longer"}},
    {{"batch to one target twice", batch_to_one_target_twice},
     ABORTS,
     SEEDS,
     {"cudaMemcpyBatchAsync in", "in no order"}},
    {{"batch onto its own source", batch_onto_its_own_source},
     ABORTS,
     SEEDS,
     {"cudaMemcpyBatchAsync in", "in no order"}},
    {{"kernel on freed memory", kernel_on_freed_memory}, ABORTS, SEEDS, {"emu_launch in", "no longer"}},
    {{"kernel behind FreeAsync", kernel_behind_free_async}, ABORTS, SEEDS, {"emu_launch in", "cudaFreeAsync in"}},
    {{"unregistered in flight", unregistered_in_flight},
     ABORTS,
     SEEDS,
     {"cudaHostUnregister in", "cudaMemcpyAsync in"}},
    {{"freed host memory read", freed_host_memory_read}, ABORTS, SEEDS, {"emu_host_read in", "no longer"}},
    {{"host reads device memory", host_reads_device_memory},
     FAULTS,
     SEEDS,
     {"fault: ", "which the host may not access"}},
    {{"host writes device memory", host_writes_device_memory},
     FAULTS,
     SEEDS,
     {"fault: ", "which the host may not access"}},
    {{"host reads pool memory", host_reads_pool_memory}, FAULTS, SEEDS, {"fault: ", "which the host may not access"}},
    {{"host function writes device memory", host_function_writes_device_memory},
     FAULTS,
     SEEDS,
     {"fault: ", "which the host may not access"}},
    {{"kernel outside its ranges", kernel_outside_its_ranges}, FAULTS, SEEDS, {NULL, NULL}},
    {{"device memory left", device_memory_left}, LEAKS, SEEDS, {"leak: 1 of device memory", "cudaMalloc in"}},
    {{"pool memory left", pool_memory_left}, LEAKS, SEEDS, {"leak: 1 of device memory", "cudaMallocFromPoolAsync in"}},
    {{"page-locked memory left", pinned_left}, LEAKS, SEEDS, {"leak: 1 of page-locked memory", "cudaMallocHost in"}},
    {{"registered memory left", registered_left},
     LEAKS,
     SEEDS,
     {"leak: 1 of registered memory", "cudaHostRegister in"}},
    {{"managed memory left", managed_left}, LEAKS, SEEDS, {"leak: 1 of managed memory", "cudaMallocManaged in"}},
    {{"stream left", stream_left}, LEAKS, SEEDS, {"leak: 1 of streams", "cudaStreamCreateWithFlags in"}},
    {{"event left", event_left}, LEAKS, SEEDS, {"leak: 1 of events", "cudaEventCreateWithFlags in"}},
    {{"pool left", pool_left}, LEAKS, SEEDS, {"leak: 1 of pools", "cudaMemPoolCreate in"}},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void in_child(const struct wrong *wrong, uint64_t seed)
{
    alarm(200);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would turn it into an exit status */
    emu_catch_faults();
    signal(SIGABRT, SIG_DFL);
    emu_reset(seed);
    emu_report_leaks(wrong->end == LEAKS);
    emu_set_race_check(wrong->end != TELLS); /* those continue to their result */
    wrong->program.run();
    if (wrong->end == LEAKS)
        exit(0);
    _exit(0);
}

static bool ended_so(const struct wrong *wrong, int status)
{
    switch (wrong->end) {
    case RACES:
    case ABORTS:
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    case FAULTS:
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
    case TELLS:
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    case LEAKS:
        return WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    return false;
}

/* A report names the calls, and the program in which they are. */
static bool reported_so(const struct wrong *wrong, const char *report)
{
    if (!wrong->words[0])
        return true;
    if (wrong->end == RACES && !strstr(report, "race: "))
        return false;
    return strstr(report, wrong->words[0]) && strstr(report, wrong->words[1]) &&
           strstr(report, program_invocation_short_name);
}

static bool caught(const struct wrong *wrong, uint64_t seed)
{
    char report[1 << 14];
    size_t length = 0;
    ssize_t got;
    int ends[2], status;

    fflush(NULL);
    if (pipe(ends) != 0) {
        perror("pipe");
        exit(1);
    }
    const pid_t child = fork();
    if (child == 0) {
        if (dup2(ends[1], STDERR_FILENO) < 0)
            _exit(EXIT_UNEXPECTED);
        close(ends[0]);
        close(ends[1]);
        in_child(wrong, seed);
    }
    close(ends[1]);
    while (length < sizeof report - 1 && (got = read(ends[0], report + length, sizeof report - 1 - length)) > 0)
        length += (size_t)got;
    report[length] = '\0';
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("running a program");
        exit(1);
    }
    if (ended_so(wrong, status) && reported_so(wrong, report))
        return true;
    printf("FAIL %s, seed %d: %s %d, report: %s\n", wrong->program.name, (int)seed,
           WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
           length > 0 ? report : "none");
    return false;
}

/* Runs the program with each of its seeds, if it is selected, and counts it. Returns whether it is always caught. */
static bool caught_always(const struct wrong *wrong, const char *only, int *ran)
{
    if (only && strcmp(only, wrong->program.name) != 0)
        return true;
    ++*ran;
    for (int seed = 0; seed < wrong->seeds; seed++)
        if (!caught(wrong, (uint64_t)seed))
            return false;
    return true;
}

static int missed_of(const struct program *table, int seeds, const char *only, int *ran)
{
    int missed = 0;

    for (const struct program *program = table; program->name; program++) {
        const struct wrong wrong = {*program, TELLS, seeds, {NULL, NULL}};

        missed += !caught_always(&wrong, only, ran);
    }
    return missed;
}

/* Each must be caught on every seed, and be reported as a race. */
static int missed_races(const char *only, int *ran)
{
    int missed = 0;

    for (const struct racing_program *racing = wrong_race_programs; racing->program.name; racing++) {
        const struct wrong wrong = {racing->program, RACES, RACE_SEEDS, {racing->words[0], racing->words[1]}};

        missed += !caught_always(&wrong, only, ran);
    }
    return missed;
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 ? argv[1] : NULL;
    int ran = 0, missed = 0;

    for (int i = 0; i < PROGRAMS; i++)
        missed += !caught_always(&programs[i], only, &ran);
    missed += missed_of(wrong_by_code_programs, SEEDS, only, &ran);
    for (const struct wrong *wrong = wrong_capture_programs; wrong->program.name; wrong++)
        missed += !caught_always(wrong, only, &ran);
    for (const struct wrong *wrong = wrong_mapping_programs; wrong->program.name; wrong++)
        missed += !caught_always(wrong, only, &ran);
    for (const struct wrong *wrong = wrong_list_programs; wrong->program.name; wrong++)
        missed += !caught_always(wrong, only, &ran);
    missed += missed_of(wrong_by_bytes_programs, 1, only, &ran);
    missed += missed_of(wrong_capture_by_code_programs, SEEDS, only, &ran);
    missed += missed_of(wrong_capture_by_bytes_programs, 1, only, &ran);
    missed += missed_races(only, &ran);
    if (missed > 0 || ran == 0) {
        printf("%d programs, %d not caught\n", ran, missed);
        return 1;
    }
    printf("%d programs, all caught\n", ran);
    return 0;
}
