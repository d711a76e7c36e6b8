/* What the system or the runtime refuses a trace: it goes on without, and the program does not notice. */
#include "fixture.h"

#include "cudart_emu.h"
#include "stream.h"
#include "trace_event.h"
#include "trace_timing.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 5000 };

static char path[64];
static char text[4 << 20];

/* What a child has inherited it does not free, nor is a lost device's freed: the leak sanitizer asks here before it
 * looks. */
static bool leaves_something;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaves_something;
}

/* ---- What is refused ---- */

static bool no_mapping;
void *__real_mmap(void *start, size_t bytes, int allowed, int flags, int fd, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int allowed, int flags, int fd, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int allowed, int flags, int fd, off_t offset)
{
    return no_mapping ? MAP_FAILED : __real_mmap(start, bytes, allowed, flags, fd, offset);
}
void *__wrap_mmap64(void *start, size_t bytes, int allowed, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *start, size_t bytes, int allowed, int flags, int fd, off_t offset)
{
    return __wrap_mmap(start, bytes, allowed, flags, fd, offset);
}

/* The nth from now on; 0: none. */
static int failing_calloc;
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (failing_calloc > 0 && --failing_calloc == 0)
        return NULL;
    return __real_calloc(count, size);
}

static bool failing_close;
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const int closed = __real_close(fd);
    if (!failing_close)
        return closed;
    errno = EIO;
    return -1;
}

static int interrupted;
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    if (interrupted == 0)
        return __real_write(fd, data, bytes);
    interrupted--;
    errno = EINTR;
    return -1;
}

static uint64_t later;
static uint64_t stopped_clock; /* 0: it goes */
uint64_t __real_sm_trace_time(void);
uint64_t __wrap_sm_trace_time(void);
uint64_t __wrap_sm_trace_time(void)
{
    return (stopped_clock ? stopped_clock : __real_sm_trace_time()) + later;
}

/* What another thread might do in the middle of things, once. */
static void (*at_flush)(void);
void __real_sm_trace_file_flush(void);
void __wrap_sm_trace_file_flush(void);
void __wrap_sm_trace_file_flush(void)
{
    void (*const act)(void) = at_flush;
    at_flush = NULL;
    if (act)
        act();
    __real_sm_trace_file_flush();
}

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

/* Meanwhile the next question about an event is answered with no. */
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

/* A profiler's ranges. */
static char last_range[128];
static int open_ranges;
void __wrap_sm_device_range_begin(const char *words);
void __wrap_sm_device_range_begin(const char *words)
{
    (void)snprintf(last_range, sizeof last_range, "%s", words);
    open_ranges++;
}

void __wrap_sm_device_range_end(void);
void __wrap_sm_device_range_end(void)
{
    open_ranges--;
}

/* ---- Tests ---- */

static void start(void)
{
    (void)snprintf(path, sizeof path, "/tmp/synced_mem_trace_%ld.json", (long)getpid());
    OK(synced_mem_trace_start(path));
}

static void stop(void)
{
    OK(synced_mem_trace_stop());
    FILE *const file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    (void)fclose(file);
    ck_assert_int_eq(unlink(path), 0);
}

#define HAS(words) ck_assert_msg(strstr(text, (words)) != NULL, "'%s' is not in:\n%s", (words), text)
#define HAS_NOT(words) ck_assert_msg(strstr(text, (words)) == NULL, "'%s' is in:\n%s", (words), text)

static void move(synced_mem *mem)
{
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, NULL));
}

START_TEST(no_address_space)
{
    no_mapping = true;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_trace_start("/dev/null"));
    no_mapping = false;
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
}
END_TEST

START_TEST(file_that_fails_at_the_end)
{
    start();
    failing_close = true;
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_trace_stop());
    failing_close = false;
    SAYS("Input/output error");
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(writes_that_are_interrupted)
{
    start();
    interrupted = 3;
    stop();
    ck_assert_int_eq(interrupted, 0);
    HAS("\n]\n");
}
END_TEST

START_TEST(no_memory_for_an_objects_record)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    start();
    failing_calloc = 1;
    OK(synced_mem_resize_discard(mem, SIZE));
    ck_assert_int_eq(failing_calloc, 0);
    OK(synced_mem_release(mem));
    stop();
    HAS("\"object\":\"\",\"call\":\"synced_mem_resize_discard\"");
}
END_TEST

/* A transfer that can't be timed has the host's times; and the next one is tried again, but not at once. */
static const struct {
    const char *call; /* NULL: calloc */
    unsigned nth;
} untimed[] = {{NULL, 1},
               {NULL, 2},
               {"cudaEventCreate", 1},
               {"cudaEventCreate", 2},
               {"cudaEventCreate", 3},
               {"cudaEventRecord", 1},
               {"cudaEventRecord", 2},
               {"cudaEventRecord", 3},
               {"cudaEventQuery", 1},
               {"cudaEventElapsedTime", 1},
               {"cudaEventElapsedTime", 2}};

START_TEST(transfers_that_are_not_timed)
{
    const struct sm_trace_event event = {.kind = SM_TRACE_ALLOCATION, .what = "a test"};
    struct sm_stream *lane;
    int device;
    OK(sm_device_resolve(0, &device));
    OK(sm_stream_lane(0, SM_LANE_FREE, &lane));
    start();
    if (untimed[_i].call)
        emu_fail(untimed[_i].call, untimed[_i].nth, cudaErrorUnknown, false);
    else
        failing_calloc = (int)untimed[_i].nth;
    if (!sm_timing_end(sm_timing_begin(lane), lane, &event))
        sm_trace_record(&event);
    ck_assert_int_eq(failing_calloc, 0);
    sm_timing_resolve(true);
    if (!sm_timing_end(sm_timing_begin(lane), lane, &event))
        sm_trace_record(&event);
    later += 2000000000;
    struct sm_timing *const timing = sm_timing_begin(lane);
    ck_assert_ptr_nonnull(timing);
    sm_timing_drop(timing);
    stop();
    HAS("\"from\":\"a test\"");
}
END_TEST

START_TEST(host_times_instead)
{
    synced_mem *const mem = make(SIZE);
    start();
    emu_fail("cudaEventElapsedTime", 2, cudaErrorUnknown, false);
    move(mem);
    stop();
    HAS("\"name\":\"h2d #1\"");
    HAS("\"clock\":\"host\"");
    char track[64]; /* the thread's that has queued it */
    (void)snprintf(track, sizeof track, "\"pid\":%ld,\"tid\":%ld,", (long)getpid(), (long)getpid());
    ck_assert_ptr_nonnull(strstr(strstr(text, "\"name\":\"h2d #1\""), track));
    OK(synced_mem_release(mem));
}
END_TEST

/* A transfer that fails is none, whether or not it could have been timed. */
START_TEST(transfers_that_fail)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    start();
    for (int i = 0; i < 2; i++) {
        later += 2000000000;
        if (i == 0)
            emu_fail("cudaEventCreate", 1, cudaErrorUnknown, false);
        emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, (void *)(uintptr_t)synced_mem_gpu_data(mem));
        SAYS("cudaMemcpyAsync of 5000 bytes");
        emu_fail_clear();
    }
    stop();
    HAS_NOT("\"cat\":\"transfer\"");
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(lost_device)
{
    synced_mem *const mem = make(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    start();
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    emu_break_device(0, cudaErrorIllegalAddress);
    leaves_something = true;
    stop();
    HAS("\"name\":\"h2d #1\""); /* which may have been done before */
}
END_TEST

/* The device does not get to a transfer for a while; it is written when it does. */
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
    OK(synced_mem_release(mem));
    OK(synced_mem_release(other));
    close_stream(stream);
}
END_TEST

/* ---- Order ---- */

static struct sm_stream *lane_of(enum sm_lane lane)
{
    struct sm_stream *out;
    int device;
    OK(sm_device_resolve(0, &device));
    OK(sm_stream_lane(0, lane, &out));
    return out;
}

static struct sm_trace_event event_on(const struct sm_stream *stream, const char *what)
{
    return (struct sm_trace_event){.kind = SM_TRACE_ALLOCATION, .what = what, .stream = stream->serial};
}

static void time_one(struct sm_stream *stream, const char *what)
{
    const struct sm_trace_event event = event_on(stream, what);
    struct sm_timing *const timing = sm_timing_begin(stream);
    ck_assert_ptr_nonnull(timing);
    ck_assert(sm_timing_end(timing, stream, &event));
}

static void nothing(void)
{
}

static void time_the_last(void)
{
    time_one(lane_of(SM_LANE_FREE), "the last");
}

#define COMES_BEFORE(first, second) ck_assert(strstr(text, first) && strstr(text, first) < strstr(text, second))

/* A transfer is not done when asked, one behind it is a microsecond later: it does not overtake the first, and what is
 * queued meanwhile overtakes neither. Other streams' are not held up. */
START_TEST(transfers_that_are_done_while_asking)
{
    struct sm_stream *const stream = lane_of(SM_LANE_FREE);
    struct sm_stream *const other = lane_of(SM_LANE_H2D);
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

/* While a thread records what ends a transfer, another looks for what is done, or drops what it knows not. */
START_TEST(transfer_that_is_being_queued)
{
    struct sm_stream *const stream = lane_of(SM_LANE_FREE);
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

/* ---- Who is named ---- */

#define IS_RANGE(words, call)                                                                                          \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        ck_assert_str_eq(last_range, words);                                                                           \
        ck_assert_int_eq(open_ranges, 0);                                                                              \
    } while (0)

/* Also functions that know of no object. */
START_TEST(ranges)
{
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = "subject";
    OK(synced_mem_create(&mem, SIZE, &options));
    start();
    IS_RANGE("synced_mem_wait subject", synced_mem_wait(mem));
    IS_RANGE("synced_mem_stream_done", synced_mem_stream_done(NULL));
    IS_RANGE("synced_mem_host_pool_reserve", synced_mem_host_pool_reserve(0, SIZE));
    IS_RANGE("synced_mem_host_pool_trim", synced_mem_host_pool_trim(0));
    IS_RANGE("synced_mem_host_pool_set_limit", synced_mem_host_pool_set_limit(1 << 30));
    IS_RANGE("synced_mem_host_pool_set_decay", synced_mem_host_pool_set_decay(100));
    move(mem);
    ck_assert_int_eq(open_ranges, 0);
    stop();
    OK(synced_mem_release(mem));
}
END_TEST

static int find_memory(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    emu_set_device_memory(0, 1 << 30);
    return 1;
}

/* After the caller's handler has found memory the call goes on, and is named. */
START_TEST(call_that_asked_for_memory)
{
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem_set_out_of_memory_handler(find_memory, NULL);
    start();
    emu_set_device_memory(0, 1);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    stop();
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    ck_assert_uint_eq(stats_now().oom_callbacks, 1);
    HAS("\"object\":\"#1\",\"call\":\"synced_mem_overwrite_gpu_data\",\"bytes\":");
    HAS_NOT("\"call\":\"\"");
    ck_assert_int_eq(open_ranges, 0);
    OK(synced_mem_release(mem));
}
END_TEST

static void take_back(void *data, void *user, synced_mem_stream stream)
{
    (void)stream;
    (*(int *)user)++;
    gpu_pinned_free(data);
}

/* ... and after it was given back what it had lent, which a call looks for before it ends. */
START_TEST(call_that_gave_memory_back)
{
    int given = 0;
    void *const data = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *const other = make_on(SIZE, 0);
    OK(synced_mem_adopt_cpu_data(mem, data, take_back, &given));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert_int_eq(given, 0);
    start();
    ck_assert_ptr_nonnull(synced_mem_cpu_data(other));
    ck_assert_int_eq(given, 1);
    stop();
    HAS("\"object\":\"#1\",\"call\":\"synced_mem_cpu_data\",\"bytes\":");
    HAS_NOT("\"call\":\"\"");
    ck_assert_int_eq(open_ranges, 0);
    OK(synced_mem_release(other));
    close_stream(stream);
}
END_TEST

/* ---- Threads that go on while the trace ends ---- */

static void record_one(void)
{
    const struct sm_trace_event event = {.kind = SM_TRACE_HEAD};
    sm_trace_record(&event);
}

START_TEST(event_that_comes_too_late)
{
    start();
    at_flush = record_one;
    stop();
    HAS("\"events_lost\":1");
}
END_TEST

/* Its events go with the shutdown, or with the next trace; the fixture looks. */
START_TEST(transfer_that_is_queued_while_the_trace_ends)
{
    struct sm_stream *const stream = lane_of(SM_LANE_FREE);
    const struct sm_trace_event event = event_on(stream, "too late");
    start();
    struct sm_timing *const timing = sm_timing_begin(stream);
    ck_assert_ptr_nonnull(timing);
    stop();
    HAS("\"events_lost\":1");
    ck_assert(sm_timing_end(timing, stream, &event));
    if (_i == 0)
        return;
    start();
    stop();
    HAS("\"events_lost\":0");
    HAS_NOT("too late");
}
END_TEST

/* ---- A device that is behind ---- */

/* It is asked about a stream's first transfer only, and not by every call. */
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
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_release(mems[i]));
    OK(synced_mem_release(other));
    for (int i = 0; i < STREAMS; i++)
        close_stream(streams[i]);
    close_stream(stuck);
    ck_assert_int_eq(cudaEventDestroy(end), cudaSuccess);
}
END_TEST

/* No more than so many wait; those that come then have the host's times, and need no events. */
START_TEST(more_transfers_than_are_timed)
{
    enum { MOST = 4096 };
    synced_mem *const mem = make_on(SIZE, 0);
    struct sm_stream *const stream = lane_of(SM_LANE_FREE);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    start();
    time_one(stream, "the first");
    stopped_clock = __real_sm_trace_time();
    for (int i = 1; i < MOST; i++)
        time_one(stream, "one more");
    const unsigned before = emu_calls("cudaEventCreate");
    ck_assert_ptr_null(sm_timing_begin(stream));
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

/* ---- A device that has other processes' work to do ---- */

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
    return sm_timing_begin(stream);
}

/* It is waited for, and asked once more, as the first answer came late. */
START_TEST(device_that_answers_late)
{
    const struct sm_stream *const stream = lane_of(SM_LANE_FREE);
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

/* No more than a twentieth of the time goes by in tries that fail. */
START_TEST(device_that_answers_too_late)
{
    const struct sm_stream *const stream = lane_of(SM_LANE_FREE);
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

/* Whose clock is compared with the host's anew. */
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

static void leave_late_transfer(const void *unused)
{
    (void)unused;
    leaves_something = true;
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

Suite *suite(void)
{
    Suite *const all = suite_create("trace failures");
    TCase *const cases = add_case(all, "trace failures");
    tcase_add_test(cases, no_address_space);
    tcase_add_test(cases, file_that_fails_at_the_end);
    tcase_add_test(cases, writes_that_are_interrupted);
    tcase_add_test(cases, no_memory_for_an_objects_record);
    tcase_add_loop_test(cases, transfers_that_are_not_timed, 0, sizeof untimed / sizeof untimed[0]);
    tcase_add_test(cases, transfers_that_fail);
    tcase_add_test(cases, host_times_instead);
    tcase_add_test(cases, late_transfers);
    tcase_add_loop_test(cases, device_that_answers_late, 0, 2);
    tcase_add_test(cases, device_that_answers_too_late);
    tcase_add_test(cases, long_traces);
    tcase_add_loop_test(cases, transfers_that_are_done_while_asking, 0, 2);
    tcase_add_test(cases, transfer_that_is_being_queued);
    tcase_add_test(cases, ranges);
    tcase_add_test(cases, call_that_asked_for_memory);
    tcase_add_test(cases, call_that_gave_memory_back);
    tcase_add_test(cases, event_that_comes_too_late);
    tcase_add_loop_test(cases, transfer_that_is_queued_while_the_trace_ends, 0, 2);
    tcase_add_test(cases, questions_about_many_transfers);
    tcase_add_test(cases, more_transfers_than_are_timed);
    tcase_add_test(cases, child_of_a_late_transfer);
    TCase *const lost = add_case_without_end(all, "lost device");
    tcase_add_test(lost, lost_device);
    return all;
}
