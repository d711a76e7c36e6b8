/* Tests pushes and pulls of several objects. Their copies go to the runtime in one call if that is faster. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

/* Copies of 16 KiB to the device go one by one. Others from page-locked memory go in a batch, except on the legacy
 * stream. */
static const size_t sizes[] = {100, 4096, 16384, 65536, 1, 140000, 5000, 256};
enum { LENGTHS = sizeof sizes / sizeof sizes[0], MANY = 3 * LENGTHS, STAGED = 3 << 20 };

static size_t size_of(int i)
{
    return sizes[i % LENGTHS];
}

static synced_mem_status move_n(bool pull, synced_mem *const *mems, size_t count, synced_mem_stream stream)
{
    return pull ? synced_mem_async_cpu_pull_n(mems, count, stream) : synced_mem_async_gpu_push_n(mems, count, stream);
}

/* The contents get the pattern i + 1, on the host or by a kernel on the stream. */
static synced_mem *make_at(bool gpu, int i, synced_mem_stream kernels)
{
    synced_mem *const mem = make_on(size_of(i), 0);
    if (gpu)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, kernels), size_of(i), (unsigned)i + 1, kernels);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), size_of(i), (unsigned)i + 1);
    return mem;
}

START_TEST(all_sizes_arrive)
{
    synced_mem *mems[MANY];
    const bool pull = _i % 2;
    synced_mem_stream kernels = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(_i / 2);
    for (int i = 0; i < MANY; i++)
        mems[i] = make_at(pull, i, kernels);
    const synced_mem_stats before = stats_now();
    OK(move_n(pull, mems, MANY, stream));
    const synced_mem_stats after = stats_now();
    size_t bytes = 0;
    for (int i = 0; i < MANY; i++)
        bytes += size_of(i);
    ck_assert_uint_eq(after.h2d_transfers - before.h2d_transfers, pull ? 0 : MANY);
    ck_assert_uint_eq(after.d2h_transfers - before.d2h_transfers, pull ? MANY : 0);
    ck_assert_uint_eq(after.h2d_bytes - before.h2d_bytes + after.d2h_bytes - before.d2h_bytes, bytes);
    ck_assert_uint_eq(after.host_waits, before.host_waits);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_SYNCED);
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), size_of(i), (unsigned)i + 1));
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), size_of(i), (unsigned)i + 1));
    }
    release_all(mems, MANY);
    CLOSE_EACH(kernels, stream);
}
END_TEST

/* One call for page-locked and pageable memory, staged transfers, a SYNCED object, and an object without bytes. */
START_TEST(all_kinds_in_one_call)
{
    enum { KINDS = 7, PAGEABLE = 1, LARGE = 2, EMPTY = 3 };
    static const size_t bytes[KINDS] = {100, 4096, STAGED, 0, 1, 140000, 5000};
    synced_mem *mems[KINDS];
    void *pageable[KINDS] = {[PAGEABLE] = malloc(bytes[PAGEABLE]), [LARGE] = malloc(bytes[LARGE])};
    synced_mem_stream stream = open_stream(_i);
    for (int i = 0; i < KINDS; i++) {
        mems[i] = make_on(bytes[i], 0);
        if (pageable[i])
            OK(synced_mem_set_cpu_data(mems[i], pageable[i]));
        host_fill(synced_mem_mutable_cpu_data(mems[i]), bytes[i], (unsigned)i + 1);
    }
    OK(synced_mem_async_gpu_push(mems[0], stream)); /* SYNCED, and arriving */
    for (int pull = 0; pull < 2; pull++) {
        OK(move_n(pull, mems, KINDS, stream));
        for (int i = 0; i < KINDS; i++) {
            const unsigned pattern = (unsigned)(i + 1 + pull * KINDS);
            ck_assert(host_is(synced_mem_cpu_data(mems[i]), bytes[i], pattern));
            ck_assert(device_is(synced_mem_gpu_data(mems[i]), bytes[i], pattern));
            gpu_fill(synced_mem_mutable_gpu_data_on(mems[i], stream), bytes[i], pattern + KINDS, stream);
        }
    }
    release_all(mems, KINDS);
    close_stream(stream);
    for (int i = 0; i < KINDS; i++)
        free(pageable[i]);
}
END_TEST

/* If nothing can be moved, the heads and contents stay. */
START_TEST(without_a_gpu)
{
    synced_mem *mems[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) {
        mems[i] = make(size_of(i));
        host_fill(synced_mem_overwrite_cpu_data(mems[i]), size_of(i), (unsigned)i + 1);
    }
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push_n(mems, LENGTHS, NULL));
    for (int i = 0; i < LENGTHS; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), gpu_expected() ? SYNCED_MEM_SYNCED : SYNCED_MEM_AT_CPU);
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), size_of(i), (unsigned)i + 1));
    }
    release_all(mems, LENGTHS);
}
END_TEST

/* ---- Order ---- */

/* The batch comes after kernels on another stream, and later kernels and the host after the batch. */
START_TEST(other_work_around)
{
    enum { COUNT = 4, SIZE = 4096 };
    synced_mem *mems[COUNT];
    synced_mem_stream kernels = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(_i);
    for (int i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        host_fill(synced_mem_mutable_cpu_data(mems[i]), SIZE, 1);
    }
    for (unsigned round = 0; round < 5; round++) {
        OK(synced_mem_async_gpu_push_n(mems, COUNT, stream));
        gpu_delay(kernels);
        for (unsigned i = 0; i < COUNT; i++)
            gpu_fill(synced_mem_mutable_gpu_data_on(mems[i], kernels), SIZE, round + i + 2, kernels);
        OK(synced_mem_async_cpu_pull_n(mems, COUNT, stream));
        for (unsigned i = 0; i < COUNT; i++)
            gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], kernels), SIZE, 77, kernels);
        OK(synced_mem_async_cpu_pull_n(mems, COUNT, stream));
        for (unsigned i = 0; i < COUNT; i++)
            ck_assert(host_is(synced_mem_mutable_cpu_data(mems[i]), SIZE, 77));
        for (unsigned i = 0; i < COUNT; i++)
            host_fill(synced_mem_mutable_cpu_data(mems[i]), SIZE, round + i + 3);
        OK(synced_mem_async_gpu_push_n(mems, COUNT, stream));
        gpu_delay(stream);
        for (unsigned i = 0; i < COUNT; i++)
            host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, round + i + 4);
        OK(synced_mem_async_gpu_push_n(mems, COUNT, kernels));
        for (unsigned i = 0; i < COUNT; i++) {
            ck_assert(device_is(synced_mem_gpu_data(mems[i]), SIZE, round + i + 4));
            host_fill(synced_mem_mutable_cpu_data(mems[i]), SIZE, round + i + 5);
        }
    }
    release_all(mems, COUNT);
    CLOSE_EACH(kernels, stream);
}
END_TEST

/* ---- Memory of the caller's ---- */

/* Several objects use one memory. A batch must not write it twice. The contents of any object may stay. */
START_TEST(one_memory_for_all)
{
    enum { COUNT = 100, SIZE = 1000 };
    synced_mem *mems[COUNT];
    const bool pull = _i % 2;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    char *const device = gpu_alloc(0, (size_t)2 * COUNT * SIZE);
    char *const host = gpu_pinned_alloc((size_t)2 * COUNT * SIZE);
    for (int i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        /* in the order of addresses or not, each alone, or all at one place */
        const size_t place = _i / 2 == 0 ? (size_t)i : _i / 2 == 1 ? (size_t)(i * 37 % COUNT) : 0;
        void *const shared = (pull ? host : device) + place * SIZE;
        if (pull)
            OK(synced_mem_set_cpu_data(mems[i], shared));
        else
            OK(synced_mem_set_gpu_data(mems[i], shared));
        if (pull)
            gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], stream), SIZE, (unsigned)i + 1, stream);
        else
            host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, (unsigned)i + 1);
    }
    OK(move_n(pull, mems, COUNT, stream));
    gpu_stream_sync(stream);
    for (int i = 0; i < COUNT && _i / 2 < 2; i++) {
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, (unsigned)i + 1));
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), SIZE, (unsigned)i + 1));
    }
    release_all(mems, COUNT);
    close_stream(stream);
    gpu_free(device);
    gpu_pinned_free(host);
}
END_TEST

/* An object uses memory that the library has obtained for another one. */
START_TEST(memory_of_another_object)
{
    enum { COUNT = 3, SIZE = 1000 };
    synced_mem *mems[COUNT];
    const bool pull = _i % 2;
    const int owner = _i / 2;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, (unsigned)i + 1);
        OK(synced_mem_async_gpu_push(mems[i], NULL));
    }
    synced_mem *const guest = mems[owner == 0 ? 2 : 0];
    if (pull)
        OK(synced_mem_set_cpu_data(guest, synced_mem_overwrite_cpu_data(mems[owner])));
    else
        OK(synced_mem_set_gpu_data(guest, synced_mem_overwrite_gpu_data_on(mems[owner], stream)));
    for (int i = 0; i < COUNT; i++)
        if (pull)
            gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], stream), SIZE, (unsigned)i + 1, stream);
        else
            host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, (unsigned)i + 1);
    OK(move_n(pull, mems, COUNT, stream));
    gpu_stream_sync(stream);
    const unsigned char *const both = synced_mem_cpu_data(mems[owner]); /* the contents of either */
    ck_assert(host_is(both, SIZE, (unsigned)owner + 1) || host_is(both, SIZE, owner == 0 ? 3 : 1));
    OK(synced_mem_release(guest));
    for (int i = 0; i < COUNT; i++)
        if (mems[i] != guest)
            OK(synced_mem_release(mems[i]));
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("batch");
    TCase *const tests = add_case(made, "batch");
    tcase_add_test(tests, without_a_gpu);
    add_gpu_loop_test(tests, all_sizes_arrive, 0, 2 * STREAM_KINDS);
    add_gpu_loop_test(tests, all_kinds_in_one_call, 0, STREAM_KINDS);
    add_gpu_loop_test(tests, other_work_around, 0, STREAM_KINDS);
    add_gpu_loop_test(tests, one_memory_for_all, 0, 6);
    add_gpu_loop_test(tests, memory_of_another_object, 0, 6);
    return made;
}
