/* Checks a thread that requests more memory than there is, while other threads go on to work. */
#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 5000, ROUNDS = 17 };
static const size_t TOO_MUCH = (size_t)1 << 60;

/* ---- Moments at which other threads run ---- */

static void (*at_each_refusal)(void);
static void (*at_each_wait)(void);

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    const cudaError_t code = __real_cudaEventSynchronize(event);
    if (at_each_wait)
        at_each_wait();
    return code;
}

cudaError_t __real_cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    if (at_each_refusal && size == TOO_MUCH)
        at_each_refusal();
    return __real_cudaMallocFromPoolAsync(out, size, pool, stream);
}

/* ---- Actions of the threads ---- */

static synced_mem_stream stream;

/* The runtime's pool does not wait for frees itself: freed memory is available once the free is done. */
static void begin(void)
{
    OK(synced_mem_gpu_pool_set_reuse(0, 0));
    stream = open_stream(NON_BLOCKING);
}

static void end(void)
{
    close_stream(stream);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

static synced_mem *create(size_t size)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.device = 0;
    SOUND(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

static void release(synced_mem *mem)
{
    SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
}

/* Makes a request that is refused. */
static void want_too_much(void)
{
    synced_mem *const mem = create(TOO_MUCH);
    SOUND(!synced_mem_overwrite_gpu_data(mem));
    SOUND(synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
    release(mem);
}

static void in_a_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    SOUND(pthread_create(&thread, NULL, body, argument) == 0 && pthread_join(thread, NULL) == 0);
}

static void *come_and_go(void *unused)
{
    synced_mem *const mem = create(SIZE);
    SOUND(synced_mem_overwrite_gpu_data(mem));
    release(mem);
    return unused;
}

static void let_another_come_and_go(void)
{
    in_a_thread(come_and_go, NULL);
}

static atomic_int pushes;
static void *pushed_is_pageable;

/* Leaves a retired host copy, or a bounce buffer, with work in flight. */
static void *push_and_go(void *pageable)
{
    static char memory[SIZE];
    synced_mem *const mem = create(SIZE);
    if (pageable)
        SOUND(synced_mem_set_cpu_data(mem, memory) == SYNCED_MEM_OK);
    else
        SOUND(synced_mem_overwrite_cpu_data(mem));
    SOUND(synced_mem_async_gpu_push(mem, stream) == SYNCED_MEM_OK);
    release(mem);
    return NULL;
}

static void let_another_push(void)
{
    enum { MOST = 300 };
    if (atomic_fetch_add(&pushes, 1) < MOST)
        in_a_thread(push_and_go, pushed_is_pageable);
}

static void *want_too_much_host_memory(void *unused)
{
    synced_mem *const mem = create(TOO_MUCH);
    SOUND(!synced_mem_overwrite_cpu_data(mem));
    SOUND(synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    release(mem);
    return unused;
}

static void let_another_be_refused(void)
{
    in_a_thread(want_too_much_host_memory, NULL);
}

/* ---- Other threads that never stop ---- */

/* A request for too much memory fails, although other threads release memory all the time. */
START_TEST(never_enough)
{
    begin();
    let_another_come_and_go();
    at_each_refusal = let_another_come_and_go;
    want_too_much();
    at_each_refusal = NULL;
    ck_assert_uint_eq(stats_now().oom_reaps, ROUNDS);
    ck_assert_uint_eq(stats_now().oom_failures, 1);
    end();
}
END_TEST

/* The same while other threads queue work all the time. A refused call waits for the work that it finds, and not for
 * work that is queued meanwhile. */
START_TEST(never_idle)
{
    enum { WAITS = 3 };
    begin();
    pushed_is_pageable = _i ? &pushes : NULL;
    let_another_push();
    at_each_wait = let_another_push;
    want_too_much();
    at_each_wait = NULL;
    ck_assert_int_le(atomic_load(&pushes), _i ? 1 : ROUNDS * WAITS);
    ck_assert_uint_eq(stats_now().oom_failures, 1);
    end();
}
END_TEST

/* Another thread that is refused memory, and has given nothing back, is no reason for one more try. */
START_TEST(refused_beside_refused)
{
    enum { STEPS = 4 };
    begin();
    at_each_refusal = let_another_be_refused;
    want_too_much();
    at_each_refusal = NULL;
    ck_assert_uint_eq(stats_now().oom_failures, STEPS + 1);
    ck_assert_uint_eq(stats_now().oom_reaps, STEPS + 1);
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("never");
    TCase *const working = add_case(made, "working");
    tcase_add_test(working, never_enough);
    tcase_add_loop_test(working, never_idle, 0, 2);
    TCase *const refused = add_case(made, "refused");
    tcase_add_test(refused, refused_beside_refused);
    return made;
}
