/* Checks the first memory of a device, which does not come from its pool while a thread warms that. */
#include "cudart_emu.h"
#include "fixture.h"

#include "device/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 5000, STEP_US = 1000, PATIENCE = 100000 };

/* ---- The runtime's first allocation from a pool takes until the gate is open ---- */

static atomic_bool is_open, is_refused;
static atomic_uint warmings;

cudaError_t __real_cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    if (atomic_load(&is_open))
        return __real_cudaMallocFromPoolAsync(out, size, pool, stream);
    atomic_fetch_add(&warmings, 1);
    for (int i = 0; i < PATIENCE && !atomic_load(&is_open); i++)
        (void)usleep(STEP_US);
    return atomic_load(&is_refused) ? cudaErrorMemoryAllocation
                                    : __real_cudaMallocFromPoolAsync(out, size, pool, stream);
}

static pthread_t main_thread;
static atomic_bool is_stream_refused; /* of the next thread of the library's */

cudaError_t __real_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    if (!pthread_equal(pthread_self(), main_thread) && atomic_exchange(&is_stream_refused, false))
        return cudaErrorUnknown;
    return __real_cudaStreamCreateWithFlags(stream, flags);
}

static atomic_bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument)
{
    return atomic_load(&no_threads) ? 11 : __real_pthread_create(thread, how, run, argument);
}

static void begin(void)
{
    main_thread = pthread_self();
    sm_device_pool_warm_beside(true);
    atomic_store(&is_open, false);
    atomic_store(&is_refused, false);
    atomic_store(&warmings, 0);
}

static synced_mem *make_filled(unsigned pattern)
{
    synced_mem *const mem = make_on(SIZE, 0);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, pattern, NULL);
    return mem;
}

static uint64_t in_pool(void)
{
    struct sm_pool_numbers numbers;
    OK(sm_device_pool_numbers(0, &numbers));
    return numbers.used;
}

/* The next memory is the pool's once that is warm. */
static synced_mem *await_pool(void)
{
    atomic_store(&is_open, true);
    for (int i = 0; i < PATIENCE; i++) {
        synced_mem *const mem = make_filled(2);
        if (in_pool() >= SIZE)
            return mem;
        OK(synced_mem_release(mem));
        OK(synced_mem_gpu_pool_trim(0, 0)); /* the cache would have it for the next object */
        (void)usleep(STEP_US);
    }
    ck_abort_msg("the pool was never warm");
}

/* kind: where the first memory is released: before the pool is warm, or afterwards. */
START_TEST(from_no_pool_and_then_from_it)
{
    begin();
    synced_mem *const first = make_filled(1);
    ck_assert_uint_eq(emu_calls("cudaMalloc"), 1);
    ck_assert_uint_eq(in_pool(), 0);
    ck_assert(device_is(synced_mem_gpu_data(first), SIZE, 1));
    if (_i == 0)
        OK(synced_mem_release(first));
    atomic_store(&is_refused, _i == 2);
    while (atomic_load(&warmings) == 0)
        (void)usleep(STEP_US);
    synced_mem *const second = await_pool();
    ck_assert_uint_ge(in_pool(), SIZE);
    ck_assert_uint_eq(atomic_load(&warmings), 1);
    ck_assert(device_is(synced_mem_gpu_data(second), SIZE, 2));
    if (_i != 0)
        OK(synced_mem_release(first));
    OK(synced_mem_release(second));
    ck_assert_uint_eq(emu_calls("cudaFree"), 0);
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_live(EMU_DEVICE_MEMORY), 0);
}
END_TEST

/* A program that sets something of the pool has all memory from it, and so has one without threads. */
START_TEST(from_the_pool_at_once)
{
    begin();
    atomic_store(&is_open, true);
    atomic_store(&no_threads, _i == 1);
    if (_i == 0)
        OK(synced_mem_gpu_pool_set_threshold(0, UINT64_MAX));
    synced_mem *const mem = make_filled(1);
    atomic_store(&no_threads, false);
    ck_assert_uint_eq(emu_calls("cudaMalloc"), 0);
    ck_assert_uint_ge(in_pool(), SIZE);
    OK(synced_mem_release(mem));
}
END_TEST

/* The shutdown waits for the thread. */
static void *open_soon(void *unused)
{
    (void)unused;
    (void)usleep(20 * STEP_US);
    atomic_store(&is_open, true);
    return NULL;
}

START_TEST(shutdown_meanwhile)
{
    begin();
    synced_mem *const mem = make_filled(1);
    pthread_t opener;
    ck_assert_int_eq(pthread_create(&opener, NULL, open_soon, NULL), 0);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert(atomic_load(&is_open));
    ck_assert_int_eq(pthread_join(opener, NULL), 0);
}
END_TEST

/* The end of the process waits too: the runtime has ended when its functions for that have run. */
static void check_open(void)
{
    if (!atomic_load(&is_open))
        _exit(1);
}

START_TEST(exit_meanwhile)
{
    const pid_t child = fork();
    if (child == 0) {
        pthread_t opener;
        leaves_memory = true;
        (void)atexit(check_open); /* called after the library's */
        begin();
        (void)make_filled(1);
        SOUND(pthread_create(&opener, NULL, open_soon, NULL) == 0 && pthread_detach(opener) == 0);
        exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* The access of a peer covers memory of both kinds, and is taken back from both. */
START_TEST(peers)
{
    begin();
    synced_mem *const mem = make_filled(1);
    if (_i == 1)
        OK(synced_mem_release(await_pool()));
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    ck_assert_uint_eq(emu_calls("cudaDeviceEnablePeerAccess"), 1);
    ck_assert_uint_ge(emu_calls("cudaMemPoolSetAccess"), 1);
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 0));
    ck_assert_uint_eq(emu_calls("cudaDeviceDisablePeerAccess"), 1);
    atomic_store(&is_open, true);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(a_peer_is_refused)
{
    static const char *const calls[] = {"cudaDeviceEnablePeerAccess", "cudaMemPoolSetAccess"};
    begin();
    synced_mem *const mem = make_filled(1);
    emu_fail(calls[_i], 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_pool_allow_peer(0, 1, 1));
    SAYS(calls[_i]);
    ck_assert_uint_eq(emu_calls("cudaDeviceDisablePeerAccess"), _i == 0 ? 0 : 1);
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    atomic_store(&is_open, true);
    OK(synced_mem_release(mem));
}
END_TEST

/* The thread cannot have a stream. */
START_TEST(no_stream)
{
    begin();
    atomic_store(&is_open, true);
    atomic_store(&is_stream_refused, true);
    synced_mem *const mem = make_filled(1);
    OK(synced_mem_release(mem));
    OK(synced_mem_release(await_pool()));
    ck_assert(!atomic_load(&is_stream_refused));
    ck_assert_uint_eq(atomic_load(&warmings), 0);
}
END_TEST

/* The runtime refuses once to take back what the thread has. It does so at a second try. */
START_TEST(nothing_is_left_after_a_failure)
{
    static const char *const calls[] = {"cudaFreeAsync", "cudaStreamDestroy"};
    begin();
    synced_mem *const mem = make_filled(1);
    const unsigned failures = emu_failures();
    emu_fail(calls[_i], 1, cudaErrorUnknown, false);
    atomic_store(&is_open, true);
    while (emu_failures() == failures)
        (void)usleep(STEP_US);
    emu_fail_clear();
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_live(EMU_DEVICE_MEMORY), 0);
    ck_assert_uint_eq(emu_live(EMU_STREAM), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("warm");
    TCase *const tests = add_case(made, "warm");
    tcase_add_loop_test(tests, from_no_pool_and_then_from_it, 0, 3);
    tcase_add_loop_test(tests, from_the_pool_at_once, 0, 2);
    tcase_add_loop_test(tests, peers, 0, 2);
    tcase_add_loop_test(tests, a_peer_is_refused, 0, 2);
    tcase_add_loop_test(tests, nothing_is_left_after_a_failure, 0, 2);
    add_tests(tests, shutdown_meanwhile, exit_meanwhile, no_stream);
    return made;
}
