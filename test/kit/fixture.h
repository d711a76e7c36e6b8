/*
 * What all suites share. A test runs in a process of its own, where the GPU runtime is started first; at its end the
 * library is shut down, and nothing of the library's or of the runtime's may be left.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "gpu.h"
#include "pattern.h"
#include "synced_mem.h"
#include "use_memory.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>

/* Each suite's file defines it; main() is the fixture's. */
Suite *suite(void);

/* A test case with the fixture, in the suite. */
TCase *add_case(Suite *of, const char *name);
/* As that, but the end is the test's own business: for tests that leave something on purpose. */
TCase *add_case_without_end(Suite *of, const char *name);
/* As that, and the test starts the runtime itself, in children of its own. */
TCase *add_case_in_children(Suite *of, const char *name);

/* Which of the runtime's schedules this is. */
unsigned fixture_schedule(void);

/* Device memory that is let go of is freed at once, and none kept ready. Only in a test. */
void keep_no_spares(void);

/* Whether the library is in debug mode, in which a test must not look where it usually does: at host copies that are
 * not to be touched. */
bool old_pointers_fault(void);

/* How many devices the test has. Only in a test. */
int devices(void);

/* ---- Checks ---- */

/* Check's own assertions are for the main thread. A condition that does not hold in another one is printed and counted,
 * and the main thread asserts at the end that the count is 0. */
extern atomic_int unsound;

#define SOUND(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,                          \
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

/* A call that returns a pointer. */
#define FAILS_NULL(status, call)                                                                                       \
    do {                                                                                                               \
        ck_assert_msg((call) == NULL, "%s succeeded", #call);                                                          \
        ck_assert_msg(synced_mem_last_error() == (status), "%s: %s, not %s (%s)", #call,                               \
                      synced_mem_status_name(synced_mem_last_error()), synced_mem_status_name(status),                 \
                      synced_mem_last_error_message());                                                                \
    } while (0)

/* What a call that needs the device answers in this build if all else is well. */
#define FAILS_WITHOUT_GPU(call)                                                                                        \
    do {                                                                                                               \
        if (!gpu_expected())                                                                                           \
            FAILS(SYNCED_MEM_ERR_NO_GPU, call);                                                                        \
        else                                                                                                           \
            OK(call);                                                                                                  \
    } while (0)

#define SAYS(text)                                                                                                     \
    ck_assert_msg(strstr(synced_mem_last_error_message(), (text)) != NULL, "'%s' is not in '%s'", (text),              \
                  synced_mem_last_error_message())

/* ---- Objects ---- */

synced_mem *make(size_t size);
synced_mem *make_on(size_t size, int device);
synced_mem *make_named(const char *name, size_t size);
synced_mem *make_named_on(const char *name, size_t size, int device);

/* The host's writes and reads, of contents that were handed out. */
void host_fill(void *data, size_t size, unsigned pattern);
bool host_is(const void *data, size_t size, unsigned pattern);
/* What device memory holds once all work on the current device is done. */
bool device_is(const void *data, size_t size, unsigned pattern);

/* An object with the pattern, AT_CPU; AT_GPU, written by a kernel on the legacy stream. */
synced_mem *make_at_cpu(size_t size, unsigned pattern);
synced_mem *make_at_gpu(size_t size, unsigned pattern);

synced_mem_stats stats_now(void);

/* What a failed call must leave as it was. */
struct facts {
    synced_mem_state head;
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
/* Once its work is done, tells the library, and destroys it. */
void close_stream(synced_mem_stream stream);

/* ---- Processes ---- */

/* A process sets this if it leaves memory allocated on purpose: a child does not free memory that it has inherited, and
 * the memory of a lost device cannot be freed. The leak sanitizer then checks nothing. */
extern bool leaves_memory;

/* Before a fork beside threads that finish something and then sleep. The locks of a sanitizer's allocator are not held
 * across a fork: where another thread is inside it, the child waits for ever in one of its first allocations. Without a
 * sanitizer there is nothing to wait for. */
void let_others_sleep(void);

/* Runs the function in a process of its own; whether it exited with success. Uses nothing of Check, so that any thread
 * may call it. A function that another thread than the main one forks for uses nothing of Check either: its lock may be
 * held. */
bool in_a_child(void (*function)(const void *argument), const void *argument);

#endif
