/* Tests when copies go in a batch, and the state after the runtime has refused one. */
#include "fixture.h"

#include "cudart_emu.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 4, SIZE = 4096 };

/* The linker puts the wrapper in place of the C library's function (--wrap). */
static bool has_no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return has_no_memory ? NULL : __real_malloc(size);
}

struct calls {
    unsigned batches;
    unsigned copies;
};

static struct calls calls_now(void)
{
    return (struct calls){emu_calls("cudaMemcpyBatchAsync"), emu_calls("cudaMemcpyAsync")};
}

static void expect_calls(struct calls before, unsigned batches, unsigned copies)
{
    const struct calls now = calls_now();
    ck_assert_uint_eq(now.batches - before.batches, batches);
    ck_assert_uint_eq(now.copies - before.copies, copies);
}

static synced_mem_status move_n(bool pull, synced_mem *const *mems, size_t count, synced_mem_stream stream)
{
    return pull ? synced_mem_async_cpu_pull_n(mems, count, stream) : synced_mem_async_gpu_push_n(mems, count, stream);
}

static void write_one(bool gpu, synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    const size_t size = synced_mem_size(mem);
    if (gpu)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), size, pattern, stream);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), size, pattern);
}

static void make_all(synced_mem *mems[COUNT], size_t size, bool gpu, synced_mem_stream stream)
{
    for (unsigned i = 0; i < COUNT; i++) {
        mems[i] = make_on(size, 0);
        write_one(gpu, mems[i], i + 1, stream);
    }
}

static void check_all(synced_mem *const mems[COUNT], unsigned pattern)
{
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), synced_mem_size(mems[i]), i + pattern));
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), synced_mem_size(mems[i]), i + pattern));
    }
}

/* ---- When there is a batch ---- */

START_TEST(by_size)
{
    static const struct {
        size_t size;
        bool pull, batch;
    } cases[] = {{1, false, true},      {4096, false, true},   {4097, false, false}, {16384, false, false},
                 {65535, false, false}, {65536, false, true},  {1, true, true},      {16384, true, true},
                 {1 << 20, true, true}, {1 << 20, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        synced_mem *mems[COUNT];
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        make_all(mems, cases[i].size, cases[i].pull, stream);
        const struct calls before = calls_now();
        OK(move_n(cases[i].pull, mems, COUNT, stream));
        expect_calls(before, cases[i].batch ? 1 : 0, cases[i].batch ? 0 : COUNT);
        check_all(mems, 1);
        release_all(mems, COUNT);
        close_stream(stream);
    }
}
END_TEST

START_TEST(by_stream)
{
    const synced_mem_stream created = open_stream(BLOCKING);
    const synced_mem_stream streams[] = {NULL, LEGACY_HANDLE, cudaStreamPerThread, created};
    for (int i = 0; i < 4; i++) {
        synced_mem *mems[COUNT];
        make_all(mems, SIZE, false, NULL);
        const struct calls before = calls_now();
        OK(move_n(false, mems, COUNT, streams[i]));
        expect_calls(before, i < 2 ? 0 : 1, i < 2 ? COUNT : 0);
        check_all(mems, 1);
        release_all(mems, COUNT);
        gpu_stream_sync(streams[i]);
    }
    OK(synced_mem_forget_stream(cudaStreamPerThread));
    close_stream(created);
}
END_TEST

/* A single copy goes without a batch, as does memory that is not known to be page-locked. */
START_TEST(by_number_and_memory)
{
    synced_mem *mems[COUNT];
    void *const pageable = malloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    pattern_write(pageable, SIZE, 2);
    make_all(mems, SIZE, false, stream);
    OK(synced_mem_set_cpu_data(mems[1], pageable));
    struct calls before = calls_now();
    OK(move_n(false, mems, 1, stream));
    expect_calls(before, 0, 1);
    before = calls_now();
    OK(move_n(false, mems, 3, stream)); /* one is SYNCED, one pageable, one by itself */
    expect_calls(before, 0, 2);
    write_one(false, mems[0], 1, stream);
    before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 1, 0);
    check_all(mems, 1);
    for (unsigned i = 0; i < COUNT; i++)
        write_one(true, mems[i], i + 3, stream);
    before = calls_now();
    OK(move_n(true, mems, COUNT, stream));
    expect_calls(before, 1, 1);
    check_all(mems, 3);
    release_all(mems, COUNT);
    close_stream(stream);
    free(pageable);
}
END_TEST

/* Runtime and driver have batches from 12.8 on. */
START_TEST(an_older_driver)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    emu_set_driver_version(_i ? 12080 : 12070);
    make_all(mems, SIZE, false, stream);
    const struct calls before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, _i ? 1 : 0, _i ? 0 : COUNT);
    check_all(mems, 1);
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* After a driver has refused a batch as unsupported, the library sends no second one. While the driver's version is
 * unknown, it sends none. */
START_TEST(a_driver_without)
{
    static const cudaError_t codes[] = {cudaErrorNotSupported, cudaErrorCallRequiresNewerDriver};
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, false, stream);
    OK(synced_mem_async_gpu_push(mems[3], stream)); /* the pool queries the version too */
    emu_fail("cudaDriverGetVersion", 1, cudaErrorUnknown, false);
    struct calls before = calls_now();
    OK(move_n(false, mems, 2, stream));
    expect_calls(before, 0, 2);
    emu_fail("cudaMemcpyBatchAsync", 1, codes[_i], false);
    for (unsigned i = 0; i < COUNT; i++)
        write_one(false, mems[i], i + 1, stream);
    before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 1, COUNT);
    check_all(mems, 1);
    for (unsigned i = 0; i < COUNT; i++)
        write_one(false, mems[i], i + 2, stream);
    before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 0, COUNT);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    check_all(mems, 2);
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* After the refusal the same call sends no second batch either, for targets that overlap those of the first one. */
START_TEST(a_driver_without_in_one_call)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    char *const device = gpu_alloc(0, (size_t)2 * SIZE);
    make_all(mems, SIZE, false, stream);
    for (unsigned i = 0; i < COUNT; i++) {
        OK(synced_mem_set_gpu_data(mems[i], device + i % 2 * SIZE));
        write_one(false, mems[i], i + 1, stream);
    }
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorNotSupported, false);
    const struct calls before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 1, COUNT);
    for (unsigned i = 0; i < 2; i++)
        ck_assert(device_is(device + i * SIZE, SIZE, i + 3));
    release_all(mems, COUNT);
    close_stream(stream);
    gpu_free(device);
}
END_TEST

/* While a trace runs, each transfer has its own times. */
START_TEST(a_trace)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, false, stream);
    OK(synced_mem_trace_start(NULL));
    struct calls before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 0, COUNT);
    OK(synced_mem_trace_stop());
    for (unsigned i = 0; i < COUNT; i++)
        write_one(false, mems[i], i + 2, stream);
    before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 1, 0);
    check_all(mems, 2);
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* Objects that use one memory go in separate batches. */
START_TEST(one_memory_for_two)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    char *const device = gpu_alloc(0, (size_t)COUNT * SIZE);
    static const size_t places[COUNT] = {0, 2 * SIZE, SIZE, SIZE + 1};
    make_all(mems, SIZE, false, stream);
    for (int i = 0; i < COUNT; i++) {
        OK(synced_mem_set_gpu_data(mems[i], device + places[i]));
        write_one(false, mems[i], (unsigned)i + 1, stream);
    }
    const struct calls before = calls_now();
    OK(move_n(false, mems, COUNT, stream));
    expect_calls(before, 1, 1);
    for (int i = 0; i < 2; i++)
        ck_assert(device_is(device, SIZE, 1));
    ck_assert(device_is(device + SIZE + 1, SIZE, 4));
    release_all(mems, COUNT);
    close_stream(stream);
    gpu_free(device);
}
END_TEST

/* ---- When it is refused ---- */

/* Any copy of a refused batch may run. The heads stay. The host waits for the copies, and the next call moves all
 * objects. */
START_TEST(a_refused_batch)
{
    synced_mem *mems[COUNT];
    const bool pull = _i % 2;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, pull, stream);
    const synced_mem_stats before = stats_now();
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_n(pull, mems, COUNT, stream));
    SAYS("cudaMemcpyBatchAsync");
    ck_assert_uint_eq(stats_now().h2d_transfers + stats_now().d2h_transfers,
                      before.h2d_transfers + before.d2h_transfers);
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), pull ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU);
        if (_i < 2)
            write_one(pull, mems[i], i + 3, stream);
    }
    OK(move_n(pull, mems, COUNT, stream));
    check_all(mems, _i < 2 ? 3 : 1);
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* Memory that a refused batch may still write or read is handed back when the work has ended. */
START_TEST(memory_of_a_refused_batch)
{
    enum { BOTH = 2 };
    synced_mem *mems[BOTH];
    const bool pull = _i % 2;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *memory[BOTH];
    for (unsigned i = 0; i < BOTH; i++) {
        memory[i] = pull ? gpu_pinned_alloc(SIZE) : gpu_alloc(0, SIZE);
        mems[i] = make_on(SIZE, 0);
        OK(pull ? synced_mem_set_cpu_data(mems[i], memory[i]) : synced_mem_set_gpu_data(mems[i], memory[i]));
        write_one(pull, mems[i], i + 1, stream);
    }
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_n(pull, mems, BOTH, stream));
    for (unsigned i = 0; i < BOTH; i++) {
        OK(_i / 2 ? synced_mem_release_data(mems[i]) : synced_mem_release(mems[i]));
        if (pull)
            host_fill(memory[i], SIZE, 9); /* the caller's again */
        else
            gpu_free(memory[i]);
    }
    gpu_stream_sync(stream);
    for (unsigned i = 0; i < BOTH && pull; i++) {
        ck_assert(host_is(memory[i], SIZE, 9));
        gpu_pinned_free(memory[i]);
    }
    for (unsigned i = 0; i < BOTH && _i / 2; i++)
        OK(synced_mem_release(mems[i]));
    close_stream(stream);
}
END_TEST

/* After a refused pull the writing stream goes on, behind the copies that may run. */
START_TEST(the_writer_of_a_refused_pull)
{
    synced_mem *mems[COUNT];
    void *data[COUNT];
    synced_mem_stream kernels = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        data[i] = synced_mem_overwrite_gpu_data_on(mems[i], kernels);
        gpu_fill(data[i], SIZE, 1, kernels);
    }
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_n(true, mems, COUNT, stream));
    for (unsigned i = 0; i < COUNT; i++)
        gpu_fill(data[i], SIZE, i + 5, kernels);
    check_all(mems, 5);
    release_all(mems, COUNT);
    CLOSE_EACH(kernels, stream);
}
END_TEST

/* If a later object fails, nothing of the batch is queued. The next use of device memory that was obtained for the
 * batch comes after the allocation. */
START_TEST(a_batch_that_is_not_sent)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, false, stream);
    OK(synced_mem_resize_discard(mems[COUNT - 1], 16384));
    write_one(false, mems[COUNT - 1], COUNT, stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    const synced_mem_stats before = stats_now();
    const struct calls calls = calls_now();
    gpu_delay(stream);
    FAILS(SYNCED_MEM_ERR_CUDA, move_n(false, mems, COUNT, stream));
    expect_calls(calls, 0, 1);
    ck_assert_uint_eq(stats_now().h2d_transfers, before.h2d_transfers);
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_AT_CPU);
        OK(synced_mem_async_gpu_push(mems[i], other));
    }
    check_all(mems, 1);
    release_all(mems, COUNT);
    CLOSE_EACH(stream, other);
}
END_TEST

/* The first of two objects that use one memory is refused when the second makes a batch of its own. */
START_TEST(a_batch_that_is_sent_early)
{
    enum { BOTH = 3 };
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const device = gpu_alloc(0, SIZE);
    make_all(mems, SIZE, false, stream);
    OK(synced_mem_set_gpu_data(mems[1], device));
    OK(synced_mem_set_gpu_data(mems[2], device));
    for (unsigned i = 0; i < COUNT; i++)
        write_one(false, mems[i], i + 1, stream);
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_n(false, mems, COUNT, stream));
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_AT_CPU);
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, i + 1));
    }
    release_all(mems, COUNT);
    close_stream(stream);
    gpu_free(device);
}
END_TEST

static void refuse_batch_and_event(synced_mem *const mems[COUNT], bool pull, synced_mem_stream stream)
{
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_n(pull, mems, COUNT, stream));
    SAYS("cudaMemcpyBatchAsync");
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert_int_eq(synced_mem_head(mems[i]), pull ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU);
}

/* No event can be recorded behind a refused batch: the call waits for the stream. */
START_TEST(no_event_behind_a_refused_batch)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, _i, stream);
    refuse_batch_and_event(mems, _i, stream);
    ck_assert_uint_eq(emu_pending(), 0);
    for (unsigned i = 0; i < COUNT; i++)
        write_one(_i, mems[i], i + 7, stream);
    OK(move_n(_i, mems, COUNT, stream));
    check_all(mems, 7);
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* If neither an event nor a wait is possible behind a refused batch, the end of its copies is unknown. Memory
 * that they may write is not used again. */
START_TEST(no_end_of_a_refused_batch)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, _i, stream);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    refuse_batch_and_event(mems, _i, stream);
    gpu_stream_sync(stream);
    OK(move_n(_i, mems, COUNT, stream));
    ck_assert_uint_eq(stats_now().quarantined, COUNT);
    check_all(mems, 1);
    release_all(mems, COUNT);
    close_stream(stream);
    (void)synced_mem_shutdown();
    emu_reset(0);
}
END_TEST

/* The device is lost in the call. */
START_TEST(a_lost_device)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_all(mems, SIZE, false, stream);
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorIllegalAddress, true);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, move_n(false, mems, COUNT, stream));
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_AT_CPU);
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, i + 1));
    }
    release_all(mems, COUNT);
}
END_TEST

START_TEST(no_memory_for_the_call)
{
    synced_mem *mems[COUNT];
    synced_mem_stream stream = gpu_stream_create(0, false);
    make_all(mems, SIZE, _i, stream);
    const struct calls before = calls_now();
    has_no_memory = true;
    const synced_mem_status status = move_n(_i, mems, COUNT, stream);
    has_no_memory = false;
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    SAYS("keep track of 4 transfers");
    expect_calls(before, 0, 0);
    OK(move_n(_i, mems, COUNT, stream));
    check_all(mems, 1);
    release_all(mems, COUNT);
    gpu_stream_destroy(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("batch_failures");
    TCase *const tests = add_case(made, "batches");
    add_tests(tests, by_size, by_stream, by_number_and_memory, a_driver_without_in_one_call, a_trace,
              one_memory_for_two);
    tcase_add_loop_test(tests, an_older_driver, 0, 2);
    tcase_add_loop_test(tests, a_driver_without, 0, 2);
    TCase *const refused = add_case(made, "refused");
    add_tests(refused, the_writer_of_a_refused_pull, a_batch_that_is_not_sent, a_batch_that_is_sent_early);
    tcase_add_loop_test(refused, no_memory_for_the_call, 0, 2);
    tcase_add_loop_test(refused, a_refused_batch, 0, 4);
    tcase_add_loop_test(refused, memory_of_a_refused_batch, 0, 4);
    tcase_add_loop_test(refused, no_event_behind_a_refused_batch, 0, 2);
    TCase *const lost = add_case_without_end(made, "lost");
    tcase_add_test(lost, a_lost_device);
    tcase_add_loop_test(lost, no_end_of_a_refused_batch, 0, 2);
    return made;
}
