/*
 * Shared by all suites. A test runs in a process of its own, which starts the GPU runtime first. At the test's end the
 * library is shut down, and neither the library nor the runtime may have anything left.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "gpu.h"
#include "pattern.h"
#include "sanitized.h"
#include "synced_mem.h"
#include "use_memory.h"

#include "check_kit.h"
#include <stdatomic.h>
#include <stdio.h>

/* Defined by each suite's file; main() is in the fixture. */
Suite *suite(void);

/* Adds a test case with the fixture to the suite. */
TCase *add_case(Suite *of, const char *name);
/* The same without the fixture's end, for tests that leave something on purpose. */
TCase *add_case_without_end(Suite *of, const char *name);
/* The same for a test that starts the runtime itself, in children of its own. */
TCase *add_case_in_children(Suite *of, const char *name);

/* Add tests to a test case. Tests for a GPU are left out of a build without a GPU runtime, where they could check
 * nothing. */
#define add_tests(to, ...) add_tests_of((to), (const TTest *const[]){__VA_ARGS__, NULL})
#define add_gpu_tests(to, ...) add_gpu_tests_of((to), (const TTest *const[]){__VA_ARGS__, NULL})
void add_tests_of(TCase *to, const TTest *const *tests);
void add_gpu_tests_of(TCase *to, const TTest *const *tests);
/* As Check's tcase_add_loop_test(). */
void add_gpu_loop_test(TCase *to, const TTest *test, int begin, int end);
/* As tcase_add_loop_test(), for tests whose cases are many and differ little between schedules: each with another
 * failure. The first two schedules of the emulated runtime play all cases. Each later one plays a part of the suite's
 * divided cases, and all parts together are every case. */
void add_divided_test(TCase *to, const TTest *test, int begin, int end);

/* Returns the number of the current schedule of the runtime. */
unsigned fixture_schedule(void);

/* Returns whether the suite's tests share a process, which an assertion would end. */
bool tests_share_process(void);

/* From now on released device memory is freed at once, and none is kept for reuse. Only in a test. */
void keep_no_spares(void);

/* Returns whether the library is in debug mode. A test must then not read stale host copies, which are protected. */
bool old_pointers_fault(void);

/* Returns how many devices the test has. Only in a test. */
int devices(void);

/* True in a process that a test has forked, where Check's assertions tell the runner nothing; see check_kit.h. */
extern bool is_child_of_test;

/* ---- Checks ---- */

/* Check's own assertions are for the main thread. In other threads a failed condition is printed and counted. The main
 * thread asserts at the end that the count is 0. */
extern atomic_int unsound;

#define SOUND(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: failed: %s (%s)\n", __FILE__, __LINE__, #condition,                          \
                          synced_mem_last_error_message());                                                            \
            atomic_fetch_add(&unsound, 1);                                                                             \
        }                                                                                                              \
    } while (0)

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        const synced_mem_status status_ = (call);                                                                      \
        ck_assert_msg(status_ == SYNCED_MEM_OK, "%s: %s", #call, synced_mem_last_error_message());                     \
    } while (0)

#define FAILS(status, call)                                                                                            \
    do {                                                                                                               \
        const synced_mem_status got_ = (call);                                                                         \
        ck_assert_msg(got_ == (status), "%s: %s, not %s (%s)", #call, synced_mem_status_name(got_),                    \
                      synced_mem_status_name(status), synced_mem_last_error_message());                                \
        ck_assert_int_eq(synced_mem_last_error(), status);                                                             \
    } while (0)

/* For a call that returns a pointer. */
#define FAILS_NULL(status, call)                                                                                       \
    do {                                                                                                               \
        ck_assert_msg((call) == NULL, "%s succeeded", #call);                                                          \
        ck_assert_msg(synced_mem_last_error() == (status), "%s: %s, not %s (%s)", #call,                               \
                      synced_mem_status_name(synced_mem_last_error()), synced_mem_status_name(status),                 \
                      synced_mem_last_error_message());                                                                \
    } while (0)

/* For a call that needs a device. It must succeed in a build with a GPU runtime, and fail with ERR_NO_GPU without. */
#define FAILS_WITHOUT_GPU(call)                                                                                        \
    do {                                                                                                               \
        if (!gpu_expected())                                                                                           \
            FAILS(SYNCED_MEM_ERR_NO_GPU, call);                                                                        \
        else                                                                                                           \
            OK(call);                                                                                                  \
    } while (0)

/* Returns the status of a call that returns a pointer. */
static inline synced_mem_status status_of(const void *data)
{
    return data ? SYNCED_MEM_OK : synced_mem_last_error();
}

/* Returns the pointer, which the call must have returned. */
static inline void *given(const void *data)
{
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    return (void *)data;
}

#define SAYS(text)                                                                                                     \
    ck_assert_msg(strstr(synced_mem_last_error_message(), (text)) != NULL, "'%s' is not in '%s'", (text),              \
                  synced_mem_last_error_message())

/* ---- Objects ---- */

synced_mem *make(size_t size);
synced_mem *make_on(size_t size, int device);
synced_mem_options default_options(void);

/* Stages transfers of pageable memory from this size on. A buffer has twice the smallest size, so that the first chunk
 * of a push is smaller than the others. */
enum { STAGING_BUFFER = 131072 };
void set_staging(unsigned threads, size_t minimum);
synced_mem *make_placed_on(size_t size, synced_mem_placement_kind placement, int device);
synced_mem *make_named(const char *name, size_t size);
synced_mem *make_named_on(const char *name, size_t size, int device);

/* Release the objects, in this order. */
#define RELEASE_EACH(...)                                                                                              \
    do {                                                                                                               \
        synced_mem *const released_[] = {__VA_ARGS__};                                                                 \
        for (size_t i_ = 0; i_ < sizeof released_ / sizeof released_[0]; i_++)                                         \
            OK(synced_mem_release(released_[i_]));                                                                     \
    } while (0)
void release_all(synced_mem *const *mems, size_t count);

/* The host's writes and reads of contents whose pointer the library returned. */
void host_fill(void *data, size_t size, unsigned pattern);
bool host_is(const void *data, size_t size, unsigned pattern);
/* Compares device memory once all work on the current device is done. */
bool device_is(const void *data, size_t size, unsigned pattern);

/* Create an object that holds the pattern. The second is AT_GPU, written by a kernel on the legacy stream. */
synced_mem *make_at_cpu(size_t size, unsigned pattern);
synced_mem *make_at_gpu(size_t size, unsigned pattern);

/* Returns the statistics. The counters that only grow count from the beginning of the test. */
synced_mem_stats stats_now(void);

/* The state that a failed call must not change. */
struct facts {
    synced_mem_head_kind head;
    size_t size;
    int device;
    synced_mem_source cpu;
    synced_mem_source gpu;
    size_t cpu_capacity;
    size_t gpu_capacity;
};
struct facts facts_of(const synced_mem *mem);
void check_unchanged(const synced_mem *mem, const struct facts *before);

/* ---- Streams of the current device ---- */

enum { LEGACY, BLOCKING, NON_BLOCKING, STREAM_KINDS };

synced_mem_stream open_stream(int kind);
/* Waits for the stream's work, forgets the stream in the library, and destroys it. */
void close_stream(synced_mem_stream stream);
#define CLOSE_EACH(...)                                                                                                \
    do {                                                                                                               \
        const synced_mem_stream closed_[] = {__VA_ARGS__};                                                             \
        for (size_t i_ = 0; i_ < sizeof closed_ / sizeof closed_[0]; i_++)                                             \
            close_stream(closed_[i_]);                                                                                 \
    } while (0)

/* ---- Processes ---- */

/* A process sets this if it leaves memory allocated on purpose: a child does not free memory that it has inherited, and
 * the memory of a lost device cannot be freed. The leak sanitizer then checks nothing. */
extern bool leaves_memory;

/* Returns whether all other threads have been asleep for some milliseconds. So none of them is only kept from running
 * by other processes. */
bool others_sleep(void);

/* Waits until all other threads sleep. Call it before a fork beside threads that finish some work and then sleep. A
 * sanitizer's allocator does not take its locks across a fork. If another thread holds one, the child waits for ever in
 * an early allocation. Returns at once without a sanitizer. */
void let_others_sleep(void);

/* Runs the function in a process of its own. Returns whether it exited with success. Uses nothing of Check, so any
 * thread may call it. If the caller is not the main thread, the function must use nothing of Check either, as Check's
 * lock may be held. */
bool in_a_child(void (*function)(const void *argument), const void *argument);

/* ---- The run, in forks.c or windows.c ---- */

enum { SUITE_SKIPPED = 77 };

/* Runs all tests, each in a process of its own unless tests_share_process(). Returns what main() returns. */
int run_all_tests(void);

/* For it. fixture_suite() makes the suite for the schedule with this number, counted from the first one. */
int fixture_schedules(void);
Suite *fixture_suite(int number);
void fixture_print_schedule(void);

#endif
