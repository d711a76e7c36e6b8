/*
 * Shared by the suites of conflicts between views: a root with work on one view, on a stream that is held, and a
 * neighbour without work.
 */
#ifndef VIEWS_BUSY_KIT_H
#define VIEWS_BUSY_KIT_H

#include "views_kit.h"

#include <pthread.h>
#include <unistd.h>

enum { BUSY_BEGIN = 1001, BUSY = 8000, FREE_BEGIN = BUSY_BEGIN + BUSY, A_WHILE_US = 3000, PATIENCE_S = 60 };

/* The situation of a test: a view with work on the held stream, and its neighbour without. */
static struct {
    synced_mem *root, *busy, *free;
    synced_mem_stream held, other;
    void *seen; /* memory that kernels read into */
} it;

/* Transfers of pageable memory are made by copy threads, so they need not block. */
static inline void begin(bool pageable)
{
    set_staging(2, 1);
    it.root = make_root(pageable);
    it.busy = view_of(it.root, BUSY_BEGIN, BUSY);
    it.free = view_of(it.root, FREE_BEGIN, BUSY);
    it.held = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    it.seen = gpu_alloc(0, ROOT);
    host_writes(it.root, 1);
    synced_mem_stream streams[] = {it.held, it.other};
    for (unsigned i = 0; i < 2; i++) {
        device_writes(it.root, 2 + i, streams[i]);
        OK(synced_mem_end_use_on(it.root, streams[i]));
        ck_assert(host_reads_right(it.root));
    }
    kernel_reads(it.root, it.other); /* prepares such kernels */
    OK(synced_mem_end_use_on(it.root, it.other));
    gpu_sync_device(0);
    OK(synced_mem_wait(it.root));
    HEAD(it.root, SYNCED);
}

static inline void finish(void)
{
    gpu_stream_sync(it.held);
    gpu_stream_sync(it.other);
    ck_assert(host_reads_right(it.root));
    RELEASE_EACH(it.busy, it.free, it.root);
    CLOSE_EACH(it.held, it.other);
    gpu_free(it.seen);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

static inline void kernel_is_held(void)
{
    gpu_hold(it.held);
    device_writes(it.busy, 5, it.held);
}

static inline void let_go(void)
{
    ck_assert(!gpu_stream_is_idle(it.held));
    gpu_unhold();
}

/* Copies an object's bytes to the test's memory, by a kernel on the stream. */
static inline void read_into_seen(synced_mem *mem, synced_mem_stream stream)
{
    gpu_copy(it.seen, given(synced_mem_gpu_data_on(mem, stream)), synced_mem_size(mem), stream);
}

static inline void host_read(void)
{
    ck_assert(host_reads_right(it.free));
}

/* ---- Calls that wait ---- */

static struct call {
    synced_mem *mem;
    atomic_bool done;
} call;

static inline void *make_call(void *unused)
{
    const void *const data = synced_mem_cpu_data(call.mem);
    atomic_store(&call.done, true);
    SOUND(data && bytes_are_right(call.mem, data));
    return unused;
}

/* Cuts all bytes, and joins most of them again. Returns a view that is left. */
static inline synced_mem *come_and_go(void)
{
    synced_mem *const early = view_of(it.root, BUSY_BEGIN + 500, 2000), *const late = view_of(it.root, 2000, 12000);
    synced_mem *const whole = view_of(it.root, 0, ROOT), *const left = view_of(late, 600, 5000);
    RELEASE_EACH(late, early, whole);
    return left;
}

/* Reads the object in a thread, which waits until the stream is let go. Meanwhile views are made and released. */
static inline void check_waits(synced_mem *mem)
{
    pthread_t thread;
    call.mem = mem;
    atomic_store(&call.done, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, make_call, NULL), 0);
    (void)usleep(A_WHILE_US);
    ck_assert(!atomic_load(&call.done));
    host_read(); /* beside a thread that waits */
    synced_mem *const left = come_and_go();
    ck_assert(!atomic_load(&call.done));
    gpu_unhold();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&call.done));
    ck_assert(host_reads_right(left));
    OK(synced_mem_release(left));
}

#endif
