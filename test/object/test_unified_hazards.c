/*
 * Checks objects whose memory both sides use, while kernels, streams, threads and children use it. Some calls have to
 * wait, and others must not.
 */
#include "unified_kit.h"

#include <pthread.h>

/* ---- Hazards ---- */

/* A write by a stream or the host comes after the reads of others. Reads do not wait for each other. */
START_TEST(readers_and_a_writer)
{
    if (!has(kinds[_i]))
        return;
    prepare();
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    for (unsigned round = 1; round < 6; round++) {
        gpu_delay(work.stream);
        gpu_copy(work.seen, synced_mem_gpu_data_on(mem, work.stream), SIZE, work.stream);
        gpu_copy(seen, synced_mem_gpu_data_on(mem, work.other), SIZE, work.other);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, round));
        if (round % 2)
            gpu_fill(synced_mem_mutable_gpu_data_on(mem, work.other), SIZE, round + 1, work.other);
        else
            host_fill(synced_mem_mutable_cpu_data(mem), SIZE, round + 1);
        gpu_stream_sync(work.stream);
        ck_assert(device_is(work.seen, SIZE, round));
        ck_assert(device_is(seen, SIZE, round));
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 6));
    finish(mem);
    gpu_free(seen);
    clean_up();
}
END_TEST

/* Neither the host nor another stream waits for a kernel in order to read beside it. */
START_TEST(reads_do_not_wait)
{
    if (!has(kinds[_i]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, work.stream));
    gpu_hold(work.stream);
    gpu_copy(work.seen, synced_mem_gpu_data_on(mem, work.stream), SIZE, work.stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, work.other));
    gpu_stream_sync(work.other);
    gpu_unhold();
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert(device_is(work.seen, SIZE, 1));
    finish(mem);
    clean_up();
}
END_TEST

/* Memory in use is released without a wait. It is freed when the work on it is done. */
START_TEST(let_go_in_use)
{
    if (!has(kinds[_i]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    kernel_writes(mem, 1);
    gpu_hold(work.stream);
    kernel_reads(mem);
    OK(synced_mem_release_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), UN);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(stats_now().retired, 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    gpu_unhold();
    gpu_stream_sync(work.stream);
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
    finish(mem);
    clean_up();
}
END_TEST

/* ---- Pushes and pulls ---- */

START_TEST(push)
{
    if (!has(kinds[_i]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, work.stream));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(mem, work.stream));
    for (int i = 0; i < 2; i++) {
        OK(synced_mem_async_gpu_push(mem, work.stream));
        ck_assert_int_eq(synced_mem_head(mem), SYN);
    }
    kernel_reads(mem);
    kernel_writes(mem, 2);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, work.stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    finish(mem);
    clean_up();
}
END_TEST

/* After a pull the host waits for the writes before it, also on the pull's own stream. It waits for nothing later. */
START_TEST(pull)
{
    const bool same = _i % 2;
    int pending = -1;
    if (!has(kinds[_i / 2]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i / 2]);
    kernel_writes(mem, 1);
    OK(synced_mem_async_cpu_pull(mem, same ? work.stream : work.other));
    ck_assert_int_eq(synced_mem_head(mem), SYN);
    OK(synced_mem_query(mem, &pending));
    if (gpu_unfinished() > 0)
        ck_assert_int_eq(pending, 1);
    OK(synced_mem_wait(mem));
    OK(synced_mem_query(mem, &pending));
    ck_assert_int_eq(pending, 0);
    gpu_hold(work.stream);
    OK(synced_mem_async_cpu_pull(mem, work.other));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    gpu_unhold();
    kernel_writes(mem, 2);
    ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 2));
    finish(mem);
    clean_up();
}
END_TEST

/* Work behind the pull may read the contents. */
START_TEST(pull_orders_the_stream)
{
    if (!has(kinds[_i]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    const void *const data = synced_mem_overwrite_gpu_data_on(mem, work.stream);
    kernel_writes(mem, 1);
    OK(synced_mem_async_cpu_pull(mem, work.other));
    gpu_copy(work.seen, data, SIZE, work.other);
    gpu_stream_sync(work.other);
    ck_assert(device_is(work.seen, SIZE, 1));
    finish(mem);
    clean_up();
}
END_TEST

/* Unified and separate objects are pushed and pulled together. */
START_TEST(many)
{
    if (!has(kinds[_i]))
        return;
    prepare();
    synced_mem *const unified = make_placed(SIZE, kinds[_i]);
    synced_mem *const other = make_placed(SIZE, kinds[_i]);
    synced_mem *const separate = make_at_cpu(SIZE, 3);
    synced_mem *const all[] = {unified, separate, other, unified, separate};
    host_fill(synced_mem_overwrite_cpu_data(unified), SIZE, 1);
    kernel_writes(other, 2);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push_n(all, 5, work.other));
    ck_assert_int_eq(synced_mem_head(unified), CPU);
    ck_assert(host_is(synced_mem_cpu_data(other), SIZE, 2));
    OK(synced_mem_async_gpu_push_n(all, 5, work.other));
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(synced_mem_head(all[i]), SYN);
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    for (int i = 0; i < 3; i++)
        gpu_fill(synced_mem_mutable_gpu_data_on(all[i], work.stream), SIZE, (unsigned)i + 4, work.stream);
    OK(synced_mem_async_cpu_pull_n(all, 5, work.stream));
    for (int i = 0; i < 3; i++)
        ck_assert(host_is(synced_mem_cpu_data(all[i]), SIZE, (unsigned)i + 4));
    ck_assert_uint_eq(stats_now().d2h_transfers, 1);
    release_all(all, 3);
    clean_up();
}
END_TEST

/* ---- Threads and processes ---- */

enum { THREADS = 8, ROUNDS = 40 };

static struct {
    synced_mem *mem;
    pthread_barrier_t together;
} shared;

/* The host and streams read at once, while a kernel may still be writing the contents. */
static void *read_along(void *which)
{
    const bool host = (size_t)which % 2 == 0;
    synced_mem_stream stream = host ? NULL : open_stream(NON_BLOCKING);
    bool right = true;
    (void)pthread_barrier_wait(&shared.together);
    for (int i = 0; i < ROUNDS; i++)
        right &= host ? pattern_is(synced_mem_cpu_data(shared.mem), SIZE, 1)
                      : synced_mem_gpu_data_on(shared.mem, stream) != NULL;
    if (!host)
        close_stream(stream);
    return right ? which : &shared;
}

START_TEST(many_readers)
{
    pthread_t threads[THREADS];
    void *answer;
    if (!has(kinds[_i]))
        return;
    prepare();
    shared.mem = make_placed(SIZE, kinds[_i]);
    for (int round = 0; round < 5; round++) {
        kernel_writes(shared.mem, 1);
        ck_assert_int_eq(pthread_barrier_init(&shared.together, NULL, THREADS), 0);
        for (size_t i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_along, (void *)i), 0);
        for (size_t i = 0; i < THREADS; i++) {
            ck_assert_int_eq(pthread_join(threads[i], &answer), 0);
            ck_assert_ptr_eq(answer, (void *)i);
        }
        (void)pthread_barrier_destroy(&shared.together);
        ck_assert_int_eq(synced_mem_head(shared.mem), SYN);
    }
    finish(shared.mem);
    clean_up();
}
END_TEST

static void use_in_a_child(const void *argument)
{
    const synced_mem_placement_kind *const kind = argument;
    leaves_memory = true;
    if (*kind == SYNCED_MEM_PLACEMENT_MAPPED)
        ck_assert(pattern_is(synced_mem_cpu_data(shared.mem), SIZE, 1));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(shared.mem));
    OK(synced_mem_release(shared.mem));
    synced_mem *const mem = make_placed(SIZE, *kind);
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 0));
    ck_assert_int_eq(synced_mem_placement(mem), SYNCED_MEM_PLACEMENT_SEPARATE);
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}

START_TEST(in_a_forked_child)
{
    if (!has(kinds[_i]))
        return;
    shared.mem = make_placed(SIZE, kinds[_i]);
    host_fill(synced_mem_overwrite_cpu_data(shared.mem), SIZE, 1);
    ck_assert(in_a_child(use_in_a_child, &kinds[_i]));
    ck_assert(host_is(synced_mem_cpu_data(shared.mem), SIZE, 1));
    finish(shared.mem);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("unified_hazards");
    TCase *const hazards = add_case(made, "hazards");
    tcase_add_loop_test(hazards, readers_and_a_writer, 0, KINDS);
    tcase_add_loop_test(hazards, reads_do_not_wait, 0, KINDS);
    tcase_add_loop_test(hazards, let_go_in_use, 0, KINDS);
    TCase *const moves = add_case(made, "pushes and pulls");
    tcase_add_loop_test(moves, push, 0, KINDS);
    tcase_add_loop_test(moves, pull, 0, 2 * KINDS);
    tcase_add_loop_test(moves, pull_orders_the_stream, 0, KINDS);
    tcase_add_loop_test(moves, many, 0, KINDS);
    TCase *const others = add_case(made, "threads and processes");
    tcase_add_loop_test(others, many_readers, 0, KINDS);
    tcase_add_loop_test(others, in_a_forked_child, 0, KINDS);
    return made;
}
