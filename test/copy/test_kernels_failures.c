/* Tests the way by kernel when the kernel, its list or its device fails, and when the device has no room for it. */
#include "break_device.h"
#include "failing_calls.h"
#include "fixture.h"
#include "kernels.h"
#include "trace_kit.h"

#include "copy/kernel_list.h"
#include "copy/kernel_start.h"
#include "copy/kernel_way.h"
#include "copy/urgent.h"
#include "device/device.h"
#include "system/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The linker puts the wrappers in place of the library's functions (--wrap). */
static bool has_no_thread;

bool __real_sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument);
bool __wrap_sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument);
bool __wrap_sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument)
{
    return !has_no_thread && __real_sm_thread_start(thread, run, argument);
}

/* FORESEEN: the most copies of a call that begins to look for room before it knows them. COUNT: more than that, and
 * than a kernel's parameter has room for. */
enum { FORESEEN = 160, COUNT = FORESEEN + 20, BYTES = 500 };

/* The launches of a call. */
enum { PROBE = 1, LIST = 2 };

/* The first launch of a probe starts a thread, and waits a while before it goes on. The thread waits for it after its
 * own launch. */
static struct race {
    void *(*run)(void *unused);
    pthread_t thread;
    atomic_bool is_launched;
} race;

static void rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

synced_mem_status __real_sm_device_run_probe(int device, unsigned number, synced_mem_stream on);
synced_mem_status __wrap_sm_device_run_probe(int device, unsigned number, synced_mem_stream on);
synced_mem_status __wrap_sm_device_run_probe(int device, unsigned number, synced_mem_stream on)
{
    void *(*const run)(void *) = race.run;
    const bool is_first = run != NULL;
    race.run = NULL;
    if (is_first)
        ck_assert_int_eq(pthread_create(&race.thread, NULL, run, NULL), 0);
    for (int i = 0; is_first && i < 10; i++)
        rest();
    const synced_mem_status status = __real_sm_device_run_probe(device, number, on);
    for (int i = 0; !is_first && race.thread && !atomic_load(&race.is_launched) && i < 50; i++)
        rest();
    atomic_store(&race.is_launched, true);
    return status;
}

static synced_mem *mems[COUNT];
static synced_mem_stream stream;

static void begin(void)
{
    OK(sm_device_resolve(0, &(int){0}));
    use_kernels(1);
    stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < COUNT; i++)
        mems[i] = make_on(BYTES, 0);
}

static void end(void)
{
    release_all(mems, COUNT);
    close_stream(stream);
}

static void write_all(unsigned pattern)
{
    for (int i = 0; i < COUNT; i++)
        host_fill(synced_mem_overwrite_cpu_data(mems[i]), BYTES, pattern + (unsigned)i);
}

static synced_mem_status push(int count)
{
    return synced_mem_async_gpu_push_n(mems, (size_t)count, stream);
}

/* Pushes all, and returns how many copies a kernel has made. */
static uint64_t push_and_check(int count, unsigned pattern)
{
    const uint64_t before = stats_now().kernel_copies;
    OK(push(count));
    const uint64_t by_kernel = stats_now().kernel_copies - before;
    for (int i = 0; i < count; i++)
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), BYTES, pattern + (unsigned)i));
    return by_kernel;
}

/* After a refused launch engines copy, and the next call launches again. The memory of the list has gone back. */
START_TEST(launch_is_refused)
{
    const int count = _i % 2 ? COUNT : SM_FEW_ENTRIES;
    begin();
    write_all(1);
    emu_fail("cudaLaunchKernelExC", _i < 2 ? PROBE : LIST, cudaErrorLaunchOutOfResources, false);
    ck_assert_uint_eq(push_and_check(count, 1), 0);
    ck_assert_str_eq(synced_mem_last_error_message(), "");
    write_all(2);
    ck_assert_uint_eq(push_and_check(count, 2), (unsigned)count);
    end();
}
END_TEST

/* On the legacy stream engines take each copy alone. */
START_TEST(launch_is_refused_on_the_legacy_stream)
{
    begin();
    write_all(1);
    emu_fail("cudaLaunchKernelExC", LIST, cudaErrorLaunchOutOfResources, false);
    const unsigned before = emu_calls("cudaMemcpyAsync");
    OK(synced_mem_async_gpu_push_n(mems, COUNT, LEGACY_HANDLE));
    ck_assert_uint_eq(emu_calls("cudaMemcpyAsync") - before, COUNT);
    for (int i = 0; i < COUNT; i++)
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), BYTES, 1 + (unsigned)i));
    end();
}
END_TEST

START_TEST(copies_on_the_device_are_refused)
{
    synced_mem *others[COUNT];
    begin();
    write_all(1);
    OK(push(COUNT));
    for (int i = 0; i < COUNT; i++)
        others[i] = make_on(BYTES, 0);
    emu_fail("cudaLaunchKernelExC", LIST, cudaErrorLaunchOutOfResources, false);
    if (_i)
        emu_fail("cudaMemcpyAsync", 3, cudaErrorUnknown, false);
    const synced_mem_status status = synced_mem_async_gpu_copy_n(others, mems, COUNT, stream);
    ck_assert_int_eq(status, _i ? SYNCED_MEM_ERR_CUDA : SYNCED_MEM_OK);
    ck_assert(!_i || !strstr(synced_mem_last_error_message(), "object")); /* it may be any */
    for (int i = 0; i < COUNT && !_i; i++)
        ck_assert(host_is(synced_mem_cpu_data(others[i]), BYTES, 1 + (unsigned)i));
    release_all(others, COUNT);
    end();
}
END_TEST

/* Takes all page-locked memory that the library has or may get, and returns how many objects have it. */
static size_t take_page_locked_memory(synced_mem **taken, size_t room)
{
    static const size_t sizes[] = {1 << 20, 1 << 16, 1 << 13, 1 << 12, 1 << 11};
    size_t count = 0;
    OK(synced_mem_host_pool_set_limit(1));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool has = true;
        while (has && count < room) {
            taken[count] = make_on(sizes[i], 0);
            has = synced_mem_overwrite_cpu_data(taken[count++]) != NULL;
        }
    }
    ck_assert_uint_lt(count, room);
    return count;
}

/* A kernel needs page-locked memory. Without, engines copy. */
START_TEST(list_memory_is_refused)
{
    static synced_mem *taken[10000];
    begin();
    write_all(1);
    const size_t count = take_page_locked_memory(taken, sizeof taken / sizeof taken[0]);
    ck_assert_uint_eq(push_and_check(COUNT, 1), 0);
    OK(synced_mem_host_pool_set_limit(0));
    write_all(2);
    ck_assert_uint_eq(push_and_check(COUNT, 2), COUNT);
    release_all(taken, count);
    end();
}
END_TEST

/* The first object reads the environment. What is no number of blocks changes nothing. */
START_TEST(environment)
{
    enum { BEFORE = 5 };
    static const struct {
        const char *text;
        int blocks;
    } rows[] = {{"0", 0},       {"7", 7},     {"-1", -1},     {"1024", 1024},  {"1025", BEFORE},
                {"-2", BEFORE}, {"", BEFORE}, {"7x", BEFORE}, {"many", BEFORE}};
    sm_kernel_way_set(BEFORE);
    ck_assert_int_eq(setenv("SYNCED_MEM_KERNEL_BLOCKS", rows[_i].text, 1), 0);
    synced_mem *const mem = make(BYTES);
    ck_assert_int_eq(sm_kernel_way_get(), rows[_i].blocks);
    OK(synced_mem_release(mem));
}
END_TEST

/* Without a thread engines copy, and the next call tries again. */
START_TEST(no_thread_loads)
{
    OK(sm_device_resolve(0, &(int){0}));
    has_no_thread = true;
    use_kernels(1);
    ck_assert_uint_eq(sm_device_list_processors(0), 0);
    has_no_thread = false;
    begin();
    write_all(1);
    ck_assert_uint_eq(push_and_check(COUNT, 1), COUNT);
    end();
}
END_TEST

/* A probe that has run before anybody looks for its number needs no query. */
START_TEST(the_probe_has_run)
{
    struct sm_kernel_probe probe = {.since = 0};
    begin();
    ck_assert(sm_kernel_probe_begin(&probe, 0));
    gpu_sync_device(0);
    const unsigned queries = emu_calls("cudaStreamQuery");
    ck_assert(sm_kernel_probe_has_run(&probe, 0, UINT64_MAX));
    ck_assert_uint_eq(emu_calls("cudaStreamQuery"), queries);
    end();
}
END_TEST

/* No probe can be launched without its stream. */
START_TEST(no_stream_for_the_probe)
{
    begin();
    write_all(1);
    OK(push(0));
    OK(synced_mem_async_gpu_push_n(mems, 1, stream));
    emu_fail("cudaStreamCreateWithFlags", 1, cudaErrorUnknown, false);
    ck_assert_uint_eq(push_and_check(COUNT, 1), 0);
    write_all(2);
    ck_assert_uint_eq(push_and_check(COUNT, 2), COUNT);
    end();
}
END_TEST

/* A list that is sent while the call goes on listing, and fails: no target counts as written, and the message names no
 * object, as any may have failed. */
START_TEST(a_list_fails_in_mid_call)
{
    enum { MANY = SM_KERNEL_AT_ONCE + 100, EACH = 8 };
    synced_mem **const from = calloc(2 * MANY, sizeof *from);
    synced_mem **const to = from + MANY;
    begin();
    for (int i = 0; i < MANY; i++) {
        from[i] = make_on(EACH, 0);
        to[i] = make_on(EACH, 0);
        host_fill(synced_mem_overwrite_cpu_data(from[i]), EACH, (unsigned)i);
        given(synced_mem_gpu_data(from[i]));
    }
    emu_fail("cudaLaunchKernelExC", LIST, cudaErrorInvalidValue, false);
    emu_fail("cudaMemcpyAsync", 3, cudaErrorInvalidValue, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_copy_n(to, from, MANY, stream));
    ck_assert_ptr_null(strstr(synced_mem_last_error_message(), "object"));
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(synced_mem_head(to[i]), SYNCED_MEM_UNINITIALIZED);
    OK(synced_mem_async_gpu_copy_n(to, from, MANY, stream));
    for (int i = 0; i < MANY; i++)
        ck_assert(host_is(synced_mem_cpu_data(to[i]), EACH, (unsigned)i));
    release_all(from, 2 * MANY);
    free(from);
    end();
}
END_TEST

/* A program on another device has no context on device 0, neither from the thread that loads nor at the shutdown. */
START_TEST(no_stray_context)
{
    gpu_make_current(1);
    use_kernels(0);
    stream = gpu_stream_create(1, false);
    for (int i = 0; i < COUNT; i++)
        mems[i] = make_on(BYTES, 1);
    for (unsigned i = 0; i < 2; i++) {
        write_all(i);
        OK(push(COUNT));
        gpu_stream_sync(stream);
        sm_device_await_lists();
    }
    ck_assert_uint_ge(stats_now().kernel_copies, COUNT);
    release_all(mems, COUNT);
    gpu_stream_destroy(stream);
    OK(synced_mem_shutdown());
    ck_assert(!emu_has_context(0));
}
END_TEST

static unsigned count_calls;

/* The calls of polls for room are left out, as their number depends on time. */
static void add_calls(const char *call, unsigned count, void *user)
{
    static const char *const of_polls[] = {"cudaStreamQuery", "cudaGetDevice", "cudaThreadExchangeStreamCaptureMode"};
    (void)user;
    for (size_t i = 0; i < sizeof of_polls / sizeof *of_polls; i++)
        if (strcmp(call, of_polls[i]) == 0)
            return;
    count_calls += count;
}

static unsigned all_calls(void)
{
    count_calls = 0;
    emu_each_call(add_calls, NULL);
    return count_calls;
}

/* The calls of the runtime grow with the number of kernels, each of which makes SM_KERNEL_AT_ONCE copies. */
START_TEST(calls_grow_with_kernels)
{
    enum { MANY = 10000, OF_A_KERNEL = 12 };
    synced_mem **const all = calloc(MANY, sizeof(synced_mem *));
    unsigned calls[2];
    begin();
    for (int i = 0; i < MANY; i++) {
        all[i] = make_on(16, 0);
        host_fill(synced_mem_overwrite_cpu_data(all[i]), 16, (unsigned)i);
    }
    OK(synced_mem_async_gpu_push_n(all, MANY, stream)); /* obtains memory */
    for (int many = 0; many < 2; many++) {
        const size_t count = many ? MANY : 100;
        for (size_t i = 0; i < count; i++)
            host_fill(synced_mem_overwrite_cpu_data(all[i]), 16, (unsigned)i + 1);
        const unsigned before = all_calls();
        OK(synced_mem_async_gpu_push_n(all, count, stream));
        calls[many] = all_calls() - before;
    }
    ck_assert_uint_le(calls[0], OF_A_KERNEL);
    ck_assert_uint_le(calls[1], OF_A_KERNEL * (1 + MANY / SM_KERNEL_AT_ONCE));
    for (int i = 0; i < MANY; i += 99)
        ck_assert(device_is(synced_mem_gpu_data(all[i]), 16, (unsigned)i + 1));
    release_all(all, MANY);
    free(all);
    end();
}
END_TEST

/* After a call whose copies a kernel has made, the next one of few launches its probe as it begins. If it then has no
 * copies, the one after it launches none. */
START_TEST(the_probe_of_a_later_call)
{
    static const int counts[] = {SM_FEW_ENTRIES, SM_FEW_ENTRIES + 1, FORESEEN, FORESEEN + 1};
    const int count = counts[_i];
    const unsigned launches[] = {PROBE + 1, count > FORESEEN ? 0 : PROBE, 0, PROBE + 1};
    begin();
    write_all(1);
    OK(push(count)); /* obtains memory */
    for (int i = 0; i < 4; i++) {
        if (i == 0 || i == 3)
            write_all(2 + (unsigned)i);
        const unsigned before = emu_calls("cudaLaunchKernelExC");
        OK(push(count));
        ck_assert_uint_eq(emu_calls("cudaLaunchKernelExC") - before, launches[i]);
    }
    for (int i = 0; i < count; i++)
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), BYTES, 5 + (unsigned)i));
    end();
}
END_TEST

/* Of a large call each block has an event. One that is refused leaves the blocks before it SYNCED, and the others as
 * they were. */
START_TEST(a_block_is_refused)
{
    enum { MANY = 2 * SM_KERNEL_AT_ONCE + 100, BLOCKS = 3 };
    synced_mem **const all = calloc(MANY, sizeof(synced_mem *));
    const bool pulls = _i >= 2;
    size_t synced = 0;
    begin();
    for (int i = 0; i < MANY; i++) {
        all[i] = make_on(16, 0);
        host_fill(synced_mem_overwrite_cpu_data(all[i]), 16, (unsigned)i);
    }
    OK(synced_mem_async_gpu_push_n(all, MANY, stream)); /* obtains memory */
    for (int i = 0; i < MANY; i++)
        given(pulls ? synced_mem_mutable_gpu_data_on(all[i], stream) : synced_mem_mutable_cpu_data(all[i]));
    const unsigned before = emu_calls("cudaEventRecord");
    if (_i % 2) {
        emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false);
        emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    }
    const synced_mem_status status =
        pulls ? synced_mem_async_cpu_pull_n(all, MANY, stream) : synced_mem_async_gpu_push_n(all, MANY, stream);
    ck_assert_int_eq(status, _i % 2 ? SYNCED_MEM_ERR_CUDA : SYNCED_MEM_OK);
    ck_assert(_i % 2 || emu_calls("cudaEventRecord") - before == BLOCKS);
    for (int i = 0; i < MANY; i++)
        synced += synced_mem_head(all[i]) == SYNCED_MEM_SYNCED;
    ck_assert_uint_eq(synced, _i % 2 ? SM_KERNEL_AT_ONCE : MANY);
    gpu_stream_sync(stream);
    for (int i = 0; i < MANY && _i % 2 == 0; i += 37)
        ck_assert(device_is(synced_mem_gpu_data(all[i]), 16, (unsigned)i));
    release_all(all, MANY);
    free(all);
    end();
    if (_i % 2)
        emu_reset(0); /* memory is left that nobody may free */
}
END_TEST

/* One event of a call stands behind its kernels, for the lists and for the objects. Without it the call waits. */
START_TEST(an_event_is_refused)
{
    begin();
    write_all(1);
    const unsigned before = emu_calls("cudaEventRecord");
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    ck_assert_uint_eq(push_and_check(COUNT, 1), COUNT);
    ck_assert_uint_eq(emu_failures(), 1);
    ck_assert_uint_eq(emu_calls("cudaEventRecord") - before, 1);
    ck_assert_uint_eq(stats_now().quarantined, 0);
    end();
}
END_TEST

/* Without a wait too, nobody can tell when the kernel has read the list. So its code stays for good. */
START_TEST(no_event_and_no_wait)
{
    begin();
    write_all(1);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, push(COUNT));
    ck_assert_uint_eq(emu_failures(), 2);
    ck_assert_uint_eq(stats_now().quarantined, 1);
    gpu_stream_sync(stream);
    end();
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_calls("cudaLibraryUnload"), 0);
    emu_reset(0); /* memory is left that nobody may free */
}
END_TEST

/* Copies on the device leave no host memory whose release waits for the kernel. The end of the test unloads it. */
START_TEST(released_behind_the_kernel)
{
    synced_mem *others[COUNT];
    begin();
    write_all(1);
    OK(push(COUNT));
    for (int i = 0; i < COUNT; i++)
        others[i] = make_on(BYTES, 0);
    gpu_stream_sync(stream);
    OK(synced_mem_async_gpu_copy_n(others, mems, _i ? COUNT : 10, stream));
    release_all(others, COUNT);
    release_all(mems, COUNT);
    OK(synced_mem_forget_stream(stream));
    OK(synced_mem_shutdown());
    gpu_stream_destroy(stream);
}
END_TEST

/* A device that is lost with the kernel queued loses the contents, as with copy engines. */
START_TEST(device_is_lost)
{
    begin();
    write_all(1);
    if (_i)
        emu_fail("cudaLaunchKernelExC", 1, cudaErrorLaunchFailure, true);
    else
        emu_break_device(0, cudaErrorLaunchFailure);
    const synced_mem_status status = push(COUNT);
    if (_i)
        ck_assert_int_eq(status, SYNCED_MEM_ERR_DEVICE_LOST);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mems[0]));
    ck_assert(host_is(synced_mem_cpu_data(mems[0]), BYTES, 1));
    release_all(mems, COUNT);
    end_without_device();
}
END_TEST

/* A kernel that fills the device and waits for the host holds up no push, pull or copy. Later calls launch no probe
 * while the first one waits, and kernels copy again once the device has room. */
START_TEST(a_full_device)
{
    synced_mem *others[COUNT];
    begin();
    for (int i = 0; i < COUNT; i++)
        others[i] = make_on(BYTES, 0);
    write_all(1);
    ck_assert_uint_eq(push_and_check(COUNT, 1), COUNT);
    const uint64_t before = stats_now().kernel_copies;
    emu_occupy_device(0, true);
    sm_kernel_probe_set_patience(0);
    for (unsigned i = 2; i < 5; i++) {
        const unsigned launched = emu_calls("cudaLaunchKernelExC");
        write_all(i);
        OK(push(COUNT));
        ck_assert_uint_eq(emu_calls("cudaLaunchKernelExC") - launched, i == 2);
        OK(synced_mem_async_gpu_copy_n(others, mems, COUNT, stream));
        OK(synced_mem_async_cpu_pull_n(others, COUNT, stream));
        gpu_stream_sync(stream);
        ck_assert_uint_eq(stats_now().kernel_copies, before);
        for (int j = 0; j < COUNT; j++)
            ck_assert(host_is(synced_mem_cpu_data(others[j]), BYTES, i + (unsigned)j));
    }
    sm_bulk_begin(0, SM_D2H);
    given(synced_mem_mutable_gpu_data_on(mems[0], stream));
    OK(synced_mem_async_cpu_pull_urgent(mems[0], stream));
    sm_bulk_end(0, SM_D2H);
    gpu_stream_sync(stream);
    ck_assert_uint_eq(stats_now().kernel_copies, before);
    emu_occupy_device(0, false);
    use_kernels(1);
    uint64_t copies = 0;
    for (int tries = 0; tries < 100 && copies == 0; tries++) {
        write_all(6);
        copies = push_and_check(COUNT, 6);
    }
    ck_assert_uint_eq(copies, COUNT);
    release_all(others, COUNT);
    end();
}
END_TEST

/* Work before the kernel on its stream does not count: the probe has a stream of its own. */
START_TEST(a_kernel_behind_work)
{
    begin();
    for (unsigned i = 0; i < 50; i++) {
        write_all(i);
        gpu_delay(stream);
        const uint64_t before = stats_now().kernel_copies;
        OK(push(COUNT));
        ck_assert_uint_eq(stats_now().kernel_copies - before, COUNT);
        gpu_stream_sync(stream);
    }
    end();
}
END_TEST

static synced_mem_stream other;

static void *push_other_half(void *unused)
{
    (void)unused;
    OK(synced_mem_async_gpu_push_n(mems + COUNT / 2, COUNT / 2, other));
    return NULL;
}

/* Two calls launch probes at once, and the first one is held up before its launch: the word ascends all the same. */
START_TEST(probes_of_two_threads)
{
    begin();
    other = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 20; i++) {
        write_all(i);
        race = (struct race){.run = push_other_half};
        OK(synced_mem_async_gpu_push_n(mems, COUNT / 2, stream));
        pthread_join(race.thread, NULL);
        gpu_stream_sync(stream);
        gpu_stream_sync(other);
        for (int j = 0; j < COUNT; j++)
            ck_assert(device_is(synced_mem_gpu_data(mems[j]), BYTES, i + (unsigned)j));
    }
    ck_assert_uint_eq(stats_now().kernel_copies, 20 * (COUNT / 2 * 2));
    close_stream(other);
    end();
}
END_TEST

/* A device that is lost while the probe waits. */
START_TEST(device_is_lost_under_the_probe)
{
    begin();
    write_all(1);
    OK(push(COUNT));
    write_all(2);
    emu_break_device(0, cudaErrorLaunchFailure);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, push(COUNT));
    release_all(mems, COUNT);
    end_without_device();
}
END_TEST

/* A stream that captures is refused as ever. Beside a capture the kernel is loaded and launched. */
START_TEST(captures)
{
    cudaStream_t capturing;
    cudaGraph_t graph;
    begin();
    write_all(1);
    OK(push(COUNT));
    write_all(2);
    ck_assert_int_eq(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking), cudaSuccess);
    ck_assert_int_eq(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal), cudaSuccess);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push_n(mems, COUNT, capturing));
    const uint64_t before = stats_now().kernel_copies;
    OK(push(COUNT));
    ck_assert_uint_eq(stats_now().kernel_copies - before, COUNT);
    (void)sm_device_list_processors(1);
    sm_device_await_lists();
    ck_assert_uint_gt(sm_device_list_processors(1), 0);
    ck_assert_int_eq(cudaStreamEndCapture(capturing, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    ck_assert_int_eq(cudaStreamDestroy(capturing), cudaSuccess);
    end();
}
END_TEST

/* A trace names the way of each transfer, and does not change it. */
START_TEST(a_trace)
{
    begin();
    name_file();
    start();
    write_all(1);
    ck_assert_uint_eq(push_and_check(COUNT, 1), COUNT);
    OK(synced_mem_set_kernel_blocks(0));
    write_all(2);
    ck_assert_uint_eq(push_and_check(COUNT, 2), 0);
    stop();
    ck_assert_uint_eq(count_of("\"way\":\"list\""), COUNT);
    ck_assert_uint_eq(count_of("\"way\":\"engine\""), COUNT);
    end();
}
END_TEST

/* More entries than one list has become several kernels. */
START_TEST(more_entries_than_one_list)
{
    enum { LIMIT = 1 << 15, ENTRIES = LIMIT + 100, EACH = 8 };
    struct sm_stream *on;
    begin();
    struct sm_kernel_list list = {
        .entries = calloc(ENTRIES, sizeof *list.entries), .is_open = true, .has_room = true, .probe.since = 1};
    unsigned char *const from = gpu_pinned_alloc(ENTRIES * EACH);
    unsigned char *const to = gpu_alloc(0, ENTRIES * EACH);
    ck_assert_ptr_nonnull(list.entries);
    pattern_write(from, ENTRIES * EACH, 5);
    OK(sm_stream_find(0, stream, &on));
    for (size_t i = 0; i < ENTRIES; i++)
        sm_kernel_list_add(&list, to + EACH * i, from + EACH * i, EACH);
    const unsigned before = emu_calls("cudaLaunchKernelExC");
    ck_assert_uint_eq(sm_kernel_list_send(&list, SM_H2D, on), ENTRIES);
    ck_assert_uint_eq(emu_calls("cudaLaunchKernelExC") - before, 2);
    gpu_stream_sync(stream);
    ck_assert(device_is(to, ENTRIES * EACH, 5));
    emu_fail("cudaLaunchKernelExC", 2, cudaErrorUnknown, false);
    ck_assert_uint_eq(sm_kernel_list_send(&list, SM_H2D, on), LIMIT);
    gpu_stream_sync(stream);
    sm_stream_drop(on);
    free(list.entries);
    gpu_pinned_free(from);
    gpu_free(to);
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("kernels_failures");
    TCase *const kernels = add_case(all, "failures");
    TCase *const left = add_case_without_end(all, "left");
    tcase_add_loop_test(kernels, launch_is_refused, 0, 4);
    tcase_add_loop_test(kernels, copies_on_the_device_are_refused, 0, 2);
    add_tests(kernels, launch_is_refused_on_the_legacy_stream, list_memory_is_refused, a_full_device,
              a_kernel_behind_work, captures, a_trace, more_entries_than_one_list);
    tcase_add_test(kernels, probes_of_two_threads);
    tcase_add_loop_test(kernels, environment, 0, 9);
    add_tests(kernels, no_thread_loads, the_probe_has_run, no_stream_for_the_probe, a_list_fails_in_mid_call,
              calls_grow_with_kernels);
    add_tests(kernels, an_event_is_refused);
    tcase_add_loop_test(kernels, the_probe_of_a_later_call, 0, 4);
    tcase_add_loop_test(kernels, a_block_is_refused, 0, 1);
    tcase_add_loop_test(kernels, a_block_is_refused, 2, 3);
    tcase_add_loop_test(left, a_block_is_refused, 1, 2);
    tcase_add_loop_test(left, a_block_is_refused, 3, 4);
    tcase_add_loop_test(kernels, released_behind_the_kernel, 0, 2);
    tcase_add_loop_test(left, device_is_lost, 0, 2);
    add_tests(left, no_event_and_no_wait, device_is_lost_under_the_probe, no_stray_context);
    return all;
}
