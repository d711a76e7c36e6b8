/* Checks streams that capture graphs: the calls that still succeed and those that are refused. No call disturbs a
 * capture. */
#include "fixture.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 4096, MODES = 3 };

#define MUST(call) ck_assert_msg((call) == cudaSuccess, "%s", #call)

static synced_mem_stream captured;

static bool has_device(void)
{
    return devices() > 0;
}

static void begin(enum cudaStreamCaptureMode mode, bool blocking)
{
    captured = gpu_stream_create(0, blocking);
    MUST(cudaStreamBeginCapture(captured, mode));
}

static cudaGraph_t end(void)
{
    cudaGraph_t graph = NULL;
    const cudaError_t code = cudaStreamEndCapture(captured, &graph);
    ck_assert_msg(code == cudaSuccess, "the capture ended with %s", cudaGetErrorName(code));
    return graph;
}

/* Ends the capture, which must have succeeded, with an empty graph. */
static void end_empty(void)
{
    cudaGraph_t graph = end();
    size_t nodes = 1;
    MUST(cudaGraphGetNodes(graph, NULL, &nodes));
    ck_assert_uint_eq(nodes, 0);
    MUST(cudaGraphDestroy(graph));
    OK(synced_mem_forget_stream(captured));
    gpu_stream_destroy(captured);
}

/* The placement of the objects' memory. */
enum { PLACEMENTS = 3 };
static synced_mem_placement_kind placement;

/* Selects the placement. Returns whether there is a device that supports it. */
static bool is_placed(int which)
{
    int concurrent = 1;
    placement = (synced_mem_placement_kind)which;
    if (has_device() && placement == SYNCED_MEM_PLACEMENT_MANAGED)
        MUST(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    return has_device() && concurrent;
}

static synced_mem *make_with_head(synced_mem_head_kind head)
{
    synced_mem *const mem = make_placed_on(SIZE, placement, 0);
    if (head == SYNCED_MEM_AT_CPU)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 3);
    if (head == SYNCED_MEM_AT_GPU || head == SYNCED_MEM_SYNCED)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, NULL), SIZE, 3, NULL);
    if (head == SYNCED_MEM_SYNCED)
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), head);
    return mem;
}

/* ---- Calls on the capturing stream ---- */

static const void *read_on(synced_mem *mem, synced_mem_stream stream)
{
    return synced_mem_gpu_data_on(mem, stream);
}

static const void *change_on(synced_mem *mem, synced_mem_stream stream)
{
    return synced_mem_mutable_gpu_data_on(mem, stream);
}

static const void *overwrite_on(synced_mem *mem, synced_mem_stream stream)
{
    return synced_mem_overwrite_gpu_data_on(mem, stream);
}

static const struct {
    synced_mem_head_kind head;
    const void *(*access)(synced_mem *, synced_mem_stream);
    bool succeeds;
} accesses[] = {
    {SYNCED_MEM_UNINITIALIZED, read_on, false},
    {SYNCED_MEM_UNINITIALIZED, change_on, false},
    {SYNCED_MEM_UNINITIALIZED, overwrite_on, false},
    {SYNCED_MEM_AT_CPU, read_on, false},
    {SYNCED_MEM_AT_CPU, change_on, false},
    {SYNCED_MEM_AT_CPU, overwrite_on, false},
    {SYNCED_MEM_AT_GPU, read_on, true},
    {SYNCED_MEM_AT_GPU, change_on, true},
    {SYNCED_MEM_AT_GPU, overwrite_on, true},
    {SYNCED_MEM_SYNCED, read_on, true},
    {SYNCED_MEM_SYNCED, change_on, false},
    {SYNCED_MEM_SYNCED, overwrite_on, false},
};
enum { ACCESSES = sizeof accesses / sizeof accesses[0] };

START_TEST(access_while_capturing)
{
    const int which = _i % ACCESSES;
    if (!is_placed(_i / ACCESSES))
        return;
    synced_mem *const mem = make_with_head(accesses[which].head);
    begin(cudaStreamCaptureModeGlobal, false);
    if (accesses[which].succeeds) {
        const void *const data = accesses[which].access(mem, captured);
        ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    } else {
        FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, accesses[which].access(mem, captured));
    }
    ck_assert_int_eq(synced_mem_head(mem), accesses[which].head);
    end_empty();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, accesses[which].head ? 3 : 0));
    OK(synced_mem_release(mem));
}
END_TEST

/* The hot path too returns the pointer, and adds nothing to the graph. */
START_TEST(hot_while_capturing)
{
    if (!is_placed(_i))
        return;
    synced_mem *const mem = make_with_head(SYNCED_MEM_AT_GPU);
    synced_mem_stream const stream = gpu_stream_create(0, false);
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    gpu_fill(data, SIZE, 4, stream);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(mem, stream), data);
    captured = stream;
    end_empty();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(other_calls_on_the_stream)
{
    if (!has_device())
        return;
    synced_mem *const at_cpu = make_with_head(SYNCED_MEM_AT_CPU);
    synced_mem *const at_gpu = make_with_head(SYNCED_MEM_AT_GPU);
    synced_mem *const mems[] = {at_cpu};
    void *const borrowed = malloc(SIZE);
    begin(cudaStreamCaptureModeGlobal, false);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push(at_cpu, captured));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push_n(mems, 1, captured));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_cpu_pull(at_gpu, captured));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_end_use_on(at_gpu, captured));
    FAILS(SYNCED_MEM_ERR_CAPTURING, USE(at_cpu, .cpu_data = borrowed, .stream = captured));
    SAYS("capturing");
    ck_assert_int_eq(synced_mem_head(at_cpu), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_head(at_gpu), SYNCED_MEM_AT_GPU);
    end_empty();
    free(borrowed);
    RELEASE_EACH(at_cpu, at_gpu);
}
END_TEST

/* ---- Calls elsewhere that would have to wait for the capturing stream ---- */

static synced_mem *used_by_captured(bool writing)
{
    synced_mem *const mem = make_with_head(SYNCED_MEM_AT_GPU);
    captured = gpu_stream_create(0, false);
    if (writing)
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, captured), SIZE, 5, captured);
    else
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, captured));
    MUST(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    return mem;
}

START_TEST(waiting_for_a_writer)
{
    if (!is_placed(_i))
        return;
    synced_mem *const mem = used_by_captured(true);
    synced_mem_stream const other = gpu_stream_create(0, false);
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(mem, other));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_cpu_pull(mem, other));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_release_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_forget_stream(captured));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    end_empty();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 5));
    OK(synced_mem_forget_stream(other));
    gpu_stream_destroy(other);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(waiting_for_a_reader)
{
    if (!is_placed(_i))
        return;
    synced_mem *const mem = used_by_captured(false);
    synced_mem_stream const other = gpu_stream_create(0, false);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3)); /* no conflict */
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, other));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_mutable_gpu_data_on(mem, other));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_mutable_gpu_data(mem));
    if (placement != SYNCED_MEM_PLACEMENT_SEPARATE)
        FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_mutable_cpu_data(mem));
    end_empty();
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, other));
    OK(synced_mem_forget_stream(other));
    gpu_stream_destroy(other);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(release_is_deferred)
{
    if (!is_placed(_i))
        return;
    keep_no_spares();
    OK(synced_mem_release(used_by_captured(true)));
    ck_assert_uint_eq(stats_now().retired, 1);
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 1);
    end_empty();
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
}
END_TEST

/* Kernels on a pointer that was requested without a stream can only be waited for on the legacy stream. */
START_TEST(legacy_while_a_blocking_stream_captures)
{
    if (!is_placed(_i))
        return;
    synced_mem *const mem = make_with_head(SYNCED_MEM_AT_GPU);
    synced_mem *const at_cpu = make_with_head(SYNCED_MEM_AT_CPU);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 6, NULL);
    begin(cudaStreamCaptureModeRelaxed, true);
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_mutable_gpu_data_on(mem, NULL));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push(at_cpu, NULL));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(at_cpu)); /* needs no work on the legacy stream */
    end_empty();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 6));
    RELEASE_EACH(mem, at_cpu);
}
END_TEST

/* Kernels may use a pointer that was requested without a stream, even after an access by the host. A transfer comes
 * behind them on any stream, so it needs an event on the legacy stream. */
START_TEST(transfers_to_old_pointers)
{
    if (!has_device())
        return;
    synced_mem_stream const other = gpu_stream_create(0, false);
    synced_mem *const old = make_on(SIZE, 0);
    synced_mem *const on_streams = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(old));
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(on_streams, other));
    host_fill(synced_mem_mutable_cpu_data(old), SIZE, 3); /* ends all known uses */
    host_fill(synced_mem_mutable_cpu_data(on_streams), SIZE, 4);
    begin(cudaStreamCaptureModeRelaxed, true);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push(old, other));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(old, other));
    ck_assert_int_eq(synced_mem_head(old), SYNCED_MEM_AT_CPU);
    OK(synced_mem_async_gpu_push(on_streams, other));
    end_empty();
    OK(synced_mem_async_gpu_push(old, other));
    OK(synced_mem_release_cpu_data(old));
    ck_assert(host_is(synced_mem_cpu_data(old), SIZE, 3));
    OK(synced_mem_forget_stream(other));
    RELEASE_EACH(old, on_streams);
    gpu_stream_destroy(other);
}
END_TEST

/* ---- Calls elsewhere that need no wait ---- */

/* Makes every kind of runtime call: allocations, transfers, waits, frees. Returns the step that failed, or NULL. */
static const char *live_a_life(synced_mem_stream other)
{
    synced_mem *mem;
    synced_mem_options options = default_options();
    options.device = 0;
    options.placement = placement;
    if (synced_mem_create(&mem, SIZE, &options) != SYNCED_MEM_OK || !synced_mem_mutable_cpu_data(mem))
        return "host";
    if (synced_mem_async_gpu_push(mem, other) != SYNCED_MEM_OK || !synced_mem_mutable_gpu_data_on(mem, other))
        return "push";
    if (synced_mem_async_cpu_pull(mem, other) != SYNCED_MEM_OK || !synced_mem_cpu_data(mem))
        return "pull";
    if (!synced_mem_overwrite_cpu_data(mem) || !synced_mem_gpu_data(mem) || !synced_mem_mutable_gpu_data_on(mem, other))
        return "both";
    if (synced_mem_resize(mem, 4 * SIZE) != SYNCED_MEM_OK || synced_mem_release_cpu_data(mem) != SYNCED_MEM_OK)
        return "resize";
    if (synced_mem_end_use_on(mem, other) != SYNCED_MEM_OK || synced_mem_release(mem) != SYNCED_MEM_OK)
        return "release";
    return synced_mem_forget_stream(other) == SYNCED_MEM_OK ? NULL : "done";
}

static const char *what_failed;
static char why[512];

static void *live_in_a_thread(void *other)
{
    what_failed = live_a_life(other);
    (void)snprintf(why, sizeof why, "%s", synced_mem_last_error_message());
    return NULL;
}

static const enum cudaStreamCaptureMode modes[MODES] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                                        cudaStreamCaptureModeRelaxed};

START_TEST(work_elsewhere_goes_on)
{
    pthread_t thread;
    enum cudaStreamCaptureMode mode = modes[(_i / 2) % MODES];
    if (!is_placed(_i / (4 * MODES)))
        return;
    synced_mem_stream const other = gpu_stream_create(0, false);
    begin(modes[_i % MODES], false);
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    if (_i % (4 * MODES) < 2 * MODES) {
        (void)live_in_a_thread(other);
    } else {
        ck_assert_int_eq(pthread_create(&thread, NULL, live_in_a_thread, other), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    ck_assert_msg(!what_failed, "%s: %s", what_failed, why);
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, modes[(_i / 2) % MODES]); /* the library has restored it */
    end_empty();
    gpu_stream_destroy(other);
}
END_TEST

/* ---- A step that is captured once and replayed ---- */

struct step {
    synced_mem *batch, *weights, *result;
    cudaGraphExec_t graph;
};

/* Captures copies in place of kernels: from the batch to the weights, and from the weights to the result. */
static void capture_step(struct step *step)
{
    begin(cudaStreamCaptureModeGlobal, false);
    const void *const batch = synced_mem_gpu_data_on(step->batch, captured);
    void *const weights = synced_mem_mutable_gpu_data_on(step->weights, captured);
    void *const result = synced_mem_overwrite_gpu_data_on(step->result, captured);
    ck_assert(batch && weights && result);
    gpu_copy(weights, batch, SIZE, captured);
    gpu_copy(result, weights, SIZE, captured);
    cudaGraph_t graph = end();
    MUST(cudaGraphInstantiateWithFlags(&step->graph, graph, 0));
    MUST(cudaGraphDestroy(graph));
    OK(synced_mem_forget_stream(captured));
    gpu_stream_destroy(captured);
}

static void replay(const struct step *step, unsigned pattern, synced_mem_stream stream)
{
    host_fill(synced_mem_mutable_cpu_data(step->batch), SIZE, pattern);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(step->batch, stream));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(step->weights, stream));
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(step->result, stream));
    MUST(cudaGraphLaunch(step->graph, stream));
    if (pattern % 3 == 0)
        ck_assert(host_is(synced_mem_cpu_data(step->result), SIZE, pattern));
}

START_TEST(replayed_step)
{
    enum { REPLAYS = 1000 };
    if (!is_placed(_i))
        return;
    struct step step = {make_with_head(SYNCED_MEM_AT_GPU), make_with_head(SYNCED_MEM_AT_GPU),
                        make_with_head(SYNCED_MEM_AT_GPU), NULL};
    synced_mem_stream const streams[] = {gpu_stream_create(0, false), gpu_stream_create(0, true)};
    capture_step(&step);
    for (unsigned i = 1; i <= REPLAYS; i++)
        replay(&step, i, streams[i / 7 % 2]);
    ck_assert(host_is(synced_mem_cpu_data(step.weights), SIZE, REPLAYS));
    MUST(cudaGraphExecDestroy(step.graph));
    for (int i = 0; i < 2; i++) {
        OK(synced_mem_forget_stream(streams[i]));
        gpu_stream_sync(streams[i]);
        gpu_stream_destroy(streams[i]);
    }
    RELEASE_EACH(step.batch, step.weights, step.result);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("capture");
    TCase *const on = add_case(made, "on the stream");
    TCase *const elsewhere = add_case(made, "elsewhere");
    tcase_add_test(on, other_calls_on_the_stream);
    tcase_add_loop_test(on, access_while_capturing, 0, PLACEMENTS * ACCESSES);
    tcase_add_loop_test(on, hot_while_capturing, 0, PLACEMENTS);
    tcase_add_loop_test(on, replayed_step, 0, PLACEMENTS);
    tcase_add_test(elsewhere, transfers_to_old_pointers);
    tcase_add_loop_test(elsewhere, waiting_for_a_writer, 0, PLACEMENTS);
    tcase_add_loop_test(elsewhere, waiting_for_a_reader, 0, PLACEMENTS);
    tcase_add_loop_test(elsewhere, release_is_deferred, 0, PLACEMENTS);
    tcase_add_loop_test(elsewhere, legacy_while_a_blocking_stream_captures, 0, PLACEMENTS);
    tcase_add_loop_test(elsewhere, work_elsewhere_goes_on, 0, PLACEMENTS * 4 * MODES);
    return made;
}
