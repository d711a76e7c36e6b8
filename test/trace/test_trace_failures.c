/* Checks a trace where the system or the runtime refuses something. The trace goes on without it, and the program is
 * not affected. */
#include "failing_calloc.h"
#include "trace_kit.h"

#include "cudart_emu.h"
#include "stream/stream.h"
#include "trace/trace_event.h"
#include "trace/trace_timing.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Refusals ---- */

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

static bool no_commit;
bool __real_sm_pages_commit(void *start, size_t bytes);
bool __wrap_sm_pages_commit(void *start, size_t bytes);
bool __wrap_sm_pages_commit(void *start, size_t bytes)
{
    return !no_commit && __real_sm_pages_commit(start, bytes);
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
uint64_t __real_sm_trace_time(void);
uint64_t __wrap_sm_trace_time(void);
uint64_t __wrap_sm_trace_time(void)
{
    return __real_sm_trace_time() + later;
}

/* Acts once at a flush, as another thread might at that moment. */
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

/* ---- The file, and memory ---- */

static void record_one(void)
{
    const struct sm_trace_event event = {.kind = SM_TRACE_HEAD};
    sm_trace_record(&event);
}

START_TEST(no_address_space)
{
    no_mapping = true;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_trace_start("/dev/null"));
    no_mapping = false;
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
}
END_TEST

/* The trace goes on, and records events again once there is memory. */
START_TEST(no_memory_for_events)
{
    no_commit = true;
    start();
    record_one();
    record_one();
    no_commit = false;
    record_one();
    stop();
    HAS("\"events_lost\":2");
    HAS("\"cat\":\"head\"");
}
END_TEST

START_TEST(file_that_fails_at_the_end)
{
    start();
    failing_close = true;
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_trace_stop());
    failing_close = false;
    SAYS(strerror(EIO));
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
    fail_calloc_in = 1;
    OK(synced_mem_resize_discard(mem, SIZE));
    ck_assert_int_eq(fail_calloc_in, 0);
    OK(synced_mem_release(mem));
    stop();
    HAS("\"object\":\"\",\"call\":\"synced_mem_resize_discard\"");
}
END_TEST

START_TEST(event_that_comes_too_late)
{
    start();
    at_flush = record_one;
    stop();
    HAS("\"events_lost\":1");
}
END_TEST

/* ---- Times of transfers ---- */

/* A transfer that cannot be timed has the host's times. Timing is tried again for later transfers, but not at once. */
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
               {"cudaStreamCreateWithFlags", 1},
               {"cudaEventQuery", 1},
               {"cudaEventElapsedTime", 1},
               {"cudaEventElapsedTime", 2}};

START_TEST(transfers_that_are_not_timed)
{
    const struct sm_trace_event event = {.kind = SM_TRACE_ALLOCATION, .what = "a test"};
    struct sm_stream *internal;
    int device;
    OK(sm_device_resolve(0, &device));
    OK(sm_internal_stream(0, SM_INTERNAL_FREE, &internal));
    start();
    if (untimed[_i].call)
        emu_fail(untimed[_i].call, untimed[_i].nth, cudaErrorUnknown, false);
    else
        fail_calloc_in = (int)untimed[_i].nth;
    if (!sm_timing_end(sm_timing_begin(sm_stream_traced(internal)), sm_stream_traced(internal), &event))
        sm_trace_record(&event);
    ck_assert_int_eq(fail_calloc_in, 0);
    sm_timing_resolve(true);
    if (!sm_timing_end(sm_timing_begin(sm_stream_traced(internal)), sm_stream_traced(internal), &event))
        sm_trace_record(&event);
    later += 2000000000;
    struct sm_timing *const timing = sm_timing_begin(sm_stream_traced(internal));
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
    char track[64]; /* that of the thread that queued the transfer */
    (void)snprintf(track, sizeof track, "\"pid\":%ld,\"tid\":%ld,", (long)getpid(), (long)getpid());
    ck_assert_ptr_nonnull(strstr(strstr(text, "\"name\":\"h2d #1\""), track));
    OK(synced_mem_release(mem));
}
END_TEST

/* A transfer that fails has no event, whether or not it could have been timed. */
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
    leaves_memory = true;
    stop();
    HAS("\"name\":\"h2d #1\""); /* the transfer may have been done before */
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace failures");
    TCase *const cases = add_case(all, "trace failures");
    add_tests(cases, no_address_space, no_memory_for_events, file_that_fails_at_the_end, writes_that_are_interrupted,
              no_memory_for_an_objects_record, event_that_comes_too_late, transfers_that_fail, host_times_instead);
    tcase_add_loop_test(cases, transfers_that_are_not_timed, 0, sizeof untimed / sizeof untimed[0]);
    TCase *const lost = add_case_without_end(all, "lost device");
    tcase_add_test(lost, lost_device);
    return all;
}
