/* Checks a push and a pull of one object that goes at once (move_one.h), where a step of it fails. */
#include "fixture.h"

#include "copy/inflight.h"
#include "cudart_emu.h"

enum { SIZE = 5000 };

/* The linker puts the wrapper in place of the library's function (--wrap). */
static bool is_refused;

struct sm_use *__real_sm_inflight_reserve(void);
struct sm_use *__wrap_sm_inflight_reserve(void);
struct sm_use *__wrap_sm_inflight_reserve(void)
{
    return is_refused ? NULL : __real_sm_inflight_reserve();
}

static struct {
    synced_mem *mem;
    synced_mem_stream stream;
    bool pulls;
} it;

/* Makes an object with both copies, whose contents are on one side. */
static void begin(bool pulls)
{
    it.pulls = pulls;
    it.stream = open_stream(NON_BLOCKING);
    it.mem = make_on(SIZE, 0);
    host_fill(given(synced_mem_overwrite_cpu_data(it.mem)), SIZE, 1);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    if (pulls)
        gpu_fill(given(synced_mem_mutable_gpu_data_on(it.mem, it.stream)), SIZE, 2, it.stream);
    else
        host_fill(given(synced_mem_mutable_cpu_data(it.mem)), SIZE, 2);
}

static synced_mem_status move_it(void)
{
    return it.pulls ? synced_mem_async_cpu_pull(it.mem, it.stream) : synced_mem_async_gpu_push(it.mem, it.stream);
}

static void expect_head(bool moved)
{
    ck_assert_int_eq(synced_mem_head(it.mem), moved      ? SYNCED_MEM_SYNCED
                                              : it.pulls ? SYNCED_MEM_AT_GPU
                                                         : SYNCED_MEM_AT_CPU);
}

/* Moves the object after the failure, and checks the contents on both sides. */
static void move_and_end(void)
{
    OK(move_it());
    expect_head(true);
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.mem, it.stream)), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 2));
    OK(synced_mem_release(it.mem));
    close_stream(it.stream);
}

START_TEST(no_memory_for_the_reader)
{
    begin(_i);
    is_refused = true;
    const synced_mem_status status = move_it();
    is_refused = false;
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    expect_head(false);
    move_and_end();
}
END_TEST

/* Nobody knows when the transfer ends, so neither copy's memory is freed before the device is done. */
START_TEST(no_event_and_no_wait)
{
    begin(_i);
    gpu_hold(it.stream);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_it());
    ck_assert_uint_eq(emu_failures(), 2);
    emu_fail_clear();
    expect_head(false);
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 2));
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.mem, it.stream)), SIZE, 2));
    OK(synced_mem_release(it.mem));
    close_stream(it.stream);
    OK(synced_mem_shutdown());
    emu_reset(0); /* memory is left that nobody may free */
}
END_TEST

START_TEST(no_event)
{
    begin(_i);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    OK(move_it());
    ck_assert_uint_eq(emu_failures(), 1);
    move_and_end();
}
END_TEST

START_TEST(no_copy)
{
    begin(_i);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, move_it());
    expect_head(false);
    move_and_end();
}
END_TEST

/* Another thread begins a capture between the library's two questions about the stream. */
START_TEST(a_capture_begins_meanwhile)
{
    begin(_i);
    emu_fail("cudaStreamGetId", 1, cudaErrorStreamCaptureUnsupported, false);
    FAILS(SYNCED_MEM_ERR_CAPTURING, move_it());
    ck_assert_uint_eq(emu_failures(), 1);
    expect_head(false);
    move_and_end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("move_one");
    TCase *const tests = add_case(made, "failures");
    tcase_add_loop_test(tests, no_memory_for_the_reader, 0, 2);
    tcase_add_loop_test(tests, no_event, 0, 2);
    tcase_add_loop_test(tests, no_copy, 0, 2);
    tcase_add_loop_test(tests, a_capture_begins_meanwhile, 0, 2);
    TCase *const left = add_case_without_end(made, "left");
    tcase_add_loop_test(left, no_event_and_no_wait, 0, 2);
    return made;
}
