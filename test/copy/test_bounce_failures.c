/* Checks pushes of pageable memory that are not staged, where a call of the runtime fails. */
#include "fixture.h"

#include "cudart_emu.h"

#include <stdlib.h>

enum { SIZE = 5000 };

struct pushed {
    void *mine;
    synced_mem *mem;
    synced_mem_stream stream;
};

static uint64_t bytes_in_use(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    return stats.requested_bytes;
}

/* Makes an object that was pushed once. Its device copy has memory and nothing in flight. */
static struct pushed begin(void)
{
    struct pushed it = {.mine = malloc(SIZE), .mem = make_on(SIZE, 0), .stream = gpu_stream_create(0, false)};
    ck_assert_ptr_nonnull(it.mine);
    pattern_write(it.mine, SIZE, 1);
    OK(synced_mem_set_cpu_data(it.mem, it.mine));
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(it.mem));
    gpu_sync_device(0);
    OK(synced_mem_reap());
    return it;
}

static void end(struct pushed *it)
{
    OK(synced_mem_release(it->mem));
    gpu_stream_sync(it->stream);
    gpu_stream_destroy(it->stream);
    free(it->mine);
}

/* Resets the emulated machine, which forgets the quarantined buffer. */
static void end_with_loss(struct pushed *it)
{
    end(it);
    OK(synced_mem_shutdown());
    emu_reset(0);
}

static void push_succeeds(const struct pushed *it)
{
    OK(synced_mem_async_gpu_push(it->mem, it->stream));
    ck_assert(device_is(synced_mem_gpu_data(it->mem), SIZE, 1));
}

/* A query fails while a shutdown gives the buffers back. They are given back after another wait. */
START_TEST(a_query_fails)
{
    struct pushed it = begin();
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(it.mem));
        OK(synced_mem_async_gpu_push(it.mem, it.stream));
    }
    OK(synced_mem_release(it.mem));
    emu_fail("cudaEventQuery", 1 + (unsigned)_i, cudaErrorUnknown, false);
    OK(synced_mem_shutdown());
    emu_fail_clear();
    ck_assert_uint_eq(bytes_in_use(), 0);
    gpu_stream_sync(it.stream);
    gpu_stream_destroy(it.stream);
    free(it.mine);
}
END_TEST

/* The copy is refused. The source stays valid, and the next push succeeds. */
START_TEST(the_copy_is_refused)
{
    struct pushed it = begin();
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(it.mem, it.stream));
    SAYS("cudaMemcpyAsync of 5000 bytes");
    ck_assert_int_eq(synced_mem_head(it.mem), SYNCED_MEM_AT_CPU);
    push_succeeds(&it);
    end(&it);
}
END_TEST

/* No event can be recorded behind the copy, so the push synchronizes the stream. If that fails too, the buffer is
 * quarantined. */
START_TEST(no_event)
{
    struct pushed it = begin();
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    ck_assert_uint_eq(emu_pending(), 0);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(it.mem));
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    const uint64_t before = stats_now().quarantined;
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(it.mem, it.stream));
    ck_assert_uint_eq(stats_now().quarantined, before + 1);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 1));
    end_with_loss(&it);
}
END_TEST

/* ---- Few bytes, which the runtime reads for an access that waits ---- */

/* The runtime refuses to read the source, so the host reads it. Only if that copy is refused too, the access fails. */
START_TEST(the_copy_of_an_access_is_refused)
{
    struct pushed it = begin();
    emu_fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue, false);
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 1));
    ck_assert_str_eq(synced_mem_last_error_message(), "");
    pattern_write(synced_mem_mutable_cpu_data(it.mem), SIZE, 1);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue, false);
    emu_fail("cudaMemcpyAsync", 2, cudaErrorInvalidValue, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(it.mem));
    SAYS("cudaMemcpyAsync of 5000 bytes");
    ck_assert_int_eq(synced_mem_head(it.mem), SYNCED_MEM_AT_CPU);
    push_succeeds(&it);
    end(&it);
}
END_TEST

/* Nor is there a buffer for the bytes. */
START_TEST(the_copy_of_an_access_and_a_buffer_are_refused)
{
    struct pushed it = begin();
    OK(synced_mem_host_pool_trim(0));
    emu_set_pinned_memory(0);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(it.mem));
    SAYS("cudaMemcpyAsync of 5000 bytes");
    push_succeeds(&it);
    end(&it);
}
END_TEST

/* No event can be recorded behind the copy, so the access synchronizes the stream. If that fails too, nobody can tell
 * when the device copy is written. */
START_TEST(no_event_of_an_access)
{
    struct pushed it = begin();
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 1));
    pattern_write(synced_mem_mutable_cpu_data(it.mem), SIZE, 2);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(it.mem));
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 2));
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 2));
    end_with_loss(&it);
}
END_TEST

/* Without page-locked memory the push synchronizes the stream at once. */
START_TEST(no_buffer_and_no_wait)
{
    struct pushed it = begin();
    OK(synced_mem_host_pool_trim(0));
    emu_set_pinned_memory(0);
    push_succeeds(&it);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(it.mem));
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(it.mem, it.stream));
    SAYS("cudaStreamSynchronize");
    ck_assert_int_eq(synced_mem_head(it.mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 1));
    end_with_loss(&it);
}
END_TEST

/* The runtime does not say whether the buffer is idle. The buffer stays until a later shutdown. */
START_TEST(nobody_can_tell)
{
    struct pushed it = begin();
    gpu_delay(it.stream);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    emu_fail("cudaEventQuery", 1, cudaErrorUnknown, false);
    OK(synced_mem_reap());
    OK(synced_mem_release(it.mem));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    emu_fail("cudaEventQuery", 1, cudaErrorUnknown, false);
    (void)synced_mem_shutdown();
    emu_fail_clear();
    OK(synced_mem_shutdown());
    gpu_stream_sync(it.stream);
    gpu_stream_destroy(it.stream);
    free(it.mine);
}
END_TEST

/* The loss of the device ends the work on a buffer. */
START_TEST(the_device_is_lost)
{
    struct pushed it = begin();
    gpu_hold(it.stream);
    OK(synced_mem_async_gpu_push(it.mem, it.stream));
    emu_break_device(0, cudaErrorIllegalAddress);
    gpu_unhold();
    ck_assert_int_ne(synced_mem_wait(it.mem), SYNCED_MEM_OK);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 1));
    OK(synced_mem_release(it.mem));
    (void)synced_mem_shutdown();
    synced_mem_host_pool_stats pool = {.struct_size = sizeof pool};
    OK(synced_mem_host_pool_get_stats(&pool));
    ck_assert_uint_eq(pool.requested_bytes, 0);
    emu_reset(0);
    free(it.mine);
}
END_TEST

/* More streams are held up than one poll covers. The first or the last stream has gone on. */
START_TEST(behind_held_streams)
{
    enum { MANY = 40 };
    const int free_one = _i ? MANY - 1 : 0;
    synced_mem *mems[MANY];
    synced_mem_stream streams[MANY];
    synced_mem *const held_up = make_on(SIZE, 0);
    synced_mem_stream held = gpu_stream_create(0, false);
    void *const mine = malloc(SIZE);
    pattern_write(mine, SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(held_up, held));
    gpu_hold(held);
    for (int i = 0; i < MANY; i++) {
        streams[i] = gpu_stream_create(0, false);
        mems[i] = make_on(SIZE, 0);
        OK(synced_mem_set_cpu_data(mems[i], mine));
        if (i != free_one)
            ck_assert_ptr_nonnull(synced_mem_gpu_data_on(held_up, streams[i]));
    }
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_async_gpu_push(mems[i], streams[i]));
    gpu_stream_sync(streams[free_one]);
    OK(synced_mem_reap());
    ck_assert_uint_lt(bytes_in_use(), (uint64_t)MANY * SIZE);
    gpu_unhold();
    OK(synced_mem_release(held_up));
    for (int i = 0; i < MANY; i++) {
        gpu_stream_sync(streams[i]);
        OK(synced_mem_release(mems[i]));
        close_stream(streams[i]);
    }
    close_stream(held);
    OK(synced_mem_reap());
    ck_assert_uint_eq(bytes_in_use(), 0);
    free(mine);
}
END_TEST

/* ---- Many objects in one call ---- */

enum { MANY = 200 };

struct many {
    struct pushed each[MANY];
    synced_mem *mems[MANY];
};

/* Each object is AT_CPU. */
static void begin_many(struct many *it)
{
    for (int i = 0; i < MANY; i++) {
        it->each[i] = begin();
        it->mems[i] = it->each[i].mem;
    }
}

static void rewrite_sources(const struct many *it, unsigned pattern)
{
    for (int i = 0; i < MANY; i++)
        pattern_write(it->each[i].mine, SIZE, pattern);
}

static void release_many(struct many *it)
{
    for (int i = 0; i < MANY; i++)
        end(&it->each[i]);
}

/* Copies before the one that is refused have begun. */
START_TEST(one_of_many_copies_is_refused)
{
    struct many it;
    begin_many(&it);
    synced_mem_stream stream = gpu_stream_create(0, false);
    emu_fail("cudaMemcpyAsync", 1 + (unsigned)_i * 60, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push_n(it.mems, MANY, stream));
    emu_fail_clear();
    rewrite_sources(&it, 2);
    OK(synced_mem_async_gpu_push_n(it.mems, MANY, stream));
    rewrite_sources(&it, 3);
    for (int i = 0; i < MANY; i++)
        ck_assert(device_is(synced_mem_gpu_data_on(it.mems[i], stream), SIZE, 2));
    release_many(&it);
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(bytes_in_use(), 0);
    close_stream(stream);
}
END_TEST

/* Nobody can tell when the copies end, so nobody gets their buffers. */
START_TEST(no_event_behind_many)
{
    struct many it;
    begin_many(&it);
    synced_mem_stream stream = gpu_stream_create(0, false);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push_n(it.mems, MANY, stream));
    emu_fail_clear();
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(synced_mem_head(it.mems[i]), SYNCED_MEM_AT_CPU);
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_uint_ge(bytes_in_use(), (uint64_t)MANY * SIZE);
    release_many(&it);
    close_stream(stream);
    OK(synced_mem_shutdown());
    emu_reset(0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("bounce_failures");
    TCase *const refused = add_case(made, "refused");
    add_tests(refused, the_copy_is_refused, the_copy_of_an_access_is_refused,
              the_copy_of_an_access_and_a_buffer_are_refused, nobody_can_tell);
    tcase_add_loop_test(refused, a_query_fails, 0, 4);
    tcase_add_loop_test(refused, one_of_many_copies_is_refused, 0, 3);
    TCase *const held = add_case(made, "held");
    tcase_add_loop_test(held, behind_held_streams, 0, 2);
    TCase *const lost = add_case_without_end(made, "lost");
    add_tests(lost, no_event, no_event_of_an_access, no_event_behind_many, no_buffer_and_no_wait, the_device_is_lost);
    return made;
}
