/* Checks programs that repeat their steps. Neither the library's records nor its calls of the runtime increase. */
#include "fixture.h"

#include "copy/inflight.h"
#include "object/object.h"

#include <pthread.h>

enum { SIZE = 64, STEPS = 500, FEW = 40, FEW_EVENTS = 60 };

static unsigned length(const struct sm_use *use)
{
    unsigned count = 0;
    for (; use; use = use->next)
        count++;
    return count;
}

/* Counts the entries of the lists that each call walks. */
static unsigned noted(const synced_mem *mem)
{
    unsigned count = 0;
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(&mem->record, side))
            count += length(sm_copy_of(&mem->record, side)->reads) + length(sm_copy_of(&mem->record, side)->covered);
    return count;
}

static void check_few(const synced_mem *mem)
{
    ck_assert_uint_le(noted(mem), FEW);
    ck_assert_uint_le(stats_now().events, FEW_EVENTS);
    ck_assert_uint_le(stats_now().retired, FEW);
}

/* Forgets and destroys the stream. Its work may still be pending when it is forgotten. */
static void end_stream(synced_mem_stream stream, bool wait)
{
    if (wait)
        gpu_stream_sync(stream);
    OK(synced_mem_forget_stream(stream));
    if (!wait)
        gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}

/* ---- A new stream in every step ---- */

/* Pushes the weights and reads them. Only the device copy is released, so the host copy's records of transfers stay. */
static void push_and_read(synced_mem *mem, synced_mem_stream stream)
{
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
}

static void push_only(synced_mem *mem, synced_mem_stream stream)
{
    OK(synced_mem_async_gpu_push(mem, stream));
}

/* Each open write comes after a transfer from the device copy. The transfer is a covered read: only a release of the
 * memory has to wait for it. */
static void write_and_pull(synced_mem *mem, synced_mem_stream stream)
{
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, stream));
    OK(synced_mem_async_cpu_pull(mem, stream));
}

static void read_only(synced_mem *mem, synced_mem_stream stream)
{
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
}

static void (*const steps[])(synced_mem *, synced_mem_stream) = {push_and_read, push_only, write_and_pull, read_only};
enum { KINDS_OF_STEPS = sizeof steps / sizeof steps[0] };

START_TEST(a_new_stream_every_step)
{
    const bool wait = _i % 2;
    keep_no_spares(); /* cached memory has events until its work is known to have ended */
    synced_mem *const mem = make_on(SIZE, 0);
    unsigned early = 0;
    unsigned late = 0;
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    for (int step = 0; step < STEPS; step++) {
        const unsigned calls = gpu_calls(NULL);
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        steps[_i / 2](mem, stream);
        end_stream(stream, wait);
        if (_i / 2 < 2)
            OK(synced_mem_release_gpu_data(mem));
        check_few(mem);
        if (step / 100 == 1)
            early += gpu_calls(NULL) - calls;
        if (step / 100 == 4)
            late += gpu_calls(NULL) - calls;
    }
    ck_assert_msg(late <= early + early / 2, "%u calls of the runtime in 100 steps, %u before", late, early);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- A new thread in every step ---- */

static synced_mem *shared;

static void *read_in_a_thread(void *out)
{
    *(const void **)out = synced_mem_gpu_data_on(shared, SM_HANDLE_PER_THREAD);
    return NULL;
}

/* The default stream of a thread ends without a call of the library. */
START_TEST(a_new_thread_every_step)
{
    unsigned early = 0;
    unsigned late = 0;
    if (!gpu_expected() || !gpu_has_per_thread_stream())
        return;
    shared = make_at_cpu(SIZE, 1);
    const void *const data = synced_mem_gpu_data(shared);
    for (int step = 0; step < STEPS; step++) {
        pthread_t thread;
        const void *got = NULL;
        const unsigned calls = gpu_calls(NULL);
        ck_assert_int_eq(pthread_create(&thread, NULL, read_in_a_thread, &got), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_ptr_eq(got, data);
        check_few(shared);
        if (step / 100 == 1)
            early += gpu_calls(NULL) - calls;
        if (step / 100 == 4)
            late += gpu_calls(NULL) - calls;
    }
    ck_assert_msg(late <= early + early / 2, "%u calls of the runtime in 100 steps, %u before", late, early);
    host_fill(synced_mem_mutable_cpu_data(shared), SIZE, 2);
    ck_assert(device_is(synced_mem_gpu_data(shared), SIZE, 2));
    OK(synced_mem_release(shared));
}
END_TEST

/* ---- The same streams in every step ---- */

/* A stream that has the pointer gets it again without a call of the runtime. This holds if several streams read in
 * turn, and while other memory waits for its last use. */
START_TEST(readers_in_turn_ask_nothing)
{
    enum { MOST = 6, TURNS = 100 };
    synced_mem_stream streams[MOST];
    const int readers = _i;
    for (int i = 0; i < readers; i++)
        streams[i] = open_stream(i % 2 ? NON_BLOCKING : BLOCKING);
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    synced_mem *const other = make_at_cpu(SIZE, 2);
    for (int i = 0; i < readers; i++)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[i]));
    OK(synced_mem_async_gpu_push(other, streams[0]));
    OK(synced_mem_release(other));
    const unsigned calls = gpu_calls(NULL);
    const synced_mem_stats before = stats_now();
    for (int turn = 0; turn < TURNS; turn++)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[turn % readers]));
    ck_assert_uint_eq(gpu_calls(NULL), calls);
    ck_assert_uint_eq(stats_now().event_records, before.event_records);
    ck_assert_uint_eq(stats_now().stream_waits, before.stream_waits);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
    for (int i = 0; i < readers; i++)
        close_stream(streams[i]);
}
END_TEST

/*
 * A training loop. An input goes up on a stream for copies. Kernels read it and the weights, and write a result, which
 * comes back. Each step has these hazards, and pays for nothing else:
 * - events: behind the push, the pull, the kernels that read the last input, and those that wrote the result
 * - stream waits: of the push for those readers, of the kernels for the push, of the pull for the kernels
 * - host waits: until the last push has read the input's memory, and for the pull
 */
START_TEST(steady_state)
{
    enum { WARM_UP = 10, EVENTS = 4, STREAM_WAITS = 3, HOST_WAITS = 2 };
    synced_mem_stats before = {.struct_size = sizeof before};
    const unsigned fills = old_pointers_fault() ? 1 : 0; /* of memory that an overwrite on a stream returns */
    unsigned created = 0;
    synced_mem_stream copies = open_stream(NON_BLOCKING);
    synced_mem_stream kernels = open_stream(NON_BLOCKING);
    synced_mem *const input = make_on(64, 0);
    synced_mem *const weights = make_on(64, 0);
    synced_mem *const result = make_on(64, 0);
    for (unsigned step = 0; step < WARM_UP + STEPS; step++) {
        if (step == WARM_UP) {
            before = stats_now();
            created = gpu_calls("cudaEventCreateWithFlags") + gpu_calls("cudaEventDestroy");
        }
        host_fill(synced_mem_overwrite_cpu_data(input), 64, step + 1);
        OK(synced_mem_async_gpu_push(input, copies));
        const void *const from = synced_mem_gpu_data_on(input, kernels);
        gpu_fill(synced_mem_mutable_gpu_data_on(weights, kernels), 64, step, kernels);
        gpu_copy(synced_mem_overwrite_gpu_data_on(result, kernels), from, 64, kernels);
        OK(synced_mem_async_cpu_pull(result, copies));
        ck_assert(host_is(synced_mem_cpu_data(result), 64, step + 1));
    }
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.event_records - before.event_records, STEPS * (EVENTS + fills));
    ck_assert_uint_eq(after.stream_waits - before.stream_waits, STEPS * STREAM_WAITS);
    ck_assert_uint_eq(after.host_waits - before.host_waits, STEPS * HOST_WAITS);
    ck_assert_uint_eq(after.events, before.events);
    ck_assert_uint_eq(after.host_allocations, before.host_allocations);
    ck_assert_uint_eq(after.gpu_allocations, before.gpu_allocations);
    ck_assert_uint_eq(gpu_calls("cudaEventCreateWithFlags") + gpu_calls("cudaEventDestroy"), created);
    RELEASE_EACH(input, weights, result);
    CLOSE_EACH(copies, kernels);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("steady");
    TCase *const tests = add_case(made, "steady");
    tcase_add_test(tests, a_new_thread_every_step);
    add_gpu_loop_test(tests, a_new_stream_every_step, 0, 2 * KINDS_OF_STEPS);
    add_gpu_loop_test(tests, readers_in_turn_ask_nothing, 1, 7);
    add_gpu_tests(tests, steady_state);
    return made;
}
