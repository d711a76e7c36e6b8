/* Checks the device's times of transfers: the order and number of queries, the limit of timed transfers, and slow
 * devices. */
#include "trace_kit.h"

#include "cudart_emu.h"
#include "stream/stream.h"
#include "trace/trace_event.h"
#include "trace/trace_timing.h"

#include <stdint.h>

static uint64_t later;
static uint64_t stopped_clock; /* 0: the clock runs */
uint64_t __real_sm_trace_time(void);
uint64_t __wrap_sm_trace_time(void);
uint64_t __wrap_sm_trace_time(void)
{
    return (stopped_clock ? stopped_clock : __real_sm_trace_time()) + later;
}

/* Acts once at a record, as another thread might at that moment. */
static void (*at_record)(void);
synced_mem_status __real_sm_device_event_record(int device, sm_event event, synced_mem_stream stream);
synced_mem_status __wrap_sm_device_event_record(int device, sm_event event, synced_mem_stream stream);
synced_mem_status __wrap_sm_device_event_record(int device, sm_event event, synced_mem_stream stream)
{
    void (*const act)(void) = at_record;
    at_record = NULL;
    if (act)
        act();
    return __real_sm_device_event_record(device, event, stream);
}

/* Acts once at a query. That query reports that the event is not done. */
static void (*at_query)(void);
synced_mem_status __real_sm_device_event_query(int device, sm_event event, bool *done);
synced_mem_status __wrap_sm_device_event_query(int device, sm_event event, bool *done);
synced_mem_status __wrap_sm_device_event_query(int device, sm_event event, bool *done)
{
    void (*const act)(void) = at_query;
    at_query = NULL;
    if (!act)
        return __real_sm_device_event_query(device, event, done);
    act();
    *done = false;
    return SYNCED_MEM_OK;
}

/* ---- Order ---- */

static struct sm_stream *internal_of(enum sm_internal internal)
{
    struct sm_stream *out;
    int device;
    OK(sm_device_resolve(0, &device));
    OK(sm_internal_stream(0, internal, &out));
    return out;
}

static struct sm_trace_event event_on(const struct sm_stream *stream, const char *what)
{
    return (struct sm_trace_event){.kind = SM_TRACE_ALLOCATION, .what = what, .stream = stream->serial};
}

static void time_one(struct sm_stream *stream, const char *what)
{
    const struct sm_trace_event event = event_on(stream, what);
    struct sm_timing *const timing = sm_timing_begin(sm_stream_traced(stream));
    ck_assert_ptr_nonnull(timing);
    ck_assert(sm_timing_end(timing, sm_stream_traced(stream), &event));
}

static void nothing(void)
{
}

static void time_the_last(void)
{
    time_one(internal_of(SM_INTERNAL_FREE), "the last");
}

#define COMES_BEFORE(first, second) ck_assert(strstr(text, first) && strstr(text, first) < strstr(text, second))

/* A transfer is not done when its event is queried, and the next one is done a microsecond later. Neither that one nor
 * a transfer that is queued meanwhile overtakes the first. Other streams are not held up. */
START_TEST(transfers_that_are_done_while_asking)
{
    struct sm_stream *const stream = internal_of(SM_INTERNAL_FREE);
    struct sm_stream *const other = internal_of(SM_INTERNAL_H2D);
    start();
    time_one(stream, "the first");
    time_one(stream, "the second");
    time_one(other, "another");
    emu_run_all();
    at_query = _i == 0 ? nothing : time_the_last;
    sm_timing_resolve(false);
    ck_assert_uint_eq(sm_timing_pending(), (_i == 0 ? 2 : 3));
    if (_i == 0)
        time_the_last();
    stop();
    COMES_BEFORE("another", "the first");
    COMES_BEFORE("the first", "the second");
    COMES_BEFORE("the second", "the last");
    HAS("\"events_lost\":0");
}
END_TEST

static void resolve(void)
{
    sm_timing_resolve(false);
    ck_assert_uint_eq(sm_timing_pending(), 1);
    sm_timing_forget();
    ck_assert_uint_eq(sm_timing_pending(), 1);
}

static void resolve_later(void)
{
    at_record = resolve;
}

/* One thread records the end of a transfer. Meanwhile another polls the transfers, or drops those of unknown state. */
START_TEST(transfer_that_is_being_queued)
{
    struct sm_stream *const stream = internal_of(SM_INTERNAL_FREE);
    start();
    time_one(stream, "the first");
    emu_run_all();
    sm_timing_resolve(false);
    at_record = resolve_later;
    time_one(stream, "the second");
    stop();
    COMES_BEFORE("the first", "the second");
    HAS("\"events_lost\":0");
}
END_TEST

/* ---- The end of a trace ---- */

/* The events go back with the shutdown, or with the next trace. The fixture checks that none is left. */
START_TEST(transfer_that_is_queued_while_the_trace_ends)
{
    struct sm_stream *const stream = internal_of(SM_INTERNAL_FREE);
    const struct sm_trace_event event = event_on(stream, "too late");
    start();
    struct sm_timing *const timing = sm_timing_begin(sm_stream_traced(stream));
    ck_assert_ptr_nonnull(timing);
    stop();
    HAS("\"events_lost\":1");
    ck_assert(sm_timing_end(timing, sm_stream_traced(stream), &event));
    if (_i == 0)
        return;
    start();
    stop();
    HAS("\"events_lost\":0");
    HAS_NOT("too late");
}
END_TEST

static void leave_late_transfer(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    start();
    stop();
    HAS_NOT("\"cat\":\"transfer\"");
}

START_TEST(child_of_a_late_transfer)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_on(SIZE, 0);
    start();
    char parents[sizeof path];
    memcpy(parents, path, sizeof path);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert(in_a_child(leave_late_transfer, NULL));
    memcpy(path, parents, sizeof path);
    stop();
    HAS("\"name\":\"h2d #1\"");
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- A device that is behind ---- */

/* The device delays a transfer. The transfer is written when it is done. */
START_TEST(late_transfers)
{
    enum { MANY = 600 };
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *const other = make_on(SIZE, 0);
    start();
    move(other);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_resize_discard(other, SIZE) == SYNCED_MEM_OK && synced_mem_cpu_data(other) ? SYNCED_MEM_OK
                                                                                                 : SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_ge(sm_timing_pending(), 1);
    gpu_unhold();
    stop();
    HAS("\"name\":\"h2d #2\"");
    HAS_NOT("\"clock\":\"host\"");
    RELEASE_EACH(mem, other);
    close_stream(stream);
}
END_TEST

/* Only the first transfer of a stream is queried, and not by every call. */
START_TEST(questions_about_many_transfers)
{
    enum { STREAMS = 8, MANY = 1600 };
    static synced_mem *mems[MANY];
    synced_mem_stream streams[STREAMS];
    synced_mem_stream stuck = gpu_stream_create(0, false);
    cudaEvent_t end;
    for (int i = 0; i < MANY; i++) {
        mems[i] = make_on(SIZE, 0);
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mems[i]));
    }
    synced_mem *const other = make(SIZE);
    start();
    move(other);
    ck_assert_int_eq(cudaEventCreate(&end), cudaSuccess);
    gpu_hold(stuck);
    ck_assert_int_eq(cudaEventRecord(end, stuck), cudaSuccess);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = gpu_stream_create(0, false);
        ck_assert_int_eq(cudaStreamWaitEvent(streams[i], end, 0), cudaSuccess);
    }
    stopped_clock = __real_sm_trace_time();
    const unsigned before = emu_calls("cudaEventQuery");
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_async_gpu_push(mems[i], streams[i % STREAMS]));
    ck_assert_uint_ge(sm_timing_pending(), MANY);
    ck_assert_uint_le(emu_calls("cudaEventQuery") - before, 10 * STREAMS);
    later += 6000000;
    const unsigned first = emu_calls("cudaEventQuery");
    OK(synced_mem_resize_discard(other, SIZE));
    ck_assert_uint_ge(emu_calls("cudaEventQuery") - first, STREAMS);
    stopped_clock = 0;
    gpu_unhold();
    stop();
    HAS_NOT("\"clock\":\"host\"");
    release_all(mems, MANY);
    OK(synced_mem_release(other));
    for (int i = 0; i < STREAMS; i++)
        close_stream(streams[i]);
    close_stream(stuck);
    ck_assert_int_eq(cudaEventDestroy(end), cudaSuccess);
}
END_TEST

/* The number of transfers that wait for their times is limited. Later ones have the host's times, and need no
 * events. */
START_TEST(more_transfers_than_are_timed)
{
    enum { MOST = 4096 };
    synced_mem *const mem = make_on(SIZE, 0);
    struct sm_stream *const stream = internal_of(SM_INTERNAL_FREE);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    start();
    time_one(stream, "the first");
    stopped_clock = __real_sm_trace_time();
    for (int i = 1; i < MOST; i++)
        time_one(stream, "one more");
    const unsigned before = emu_calls("cudaEventCreate");
    ck_assert_ptr_null(sm_timing_begin(sm_stream_traced(stream)));
    OK(synced_mem_async_gpu_push(mem, NULL));
    ck_assert_uint_eq(emu_calls("cudaEventCreate"), before);
    stopped_clock = 0;
    stop();
    HAS("\"name\":\"h2d #1\"");
    HAS("\"clock\":\"host\"");
    HAS("\"events_lost\":0");
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- A device that does other processes' work ---- */

static unsigned turns_of_others;

static void take_half_a_millisecond(void)
{
    later += 500000;
    if (--turns_of_others > 0)
        at_query = take_half_a_millisecond;
}

static struct sm_timing *begin_after(const struct sm_stream *stream, unsigned turns)
{
    turns_of_others = turns;
    at_query = turns > 0 ? take_half_a_millisecond : NULL;
    return sm_timing_begin(sm_stream_traced(stream));
}

/* The device is waited for. Its first answer came late, so it is tried once more. */
START_TEST(device_that_answers_late)
{
    const struct sm_stream *const stream = internal_of(SM_INTERNAL_FREE);
    start();
    stopped_clock = __real_sm_trace_time();
    const unsigned before = emu_calls("cudaEventRecord");
    struct sm_timing *const timing = begin_after(stream, _i == 0 ? 1 : 90);
    ck_assert_ptr_nonnull(timing);
    ck_assert_uint_eq(emu_calls("cudaEventRecord") - before, _i == 0 ? 2 : 3);
    sm_timing_drop(timing);
    stopped_clock = 0;
    stop();
}
END_TEST

/* Tries that fail take at most a twentieth of the time. */
START_TEST(device_that_answers_too_late)
{
    const struct sm_stream *const stream = internal_of(SM_INTERNAL_FREE);
    start();
    stopped_clock = __real_sm_trace_time();
    ck_assert_ptr_null(begin_after(stream, 1000));
    const uint64_t lost = later;
    ck_assert_uint_ge(lost, 50000000);
    const unsigned before = emu_calls("cudaEventRecord");
    later = 19 * lost;
    ck_assert_ptr_null(begin_after(stream, 0));
    ck_assert_uint_eq(emu_calls("cudaEventRecord"), before);
    later = 21 * lost;
    struct sm_timing *const timing = begin_after(stream, 0);
    ck_assert_ptr_nonnull(timing);
    sm_timing_drop(timing);
    stopped_clock = 0;
    stop();
}
END_TEST

/* In a long trace the device's clock is compared with the host's again. */
START_TEST(long_traces)
{
    synced_mem *const mem = make(SIZE);
    start();
    move(mem);
    const unsigned before = emu_calls("cudaEventCreate");
    later = 60000000000u;
    move(mem);
    ck_assert_uint_ge(emu_calls("cudaEventCreate"), before + 1);
    stop();
    later = 0;
    HAS_NOT("\"clock\":\"host\"");
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace timing");
    TCase *const cases = add_case(all, "trace timing");
    add_tests(cases, transfer_that_is_being_queued, child_of_a_late_transfer, late_transfers,
              questions_about_many_transfers, more_transfers_than_are_timed, device_that_answers_too_late, long_traces);
    tcase_add_loop_test(cases, transfers_that_are_done_while_asking, 0, 2);
    tcase_add_loop_test(cases, transfer_that_is_queued_while_the_trace_ends, 0, 2);
    tcase_add_loop_test(cases, device_that_answers_late, 0, 2);
    return all;
}
