/* The emulated runtime: kernels are functions, which it runs as late as its seed decides. */
#include "gpu.h"

#include "gpu_cudart.h"

#include "cudart_emu.h"
#include "device/device.h"
#include "pattern.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Every seed is another order of execution. Seed 0 runs everything as late as possible. */
enum { SEEDS = 21, DEVICES = 4 };

bool gpu_is_emulated(void)
{
    return true;
}

int gpu_schedules(void)
{
    return SEEDS;
}

static bool first_schedule;

int gpu_start(unsigned schedule)
{
    first_schedule = schedule == 0;
    emu_reset(schedule);
    sm_device_pool_warm_beside(false);
    return DEVICES;
}

void gpu_check_nothing_left(void)
{
    static const char *const names[EMU_KINDS] = {
        [EMU_DEVICE_MEMORY] = "device memory",
        [EMU_PINNED] = "page-locked memory",
        [EMU_REGISTERED] = "registrations",
        [EMU_MANAGED] = "managed memory",
        [EMU_STREAM] = "streams",
        [EMU_EVENT] = "events",
        [EMU_POOL] = "pools",
        [EMU_GRAPH] = "graphs",
        [EMU_GRAPH_EXEC] = "executable graphs",
        [EMU_MEMORY_HANDLE] = "handles of shared memory",
        [EMU_ADDRESS_RANGE] = "ranges of addresses",
        [EMU_LIBRARY] = "libraries of kernels",
    };
    for (int kind = 0; kind < EMU_KINDS; kind++)
        ck_assert_msg(emu_live((enum emu_kind)kind) == 0, "%zu %s left", emu_live((enum emu_kind)kind), names[kind]);
}

/* ---- Kernels ---- */

/* A fill, or a copy if from is set. */
struct work {
    void *to;
    const void *from;
    size_t size;
    unsigned pattern;
    struct work *next;
};

/* All launched work, kept to the end of the test: on a broken device a kernel never runs. Several threads may launch.
 * */
static _Atomic(struct work *) launched;

static void run(void *argument)
{
    const struct work *const work = argument;
    if (work->from)
        memcpy(emu_pointer(work->to), emu_pointer(work->from), work->size);
    else
        pattern_write(emu_pointer(work->to), work->size, work->pattern);
}

static bool try_launch(struct work wanted, synced_mem_stream stream)
{
    const struct emu_range ranges[] = {{.data = wanted.to, .size = wanted.size, .write = true},
                                       {.data = wanted.from, .size = wanted.size, .write = false}};
    struct work *const work = malloc(sizeof *work);
    ck_assert_ptr_nonnull(work);
    *work = wanted;
    work->next = atomic_load(&launched);
    while (!atomic_compare_exchange_weak(&launched, &work->next, work))
        continue;
    if (emu_launch(stream, run, work, ranges, wanted.from ? 2 : 1) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    return try_launch((struct work){.to = data, .size = size, .pattern = pattern}, stream);
}

bool gpu_try_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    return try_launch((struct work){.to = to, .from = from, .size = size}, stream);
}

/* Adds nothing, as work runs late anyway. */
void gpu_delay(synced_mem_stream stream)
{
    (void)stream;
}

bool gpu_is_busy(const synced_mem_stream *streams, int count)
{
    (void)streams, (void)count;
    return emu_pending() > 0;
}

void gpu_pause(synced_mem_stream stream)
{
    (void)stream;
}

/* A host function writes through the host's pointer, as the host may protect that memory in debug mode. */
static void run_host_fill(void *argument)
{
    const struct work *const work = argument;
    pattern_write(work->to, work->size, work->pattern);
    free(argument);
}

void gpu_fill_host(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    const struct emu_range range = {.data = data, .size = size, .write = true};
    struct work *const work = malloc(sizeof *work);
    ck_assert_ptr_nonnull(work);
    *work = (struct work){.to = data, .size = size, .pattern = pattern};
    MUST(emu_launch(stream, run_host_fill, work, &range, 1));
}

struct expectation {
    const void *data;
    size_t size;
    unsigned char expected[];
};

static atomic_uint mismatches;

static void run_comparison(void *argument)
{
    struct expectation *const expectation = argument;
    if (memcmp(emu_pointer(expectation->data), expectation->expected, expectation->size) != 0)
        atomic_fetch_add(&mismatches, 1);
    free(expectation);
}

void gpu_expect(const void *data, size_t size, const void *expected, synced_mem_stream stream)
{
    const struct emu_range range = {.data = data, .size = size, .write = false};
    struct expectation *const expectation = malloc(sizeof *expectation + size);
    ck_assert_ptr_nonnull(expectation);
    expectation->data = data;
    expectation->size = size;
    memcpy(expectation->expected, expected, size);
    MUST(emu_launch(stream, run_comparison, expectation, &range, 1));
}

unsigned gpu_mismatches(bool all)
{
    if (all)
        emu_run_all();
    return atomic_load(&mismatches);
}

void gpu_read(void *to, const void *from, size_t size)
{
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost));
}

/* ---- Failures ---- */

bool gpu_fail(unsigned which, unsigned nth)
{
    static const char *const kinds[] = {"cudaMemcpyAsync",      "cudaMemcpyAsync", "cudaEventRecord",
                                        "cudaEventSynchronize", "cudaEventQuery",  "cudaStreamWaitEvent"};
    emu_fail(kinds[which % (sizeof kinds / sizeof *kinds)], nth, cudaErrorUnknown, false);
    return true;
}

void gpu_fail_no_more(void)
{
    emu_fail_clear();
}

/* ---- Numbers of the runtime ---- */

static void add_up(const char *call, unsigned count, void *sum)
{
    (void)call;
    *(unsigned *)sum += count;
}

unsigned gpu_calls(const char *call)
{
    unsigned sum = 0;
    if (call)
        return emu_calls(call);
    emu_each_call(add_up, &sum);
    return sum;
}

/* Under the first schedule work runs only when something forces it. */
size_t gpu_unfinished(void)
{
    return first_schedule ? emu_pending() : 0;
}

void gpu_note_host_read(const void *data, size_t size)
{
    emu_host_read(data, size);
}

void gpu_note_host_write(const void *data, size_t size)
{
    emu_host_write(data, size);
}
