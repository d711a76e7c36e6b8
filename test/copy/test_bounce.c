/* Checks pushes of pageable memory that are not staged. On every stream, the source has been read when the call
 * returns. */
#include "fixture.h"

#include "copy/bounce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 70000, BUFFER = STAGING_BUFFER, LARGE = 5 * BUFFER };

/* Stages only the transfers that must be staged. */
static void stage_nothing(void)
{
    set_staging(4, SIZE_MAX);
}

static void *memory(size_t size, unsigned pattern)
{
    void *const data = malloc(size);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, size, pattern);
    return data;
}

/* Makes an object, AT_CPU, in the caller's memory. */
static synced_mem *make_in(void *mine, size_t size)
{
    synced_mem *const mem = make_on(size, 0);
    OK(synced_mem_set_cpu_data(mem, mine));
    return mem;
}

static uint64_t in_use(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    return stats.requested_bytes;
}

/* ---- The source ---- */

static const size_t sizes[] = {1, 100, 4096, BUFFER, SIZE, LARGE};
enum { LENGTHS = sizeof sizes / sizeof sizes[0], WAYS = 5 };

static void to_device(synced_mem *mem, int way, synced_mem_stream stream)
{
    switch (way) {
    case 0:
        OK(synced_mem_async_gpu_push(mem, stream));
        break;
    case 1:
        OK(synced_mem_async_gpu_push_n(&mem, 1, stream));
        break;
    case 2:
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
        break;
    case 3:
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, stream));
        break;
    default:
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    }
}

static void rewrite_the_source(int way, size_t size, int kind)
{
    void *const mine = memory(size, 1);
    synced_mem *const mem = make_in(mine, size);
    synced_mem_stream stream = open_stream(kind);
    gpu_delay(stream);
    to_device(mem, way, stream);
    pattern_write(mine, size, 2); /* the caller's memory, without a call of the library */
    ck_assert(device_is(synced_mem_gpu_data(mem), size, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}

START_TEST(the_source_is_rewritten_at_once)
{
    stage_nothing();
    for (int way = 0; way < WAYS; way++)
        for (int kind = 0; kind < STREAM_KINDS; kind++)
            rewrite_the_source(way, sizes[_i], kind);
}
END_TEST

/* The same holds if no memory can be page-locked. */
START_TEST(without_page_locked_memory)
{
    stage_nothing();
    OK(synced_mem_host_pool_set_limit(1));
    for (int way = 0; way < WAYS; way++)
        for (int kind = 0; kind < STREAM_KINDS; kind++)
            rewrite_the_source(way, sizes[_i], kind);
}
END_TEST

/* The stream makes no progress while the host pushes. No push waits for it. */
START_TEST(a_held_stream)
{
    enum { MANY = 20 };
    void *const mine = memory(SIZE, 0);
    synced_mem *mems[MANY];
    synced_mem_stream stream = gpu_stream_create(0, false);
    for (int i = 0; i < MANY; i++) {
        mems[i] = make_in(mine, SIZE);
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mems[i], stream));
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mems[i]));
    }
    gpu_hold(stream);
    for (int i = 0; i < MANY; i++) {
        pattern_write(mine, SIZE, (unsigned)i);
        OK(synced_mem_async_gpu_push(mems[i], stream));
    }
    ck_assert_uint_ge(in_use(), (uint64_t)MANY * SIZE);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(in_use(), 0);
    for (int i = 0; i < MANY; i++) {
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), SIZE, (unsigned)i));
        OK(synced_mem_release(mems[i]));
    }
    close_stream(stream);
    free(mine);
}
END_TEST

/* ---- Few bytes ---- */

/* The most bytes of pageable memory that the runtime reads itself, for an access that waits. */
enum { FEW = 32 << 10 };

static uint64_t peak(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    return stats.peak_requested_bytes;
}

/* A push, and an access on a stream, whose callers do not wait, take a buffer for any size. */
START_TEST(few_bytes_need_no_buffer)
{
    static const size_t of[] = {1, 4096, FEW - 1, FEW, FEW + 1, SIZE};
    synced_mem_stream stream = gpu_stream_create(0, false);
    stage_nothing();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        void *const mine = memory(of[i], 1);
        synced_mem *const mem = make_in(mine, of[i]);
        for (int way = 0; way < WAYS; way++) {
            ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
            pattern_write(mine, of[i], 2 + (unsigned)way);
            gpu_stream_sync(stream);
            OK(synced_mem_reap());
            OK(synced_mem_host_pool_reset_peaks());
            to_device(mem, way, stream);
            ck_assert((peak() > 0) == (way < WAYS - 1 || of[i] > FEW));
            ck_assert(device_is(synced_mem_gpu_data(mem), of[i], 2 + (unsigned)way));
        }
        OK(synced_mem_release(mem));
        free(mine);
    }
    close_stream(stream);
}
END_TEST

static void *read_on_the_device(void *mem)
{
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    return NULL;
}

static atomic_bool is_open;

static void *open_in_a_while(void *unused)
{
    (void)usleep(20000);
    atomic_store(&is_open, true);
    gpu_unhold();
    return unused;
}

/* A copy to the device waits for a stream. Meanwhile another thread is about to change the bytes that the runtime has
 * yet to read, and waits for that. */
START_TEST(a_writer_of_few_bytes_waits)
{
    void *const mine = memory(FEW, 1);
    synced_mem *const mem = make_in(mine, FEW);
    synced_mem_stream stream = gpu_stream_create(0, false);
    pthread_t reader, opener;
    atomic_store(&is_open, false);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    gpu_hold(stream);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_int_eq(pthread_create(&reader, NULL, read_on_the_device, mem), 0);
    for (int i = 0; i < 1000 && synced_mem_head(mem) != SYNCED_MEM_SYNCED; i++)
        (void)usleep(1000); /* a runtime may also read the bytes only when the stream goes on */
    ck_assert_int_eq(pthread_create(&opener, NULL, open_in_a_while, NULL), 0);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert(atomic_load(&is_open));
    ck_assert_int_eq(pthread_join(reader, NULL), 0);
    ck_assert_int_eq(pthread_join(opener, NULL), 0);
    pattern_write(synced_mem_mutable_cpu_data(mem), FEW, 3);
    ck_assert(device_is(synced_mem_gpu_data(mem), FEW, 3));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* ---- The buffers ---- */

/* Buffers come back without a reap, and are used again. */
START_TEST(buffers_are_used_again)
{
    void *const mine = memory(SIZE, 1);
    synced_mem *const mem = make_in(mine, SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    for (int i = 0; i < 50; i++) {
        OK(synced_mem_async_gpu_push(mem, stream));
        gpu_stream_sync(stream);
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        ck_assert_uint_le(in_use(), 2 * (SIZE + 4096));
    }
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* A program writes, pushes and launches, and never waits for the stream. At most MOST buffers are in flight; then a
 * push waits. */
START_TEST(buffers_are_few)
{
    enum { PIECE = 60000, MOST = 24, MANY = 3 * MOST };
    stage_nothing();
    void *const mine = memory(PIECE, 0);
    synced_mem *const mem = make_in(mine, PIECE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    for (int i = 0; i < MANY; i++) {
        gpu_delay(stream);
        pattern_write(mine, PIECE, (unsigned)i);
        OK(synced_mem_async_gpu_push(mem, stream));
        ck_assert_uint_le(in_use(), MOST * BUFFER);
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    }
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), PIECE, MANY - 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(in_use(), 0);
    free(mine);
}
END_TEST

/* More streams are in use than one poll covers, and some are held up. */
START_TEST(many_streams)
{
    enum { MANY = 70 };
    void *const mine = memory(100, 1);
    synced_mem *mems[MANY];
    synced_mem_stream streams[MANY];
    for (int i = 0; i < MANY; i++) {
        mems[i] = make_in(mine, 100);
        streams[i] = gpu_stream_create(0, false);
        OK(synced_mem_async_gpu_push(mems[i], streams[i]));
        OK(synced_mem_async_gpu_push(mems[i / 2], streams[i]));
    }
    for (int i = 0; i < MANY; i++) {
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), 100, 1));
        OK(synced_mem_release(mems[i]));
        close_stream(streams[i]);
    }
    OK(synced_mem_reap());
    ck_assert_uint_eq(in_use(), 0);
    free(mine);
}
END_TEST

/* The shutdown waits for pushes in flight. */
START_TEST(shutdown_behind_a_push)
{
    void *const mine = memory(SIZE, 1);
    synced_mem *const mem = make_in(mine, SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(in_use(), 0);
    gpu_stream_destroy(stream);
    free(mine);
}
END_TEST

/* A child leaves the buffers to its parent. */
static void look_in_the_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    OK(sm_bounce_reap(false));
    OK(sm_bounce_reap(true));
}

START_TEST(a_forked_child)
{
    void *const mine = memory(SIZE, 1);
    synced_mem *const mem = make_in(mine, SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert(in_a_child(look_in_the_child, NULL));
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

/* ---- Larger than a buffer ---- */

/* A push of more than a buffer is staged, whatever the minimum size is. It uses page-locked memory of at most two
 * buffers. */
START_TEST(in_chunks)
{
    stage_nothing();
    void *const mine = memory(LARGE, 1);
    synced_mem *const mem = make_in(mine, LARGE);
    synced_mem_stream stream = open_stream(_i);
    OK(synced_mem_host_pool_reset_peaks());
    OK(synced_mem_async_gpu_push(mem, stream));
    pattern_write(mine, LARGE, 2);
    ck_assert_uint_eq(stats_now().staged_transfers, 1);
    synced_mem_host_pool_stats pool = {.struct_size = sizeof pool};
    OK(synced_mem_host_pool_get_stats(&pool));
    ck_assert_uint_le(pool.peak_requested_bytes, 2 * BUFFER);
    ck_assert(device_is(synced_mem_gpu_data(mem), LARGE, 1));
    gpu_fill(synced_mem_mutable_gpu_data(mem), LARGE, 3, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGE, 3));
    ck_assert_uint_eq(stats_now().staged_transfers, 1); /* only the push was staged */
    OK(synced_mem_release(mem));
    close_stream(stream);
    free(mine);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("bounce");
    TCase *const source = add_case(made, "source");
    add_gpu_tests(source, a_held_stream);
    add_gpu_loop_test(source, the_source_is_rewritten_at_once, 0, LENGTHS);
    add_gpu_loop_test(source, without_page_locked_memory, 0, LENGTHS);
    TCase *const few = add_case(made, "few bytes");
    add_gpu_tests(few, few_bytes_need_no_buffer, a_writer_of_few_bytes_waits);
    TCase *const buffers = add_case(made, "buffers");
    add_gpu_tests(buffers, buffers_are_used_again, buffers_are_few, many_streams, shutdown_behind_a_push,
                  a_forked_child);
    add_gpu_loop_test(buffers, in_chunks, 0, STREAM_KINDS);
    return made;
}
