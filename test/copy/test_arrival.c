/* Checks small pulls into pageable memory, which arrive through bounce buffers. */
#include "cudart_emu.h"
#include "failing_calloc.h"
#include "fixture.h"

#include "copy/arrival.h"
#include "stream/stream.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SIZE = 5000, LARGE = SM_LARGEST_ARRIVAL, TOO_LARGE = LARGE + 1 };

static void *memory(size_t size)
{
    void *const data = calloc(1, size);
    ck_assert_ptr_nonnull(data);
    return data;
}

/* Makes an object whose contents a kernel has written. The host copy is the caller's memory. */
static synced_mem *make_written(void *mine, size_t size, unsigned pattern, synced_mem_stream stream)
{
    synced_mem *const mem = make_on(size, 0);
    OK(synced_mem_set_cpu_data(mem, mine));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), size, pattern, stream);
    return mem;
}

static uint64_t bytes_in_use(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    return stats.requested_bytes;
}

static bool is_pending(synced_mem *mem)
{
    int pending = -1;
    OK(synced_mem_query(mem, &pending));
    return pending;
}

/* The call waits for no work. The bytes are there for whoever waits, or asks until they are. */
START_TEST(behind_a_held_stream)
{
    void *const mine = memory(LARGE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging(0, SIZE_MAX);
    synced_mem *const mem = make_written(mine, LARGE, 1, stream);
    gpu_hold(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert(is_pending(mem));
    ck_assert_uint_ge(bytes_in_use(), LARGE);
    gpu_unhold();
    switch (_i) {
    case 0:
        ck_assert(host_is(synced_mem_cpu_data(mem), LARGE, 1));
        break;
    case 1:
        OK(synced_mem_wait(mem));
        break;
    default:
        while (is_pending(mem))
            gpu_stream_sync(stream);
    }
    ck_assert(pattern_is(mine, LARGE, 1));
    ck_assert_uint_eq(bytes_in_use(), 0); /* the fence is over, though the object may still have it */
    ck_assert_uint_eq(stats_now().staged_transfers, 0);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), LARGE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* The next push of the contents waits for their arrival, and the next write of the device for the transfer alone. */
START_TEST(work_behind_it)
{
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    synced_mem *const to = make_on(SIZE, 0);
    gpu_delay(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    if (_i == 0)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, other), SIZE, 2, other);
    else
        OK(synced_mem_cpu_copy(to, mem));
    ck_assert(pattern_is(mine, SIZE, 1) || _i == 0);
    ck_assert(host_is(synced_mem_cpu_data(_i == 0 ? mem : to), SIZE, _i == 0 ? 2 : 1));
    RELEASE_EACH(mem, to);
    CLOSE_EACH(stream, other);
    free(mine);
}
END_TEST

/* Many objects of one call arrive behind one event. */
START_TEST(many)
{
    enum { MANY = 20 };
    char *const mine = memory((size_t)MANY * SIZE);
    synced_mem *mems[MANY];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < MANY; i++)
        mems[i] = make_written(mine + (size_t)i * SIZE, SIZE, i + 1, stream);
    OK(synced_mem_async_cpu_pull_n(mems, MANY, stream));
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, i + 1));
        OK(synced_mem_release(mems[i]));
    }
    ck_assert_uint_eq(bytes_in_use(), 0);
    close_stream(stream);
    free(mine);
}
END_TEST

/* The memory is written until the transfer is over, and given back only then. */
START_TEST(released_before_it)
{
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    gpu_hold(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    gpu_unhold();
    OK(synced_mem_release(mem));
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(bytes_in_use(), 0);
    ck_assert_uint_eq(stats_now().retired, 0);
    close_stream(stream);
    free(mine);
}
END_TEST

static void *read_contents(void *mem)
{
    SOUND(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    return NULL;
}

START_TEST(many_wait)
{
    enum { READERS = 4, ROUNDS = 10 };
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t readers[READERS];
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
        OK(synced_mem_async_cpu_pull(mem, stream));
        for (int i = 0; i < READERS; i++)
            ck_assert_int_eq(pthread_create(&readers[i], NULL, read_contents, mem), 0);
        for (int i = 0; i < READERS; i++)
            ck_assert_int_eq(pthread_join(readers[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* The runtime makes the pull: it is too large, or no memory can be page-locked. */
START_TEST(by_the_runtime)
{
    const size_t size = _i == 0 ? TOO_LARGE : SIZE;
    void *const mine = memory(size);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging(0, SIZE_MAX);
    synced_mem *const mem = make_written(mine, size, 1, stream);
    if (_i == 1)
        emu_set_pinned_memory(0);
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert_uint_eq(bytes_in_use(), 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* The runtime makes the pull if there is no memory for the record; the other allocations make it fail. */
START_TEST(an_allocation_fails)
{
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    unsigned by_runtime = 0;
    for (struct failing it = each_calloc(); next_failure(&it);) {
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
        begin_failing(&it);
        const synced_mem_status status = synced_mem_async_cpu_pull(mem, stream);
        by_runtime += end_failing(&it) && status == SYNCED_MEM_OK && bytes_in_use() == 0;
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    }
    ck_assert_uint_eq(by_runtime, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* The copy or its event is refused. Without an event the call waits, and the contents have arrived. */
START_TEST(a_call_fails)
{
    static const char *const calls[] = {"cudaMemcpyAsync", "cudaEventRecord"};
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    OK(synced_mem_wait(mem));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 2, stream);
    emu_fail(calls[_i], 1, cudaErrorUnknown, false);
    const synced_mem_status status = synced_mem_async_cpu_pull(mem, stream);
    ck_assert_uint_eq(emu_failures(), 1);
    ck_assert_int_eq(status, _i == 0 ? SYNCED_MEM_ERR_CUDA : SYNCED_MEM_OK);
    ck_assert(_i == 0 || pattern_is(mine, SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_uint_eq(bytes_in_use(), 0);
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* The wait fails while the device may be at work. The next wait finds the arrival as it was. */
START_TEST(a_wait_fails)
{
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    gpu_delay(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* Nobody can tell when the device is done with the buffer. */
START_TEST(a_buffer_is_given_up)
{
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    OK(synced_mem_wait(mem));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 2, stream);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull(mem, stream));
    ck_assert_uint_eq(emu_failures(), 2);
    ck_assert_uint_eq(stats_now().quarantined, 1);
    leaves_memory = true; /* the buffer */
    gpu_sync_device(0);
    (void)synced_mem_release(mem);
    close_stream(stream);
    free(mine);
}
END_TEST

/* The device is lost before the bytes have arrived. */
START_TEST(the_device_is_lost)
{
    void *const mine = memory(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written(mine, SIZE, 1, stream);
    gpu_hold(stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    emu_break_device(0, cudaErrorLaunchFailure);
    if (_i == 0)
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
    else
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_wait(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 3);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    gpu_unhold(); /* the reset waits for a function that has begun */
    emu_reset(fixture_schedule());
    free(mine);
}
END_TEST

/* The linker puts these in place of the library's functions (--wrap). The first copy to its place lasts until another
 * thread waits for it. */
static synced_mem *contested;
static pthread_t other;
static _Thread_local bool is_other;
static atomic_bool other_waits;

void __real_sm_copy_streaming(void *to, const void *from, size_t size);
void __wrap_sm_copy_streaming(void *to, const void *from, size_t size);
void __real_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen);

static void *wait_for_it(void *unused)
{
    (void)unused;
    is_other = true;
    ck_assert(host_is(synced_mem_cpu_data(contested), LARGE, 1));
    return NULL;
}

void __wrap_sm_word_wait(atomic_uint *word, unsigned seen)
{
    if (is_other)
        atomic_store(&other_waits, true);
    __real_sm_word_wait(word, seen);
}

void __wrap_sm_copy_streaming(void *to, const void *from, size_t size)
{
    if (contested && !other) {
        ck_assert_int_eq(pthread_create(&other, NULL, wait_for_it, NULL), 0);
        while (!atomic_load(&other_waits))
            (void)sched_yield();
    }
    __real_sm_copy_streaming(to, from, size);
}

/* A thread that waits while another copies the bytes goes on when they are in their place. */
START_TEST(another_thread_copies)
{
    void *const mine = memory(LARGE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging(0, SIZE_MAX);
    synced_mem *const mem = make_written(mine, LARGE, 1, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    contested = mem;
    OK(synced_mem_wait(mem));
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    contested = NULL;
    ck_assert(pattern_is(mine, LARGE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* Nobody waits: the buffer goes back behind the device's work, and the bytes do not come to their place. */
START_TEST(nobody_waits)
{
    unsigned char place[SIZE] = {7};
    struct sm_stream *on;
    struct sm_fence *transferred;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(sm_stream_find(0, stream, &on));
    struct sm_arrival *const arrival = sm_arrival_make(0, place, SIZE, false);
    ck_assert_ptr_nonnull(arrival);
    OK(sm_stream_record(on, &transferred));
    sm_fence_drop(sm_arrival_begin(arrival, transferred));
    sm_fence_drop(transferred);
    sm_stream_drop(on);
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(bytes_in_use(), 0);
    ck_assert_uint_eq(place[0], 7);
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("arrival");
    TCase *const tests = add_case(made, "arrival");
    TCase *const broken = add_case_without_end(made, "broken");
    add_tests(tests, many, released_before_it, many_wait, an_allocation_fails, a_wait_fails, another_thread_copies,
              nobody_waits);
    tcase_add_loop_test(tests, behind_a_held_stream, 0, 3);
    tcase_add_loop_test(tests, work_behind_it, 0, 2);
    tcase_add_loop_test(tests, by_the_runtime, 0, 2);
    tcase_add_loop_test(tests, a_call_fails, 0, 2);
    add_tests(broken, a_buffer_is_given_up);
    tcase_add_loop_test(broken, the_device_is_lost, 0, 2);
    return made;
}
