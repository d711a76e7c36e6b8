/*
 * Right programs. Each runs over many seeds, and so over many orders in which a machine may run its work. The emulated
 * runtime must flag none of them, and the bytes must be right every time. Host accesses of page-locked memory are
 * announced, as races are searched for.
 *
 * Usage: trust_right [program [seed]]
 */
#include "trust.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SEEDS = 1000 };

/* ---- Order by events ---- */

static void producer_and_consumer(void)
{
    const cudaStream_t producer = new_stream(), consumer = new_stream();
    const cudaEvent_t ready = new_event(), used = new_event();
    byte *const device = new_device_memory(), *const result = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = result, .from = device, .plus = 3};

    host_fill(host, 10);
    to_device(device, host, producer);
    after(consumer, ready, producer);
    launch(&sum, consumer);
    after(producer, used, consumer);
    MUST(cudaMemsetAsync(device, 0, SIZE, producer));
    to_host(host, result, producer);
    MUST(cudaStreamSynchronize(producer));
    CHECK(host_finds(host, 13));
    MUST(cudaStreamDestroy(producer));
    MUST(cudaStreamDestroy(consumer));
    MUST(cudaEventDestroy(ready));
    MUST(cudaEventDestroy(used));
    MUST(cudaFree(device));
    MUST(cudaFree(result));
    MUST(cudaFreeHost(host));
}

/* One event, recorded again and again. Each wait is for the last record before it. */
static void ping_pong(void)
{
    const cudaStream_t streams[] = {new_stream(), new_stream()};
    const cudaEvent_t event = new_event();
    byte *const memory[] = {new_device_memory(), new_device_memory()};
    byte *const host = new_pinned();
    struct sum sums[8];

    host_fill(host, 1);
    to_device(memory[0], host, streams[0]);
    for (int i = 0; i < 8; i++) {
        sums[i] = (struct sum){.to = memory[(i + 1) % 2], .from = memory[i % 2], .plus = i};
        launch(&sums[i], streams[i % 2]);
        after(streams[(i + 1) % 2], event, streams[i % 2]);
    }
    to_host(host, memory[0], streams[0]);
    MUST(cudaStreamSynchronize(streams[0]));
    CHECK(host_finds(host, 29));
    for (int i = 0; i < 2; i++) {
        MUST(cudaStreamDestroy(streams[i]));
        MUST(cudaFree(memory[i]));
    }
    MUST(cudaEventDestroy(event));
    MUST(cudaFreeHost(host));
}

static void wait_before_record(void)
{
    const cudaStream_t one = new_stream(), two = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaStreamWaitEvent(two, event, 0)); /* waits for nothing */
    MUST(cudaMemsetAsync(device, 4, SIZE, one));
    after(two, event, one);
    to_host(host, device, two);
    MUST(cudaEventRecord(event, two));
    MUST(cudaEventSynchronize(event));
    CHECK(host_finds(host, 4));
    MUST(cudaStreamDestroy(one));
    MUST(cudaStreamDestroy(two));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* Three streams wait for three records of one event. The last record covers all of them. */
static void recorded_again(void)
{
    const cudaStream_t source = new_stream();
    cudaStream_t readers[3];
    const cudaEvent_t event = new_event(), done = new_event();
    byte *memory[3], *const host = new_pinned();

    for (int i = 0; i < 3; i++) {
        readers[i] = new_stream();
        memory[i] = new_device_memory();
        MUST(cudaMemsetAsync(memory[i], 40 + i, SIZE, source));
        after(readers[i], event, source);
    }
    MUST(cudaEventSynchronize(event));
    for (int i = 0; i < 3; i++) {
        to_host(host, memory[i], readers[i]);
        MUST(cudaEventRecord(done, readers[i]));
        MUST(cudaEventSynchronize(done));
        CHECK(host_finds(host, 40 + i));
        MUST(cudaStreamDestroy(readers[i]));
        MUST(cudaFree(memory[i]));
    }
    MUST(cudaStreamDestroy(source));
    MUST(cudaEventDestroy(event));
    MUST(cudaEventDestroy(done));
    MUST(cudaFreeHost(host));
}

static void diamond(void)
{
    const cudaStream_t top = new_stream(), left = new_stream(), right = new_stream();
    const cudaEvent_t split = new_event(), joined[] = {new_event(), new_event()};
    byte *const device = new_device_memory(), *const sides[] = {new_device_memory(), new_device_memory()};
    byte *const host[] = {new_pinned(), new_pinned()};
    struct sum sums[] = {{sides[0], device, 1}, {sides[1], device, 2}};

    MUST(cudaMemsetAsync(device, 50, SIZE, top));
    after(left, split, top);
    MUST(cudaStreamWaitEvent(right, split, 0));
    launch(&sums[0], left);
    launch(&sums[1], right);
    after(top, joined[0], left);
    after(top, joined[1], right);
    MUST(cudaMemsetAsync(device, 0, SIZE, top));
    for (int i = 0; i < 2; i++)
        to_host(host[i], sides[i], top);
    MUST(cudaStreamSynchronize(top));
    for (int i = 0; i < 2; i++) {
        CHECK(host_finds(host[i], 51 + i));
        MUST(cudaFree(sides[i]));
        MUST(cudaFreeHost(host[i]));
        MUST(cudaEventDestroy(joined[i]));
    }
    MUST(cudaStreamDestroy(top));
    MUST(cudaStreamDestroy(left));
    MUST(cudaStreamDestroy(right));
    MUST(cudaEventDestroy(split));
    MUST(cudaFree(device));
}

static void polling(void)
{
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();
    cudaError_t code;
    int asked = 0;

    MUST(cudaMemsetAsync(device, 6, SIZE, stream));
    to_host(host, device, stream);
    MUST(cudaEventRecord(event, stream));
    while ((code = cudaEventQuery(event)) == cudaErrorNotReady)
        CHECK(++asked < 100000);
    MUST(code);
    CHECK(host_finds(host, 6));
    MUST(cudaMemsetAsync(host, 7, SIZE, stream));
    while ((code = cudaStreamQuery(stream)) == cudaErrorNotReady)
        CHECK(++asked < 100000);
    MUST(code);
    MUST(cudaGetLastError());
    CHECK(host_finds(host, 7));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* ---- The legacy stream ---- */

static void legacy_barrier(void)
{
    const cudaStream_t one = new_blocking_stream(), two = new_blocking_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sum sum = {.to = device, .from = device, .plus = 5};

    MUST(cudaMemsetAsync(device, 70, SIZE, one));
    launch(&sum, NULL);
    to_host(host, device, two);
    MUST(cudaStreamSynchronize(two));
    CHECK(host_finds(host, 75));
    MUST(cudaStreamDestroy(one));
    MUST(cudaStreamDestroy(two));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void legacy_event_covers_blocking_streams(void)
{
    const cudaStream_t blocking = new_blocking_stream(), stream = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 8, SIZE, blocking));
    after(stream, event, NULL);
    to_host(host, device, stream);
    after(NULL, event, stream);
    MUST(cudaMemsetAsync(device, 0, SIZE, blocking));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(host, 8));
    MUST(cudaStreamDestroy(blocking));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(event));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

static void synchronous_copies(void)
{
    const cudaStream_t blocking = new_blocking_stream();
    byte *const device = new_device_memory();
    byte host[SIZE];

    memset(host, 9, SIZE);
    MUST(cudaMemcpy(device, host, SIZE, cudaMemcpyHostToDevice));
    struct sum sum = {.to = device, .from = device, .plus = 1};
    launch(&sum, blocking);
    MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost));
    CHECK(all_are(host, 10));
    MUST(cudaMemset(device, 11, SIZE));
    MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDefault));
    CHECK(all_are(host, 11));
    MUST(cudaStreamDestroy(blocking));
    MUST(cudaFree(device));
}

static void device_synchronize(void)
{
    cudaStream_t streams[4];
    byte *memory[4], *host[4];

    for (int i = 0; i < 4; i++) {
        streams[i] = i % 2 ? new_stream() : new_blocking_stream();
        memory[i] = new_device_memory();
        host[i] = new_pinned();
        MUST(cudaMemsetAsync(memory[i], i, SIZE, streams[i]));
        to_host(host[i], memory[i], streams[i]);
    }
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) {
        CHECK(host_finds(host[i], i));
        MUST(cudaFreeHost(host[i]));
        MUST(cudaFree(memory[i]));
        MUST(cudaStreamDestroy(streams[i]));
    }
}

/* ---- Destroyed handles ---- */

static void destroyed_while_busy(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t passed = new_event(), last = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemsetAsync(device, 12, SIZE, stream));
    after(other, passed, stream);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(passed));
    to_host(host, device, other);
    MUST(cudaEventRecord(last, other));
    MUST(cudaStreamDestroy(other));
    MUST(cudaEventSynchronize(last));
    CHECK(host_finds(host, 12));
    MUST(cudaEventDestroy(last));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
}

/* Handles are reused at once. The work of the old ones continues beside that of the new ones. */
static void recycled_handles(void)
{
    enum { TIMES = 6 };
    byte *memory[TIMES], *host[TIMES];

    for (int i = 0; i < TIMES; i++) {
        const cudaStream_t stream = new_stream();
        const cudaEvent_t event = new_event();

        memory[i] = new_device_memory();
        host[i] = new_pinned();
        MUST(cudaMemsetAsync(memory[i], 20 + i, SIZE, stream));
        MUST(cudaEventRecord(event, stream));
        MUST(cudaStreamDestroy(stream));

        const cudaStream_t next = new_stream();
        MUST(cudaStreamWaitEvent(next, event, 0));
        MUST(cudaEventDestroy(event));
        to_host(host[i], memory[i], next);
        MUST(cudaStreamDestroy(next));
    }
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < TIMES; i++) {
        CHECK(host_finds(host[i], 20 + i));
        MUST(cudaFree(memory[i]));
        MUST(cudaFreeHost(host[i]));
    }
}

/* ---- Runs ---- */

static const struct program order_programs[] = {
    {"producer and consumer", producer_and_consumer},
    {"ping pong", ping_pong},
    {"wait before record", wait_before_record},
    {"recorded again", recorded_again},
    {"diamond", diamond},
    {"polling", polling},
    {"legacy barrier", legacy_barrier},
    {"legacy event covers blocking streams", legacy_event_covers_blocking_streams},
    {"synchronous copies", synchronous_copies},
    {"device synchronize", device_synchronize},
    {"destroyed while busy", destroyed_while_busy},
    {"recycled handles", recycled_handles},
    {NULL, NULL},
};

static void run_seeds(const struct program *program, uint64_t first, uint64_t seeds, volatile uint64_t *seed)
{
    for (*seed = first; *seed < first + seeds; (*seed)++) {
        emu_reset(*seed);
        program->run();
        for (int kind = 0; kind < EMU_KINDS; kind++)
            CHECK(emu_live((enum emu_kind)kind) == 0);
    }
}

/* Runs the program in a process of its own, as a report aborts. */
static bool holds(const struct program *program, uint64_t first, uint64_t seeds, volatile uint64_t *seed)
{
    int status = 0;

    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(200);
        run_seeds(program, first, seeds, seed);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("running a program");
        exit(1);
    }
    if (status != 0)
        printf("FAIL %s, seed %" PRIu64 ": %s %d\n", program->name, *seed, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status == 0;
}

/* Returns the number of seeds. Like the suites, uses fewer if SYNCED_MEM_TEST_SEEDS is set. */
static uint64_t seeds_asked(void)
{
    enum { EACH = 25 };
    const char *const asked = getenv("SYNCED_MEM_TEST_SEEDS");
    const uint64_t seeds = asked ? strtoull(asked, NULL, 10) * EACH : SEEDS;
    return seeds > 0 && seeds < SEEDS ? seeds : SEEDS;
}

int main(int argc, char **argv)
{
    volatile uint64_t *const seed = mmap(NULL, sizeof *seed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const struct program *const tables[] = {order_programs,      right_memory_programs,  right_capture_programs,
                                            right_race_programs, right_mapping_programs, right_list_programs};
    const uint64_t seeds = argc > 2 ? 1 : seeds_asked();
    int ran = 0, flagged = 0;

    if (seed == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct program *program = tables[i]; program->name; program++) {
            if (argc > 1 && strcmp(argv[1], program->name) != 0)
                continue;
            ran++;
            flagged += !holds(program, first, seeds, seed);
        }
    }
    if (flagged > 0 || ran == 0) {
        printf("%d programs, %d flagged\n", ran, flagged);
        return 1;
    }
    printf("%d programs over %" PRIu64 " seeds, none flagged\n", ran, seeds);
    return 0;
}
