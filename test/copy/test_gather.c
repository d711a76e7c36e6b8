/* Checks calls that push many objects of pageable memory. The host copies their sources to few buffers. */
#include "fixture.h"
#include "kernels.h"

#include "base/copy_threads.h"
#include "copy/bounce.h"
#include "copy/kernel_list.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 10000, NEVER = -1 };

/* ---- Buffers that are taken ---- */

static int taken;
static int refused_at = NEVER; /* this buffer, and all later ones, can't be had */

struct sm_bounce *__real_sm_bounce_take(int device, const void *source, size_t size);
struct sm_bounce *__wrap_sm_bounce_take(int device, const void *source, size_t size);
struct sm_bounce *__wrap_sm_bounce_take(int device, const void *source, size_t size)
{
    const int number = taken++;
    return refused_at != NEVER && number >= refused_at ? NULL : __real_sm_bounce_take(device, source, size);
}

static bool no_task; /* that threads share */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_task ? NULL : __real_calloc(count, size);
}

static pthread_t caller;
static atomic_bool is_slow;   /* the first thread beside the caller's */
static atomic_bool has_begun; /* that thread has. The caller waits until then. */

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    if (atomic_load(&is_slow) && bytes == 4096) {
        const bool is_caller = pthread_equal(pthread_self(), caller);
        while (is_caller && sm_copy_threads_count() > 0 && !atomic_load(&has_begun))
            (void)sched_yield();
        if (!is_caller && !atomic_exchange(&has_begun, true))
            (void)usleep(50000);
    }
    return __real_memcpy(to, from, bytes);
}

/* ---- Many objects ---- */

static struct {
    synced_mem *mems[MOST];
    unsigned char *memory; /* of all, at addresses that are aligned in no way */
    size_t sizes[MOST];
    size_t begins[MOST];
    int count;
    synced_mem_stream stream;
} many;

static void write_sources(unsigned pattern)
{
    for (int i = 0; i < many.count; i++)
        pattern_write(many.memory + many.begins[i], many.sizes[i], pattern + (unsigned)i);
}

/* Makes objects AT_CPU, of the size, or of sizes up to it. */
static void make_many(int count, size_t size, bool equal)
{
    size_t used = 1;
    many.count = count;
    for (int i = 0; i < count; i++) {
        many.sizes[i] = equal ? size : 1 + (size_t)i * 7919 % size;
        many.begins[i] = used;
        used += many.sizes[i] + (equal ? 0 : (size_t)i % 3);
    }
    many.memory = malloc(used);
    many.stream = gpu_stream_create(0, false);
    ck_assert_ptr_nonnull(many.memory);
    write_sources(1);
    for (int i = 0; i < count; i++) {
        many.mems[i] = make_on(many.sizes[i], 0);
        OK(synced_mem_set_cpu_data(many.mems[i], many.memory + many.begins[i]));
    }
    taken = 0;
}

static uint64_t in_use(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    return stats.requested_bytes;
}

static void check_devices(unsigned pattern)
{
    for (int i = 0; i < many.count; i++)
        ck_assert(device_is(synced_mem_gpu_data_on(many.mems[i], many.stream), many.sizes[i], pattern + (unsigned)i));
}

static void end_many(void)
{
    for (int i = 0; i < many.count; i++)
        OK(synced_mem_release(many.mems[i]));
    gpu_stream_sync(many.stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(in_use(), 0);
    close_stream(many.stream);
    free(many.memory);
}

static synced_mem_status push_many(void)
{
    return synced_mem_async_gpu_push_n(many.mems, (size_t)many.count, many.stream);
}

/* ---- Tests ---- */

START_TEST(the_sources_are_rewritten_at_once)
{
    make_many((const int[]){2, 17, 300}[_i], 9000, false);
    gpu_delay(many.stream);
    OK(push_many());
    write_sources(1000);
    check_devices(1);
    end_many();
}
END_TEST

/* Sources of about as many bytes as the first buffer has. */
START_TEST(large_sources)
{
    static const size_t less[] = {0, 1, 15, 16, 32, 33, 48, 64};
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        make_many(40, (64 << 10) - less[i], true);
        OK(push_many());
        write_sources(1000);
        check_devices(1);
        end_many();
    }
}
END_TEST

/* A buffer of 1 MiB is the largest. Each kernel has one for its list, and each block of a push to memory that is there
 * begins another one. */
START_TEST(buffers_are_few)
{
    const int counts[] = {100, 1000, MOST};
    const int count = counts[_i];
    enum { SIZE = 500, MIB = 1 << 20 };
    make_many(count, SIZE, true);
    for (unsigned i = 0; i < 2; i++) {
        taken = 0;
        OK(push_many());
        ck_assert_int_le(taken, 5 + count * SIZE / MIB + 2 * (1 + count / SM_KERNEL_AT_ONCE));
        ck_assert_int_ge(taken, 1);
        check_devices(1 + 1000 * i);
        for (int j = 0; j < count; j++)
            given(synced_mem_mutable_cpu_data(many.mems[j]));
        write_sources(1001);
    }
    end_many();
}
END_TEST

/* Two small objects take as much memory as they need. */
START_TEST(buffers_are_small)
{
    make_many(2, 100, true);
    gpu_hold(many.stream);
    OK(push_many());
    ck_assert_uint_le(in_use(), 1000);
    gpu_unhold();
    check_devices(1);
    end_many();
}
END_TEST

START_TEST(no_more_buffers)
{
    make_many(300, 9000, false);
    refused_at = _i;
    OK(push_many());
    write_sources(1000);
    refused_at = NEVER;
    check_devices(1);
    end_many();
}
END_TEST

/* Threads copy the sources, or the caller alone: without memory for a task, and without threads. */
START_TEST(by_threads)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    use_kernels(1);
    synced_mem_get_staging(&staging);
    staging.threads = _i == 2 ? 0 : 4;
    OK(synced_mem_set_staging(&staging));
    make_many(3000, 4096, true);
    for (unsigned round = 0; round < 5; round++) {
        write_sources(round * 100);
        no_task = _i == 1 && round > 0;
        OK(push_many());
        no_task = false;
        write_sources(7777);
        check_devices(round * 100);
        for (int i = 0; i < many.count; i++)
            ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(many.mems[i]));
    }
    end_many();
}
END_TEST

/* The caller has copied the last of its sources, but another thread has not. */
START_TEST(a_slow_thread)
{
    use_kernels(1);
    set_staging(4, SIZE_MAX);
    make_many(300, 4096, true);
    caller = pthread_self();
    atomic_store(&is_slow, true);
    OK(push_many());
    atomic_store(&is_slow, false);
    write_sources(7777);
    check_devices(1);
    end_many();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("gather");
    TCase *const gathered = add_case(made, "gathered");
    add_gpu_loop_test(gathered, the_sources_are_rewritten_at_once, 0, 3);
    add_gpu_loop_test(gathered, buffers_are_few, 0, 3);
    add_gpu_tests(gathered, large_sources, buffers_are_small);
    add_gpu_loop_test(gathered, no_more_buffers, 0, 6);
    add_gpu_loop_test(gathered, by_threads, 0, 3);
    add_gpu_tests(gathered, a_slow_thread);
    return made;
}
