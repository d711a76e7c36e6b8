/* Checks calls for which there is no room while a call of another thread holds its objects: they wait until it ends. */
#include "host_budget_kit.h"

#include "object/push_pull.h"
#include "system/clock.h"

#include <pthread.h>
#include <unistd.h>

enum { COUNT = 2, SIZE = 4096, LONG_MS = 100, PATIENCE = 900000000 /* nanoseconds, at least */ };
enum { PULL, PUSH, HOLD_HOST, HOLD_DEVICE, WAITERS };

static synced_mem *inside[COUNT], *outside[COUNT];
static synced_mem_stream stream;
static atomic_bool stops; /* the next call stops before it moves anything */
static atomic_bool has_stopped, goes_on;
static void (*within)(void); /* is called there instead */

static void stop(void)
{
    if (!atomic_exchange(&stops, false))
        return;
    if (within) {
        within();
        return;
    }
    atomic_store(&has_stopped, true);
    while (!atomic_load(&goes_on))
        (void)usleep(1000);
}

synced_mem_status __real_sm_move_once(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                                      synced_mem_stream handle, struct synced_mem **failed);
synced_mem_status __wrap_sm_move_once(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                                      synced_mem_stream handle, struct synced_mem **failed);
synced_mem_status __wrap_sm_move_once(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                                      synced_mem_stream handle, struct synced_mem **failed)
{
    stop();
    return __real_sm_move_once(mems, count, side, is_urgent, handle, failed);
}

static bool is_on_host(int waiter)
{
    return waiter == PULL || waiter == HOLD_HOST;
}

/* Both sets have contents on the other side alone. The budget of the side has room for one of them. */
static void begin(int waiter)
{
    const bool on_host = is_on_host(waiter);
    stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        synced_mem **const mem = i < COUNT ? &inside[i] : &outside[i - COUNT];
        *mem = make_evictable("one", SIZE);
        host_fill(given(synced_mem_overwrite_cpu_data(*mem)), SIZE, i);
        if (!on_host)
            continue;
        OK(hold_one(*mem, SYNCED_MEM_MUTABLE, stream));
        (void)given(synced_mem_mutable_gpu_data_on(*mem, stream));
        OK(unhold_one(*mem));
        OK(synced_mem_release_cpu_data(*mem));
    }
    if (on_host)
        set_host_budget((uint64_t)COUNT * SIZE, NULL);
    else
        set_budget((uint64_t)COUNT * SIZE);
    within = NULL;
    atomic_store(&has_stopped, false);
    atomic_store(&goes_on, false);
}

static void end(void)
{
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    set_budget(SYNCED_MEM_NO_BUDGET);
    for (unsigned i = 0; i < 2 * COUNT; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(i < COUNT ? inside[i] : outside[i - COUNT])), SIZE, i));
    release_all(inside, COUNT);
    release_all(outside, COUNT);
    close_stream(stream);
}

static synced_mem_status call(synced_mem *const *mems, int waiter)
{
    const synced_mem_side side = is_on_host(waiter) ? SYNCED_MEM_SIDE_CPU : SYNCED_MEM_SIDE_GPU;
    if (waiter == PULL)
        return synced_mem_async_cpu_pull_n(mems, COUNT, stream);
    if (waiter == PUSH)
        return synced_mem_async_gpu_push_n(mems, COUNT, stream);
    const synced_mem_status status = synced_mem_hold_n(mems, COUNT, side, SYNCED_MEM_READ, stream);
    if (status == SYNCED_MEM_OK)
        OK(synced_mem_unhold_n(mems, COUNT, side));
    return status;
}

struct job {
    synced_mem *const *mems;
    int waiter;
    synced_mem_status status;
    atomic_bool has_ended;
    pthread_t thread;
};

static void *do_job(void *argument)
{
    struct job *const job = argument;
    job->status = call(job->mems, job->waiter);
    atomic_store(&job->has_ended, true);
    return NULL;
}

static void begin_job(struct job *job, synced_mem *const *mems, int waiter)
{
    job->mems = mems;
    job->waiter = waiter;
    atomic_store(&job->has_ended, false);
    ck_assert_int_eq(pthread_create(&job->thread, NULL, do_job, job), 0);
}

static synced_mem_status end_job(struct job *job)
{
    ck_assert_int_eq(pthread_join(job->thread, NULL), 0);
    return job->status;
}

/* Begins a pull or a push that has its memory, and stops. */
static void begin_inside(struct job *job, int waiter)
{
    atomic_store(&stops, true);
    begin_job(job, inside, is_on_host(waiter) ? PULL : PUSH);
    while (!atomic_load(&has_stopped))
        (void)usleep(1000);
}

START_TEST(a_call_waits_for_another)
{
    struct job first, second;
    begin(_i);
    begin_inside(&first, _i);
    begin_job(&second, outside, _i);
    (void)usleep(LONG_MS * 1000);
    ck_assert(!atomic_load(&second.has_ended));
    atomic_store(&goes_on, true);
    OK(end_job(&first));
    OK(end_job(&second));
    end();
}
END_TEST

/* The other call may wait for this thread, so it is not waited for without end. */
START_TEST(a_call_does_not_wait_for_ever)
{
    struct job first;
    begin(_i);
    begin_inside(&first, _i);
    const uint64_t began = sm_now();
    FAILS(is_on_host(_i) ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, call(outside, _i));
    ck_assert_uint_ge(sm_now() - began, PATIENCE);
    atomic_store(&goes_on, true);
    OK(end_job(&first));
    OK(call(outside, _i));
    end();
}
END_TEST

static int inner;

static void call_within(void)
{
    const uint64_t began = sm_now();
    ck_assert_int_ne(call(outside, inner), SYNCED_MEM_OK);
    ck_assert_uint_lt(sm_now() - began, PATIENCE);
}

/* A thread does not wait for the call that it is in, as in a callback. */
START_TEST(a_call_within_a_call)
{
    begin(_i);
    within = call_within;
    inner = _i;
    atomic_store(&stops, true);
    OK(call(inside, is_on_host(_i) ? PULL : PUSH));
    OK(call(outside, _i));
    end();
}
END_TEST

enum { THREADS = 4, ROUNDS = 100 };
static synced_mem *own[THREADS][COUNT];
static bool pulls;

/* Leaves the contents on the other side alone. */
static void write_own(synced_mem *const *mems, synced_mem_stream on)
{
    if (pulls)
        SOUND(synced_mem_hold_n(mems, COUNT, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, on) == SYNCED_MEM_OK);
    for (int i = 0; i < COUNT; i++)
        SOUND(pulls ? synced_mem_mutable_gpu_data_on(mems[i], on) : synced_mem_mutable_cpu_data(mems[i]));
    if (pulls)
        SOUND(synced_mem_unhold_n(mems, COUNT, SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
}

static void *move_own(void *mems)
{
    const synced_mem_stream on = gpu_stream_create(0, false);
    for (int i = 0; i < ROUNDS; i++) {
        write_own(mems, on);
        SOUND((pulls ? synced_mem_async_cpu_pull_n(mems, COUNT, on) : synced_mem_async_gpu_push_n(mems, COUNT, on)) ==
              SYNCED_MEM_OK);
    }
    SOUND(synced_mem_forget_stream(on) == SYNCED_MEM_OK);
    gpu_stream_destroy(on);
    return NULL;
}

/* The budget has room for one call's objects. */
START_TEST(calls_of_many_threads)
{
    pthread_t threads[THREADS];
    pulls = _i == 0;
    for (unsigned i = 0; i < THREADS * COUNT; i++) {
        synced_mem *const mem = own[i / COUNT][i % COUNT] = make_evictable("own", SIZE);
        host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, i);
        OK(hold_one(mem, SYNCED_MEM_READ, NULL));
        OK(unhold_one(mem));
    }
    if (pulls)
        set_host_budget((uint64_t)COUNT * SIZE, NULL);
    else
        set_budget((uint64_t)COUNT * SIZE);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, move_own, own[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    for (unsigned i = 0; i < THREADS * COUNT; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(own[i / COUNT][i % COUNT])), SIZE, i));
    set_budget(SYNCED_MEM_NO_BUDGET);
    release_all(own[0], THREADS * COUNT);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("calls that hold");
    TCase *const tests = add_case(made, "calls");
    add_gpu_loop_test(tests, a_call_waits_for_another, 0, WAITERS);
    add_gpu_loop_test(tests, a_call_does_not_wait_for_ever, 0, WAITERS);
    add_gpu_loop_test(tests, a_call_within_a_call, 0, WAITERS);
    add_gpu_loop_test(tests, calls_of_many_threads, 0, 2);
    return made;
}
