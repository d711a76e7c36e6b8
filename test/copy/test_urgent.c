/* Tests urgent pushes and pulls: when a kernel makes them, and that they do not wait for bulk transfers. */
#include "fixture.h"
#include "kernels.h"

#include "copy/kernel_list.h"
#include "copy/urgent.h"
#include "device/device.h"

#include <stdlib.h>

static synced_mem *bulk;
static synced_mem_stream busy;
static synced_mem_stream stream;

static uint64_t by_kernel(void)
{
    return stats_now().kernel_copies;
}

static void write_on(synced_mem *mem, bool pull, unsigned pattern)
{
    const size_t size = synced_mem_size(mem);
    if (pull) {
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), size, pattern, stream);
        gpu_stream_sync(stream);
    } else {
        host_fill(synced_mem_overwrite_cpu_data(mem), size, pattern);
    }
}

static bool has(synced_mem *mem, bool pull, unsigned pattern)
{
    const size_t size = synced_mem_size(mem);
    return pull ? host_is(synced_mem_cpu_data(mem), size, pattern)
                : device_is(synced_mem_gpu_data_on(mem, stream), size, pattern);
}

static synced_mem_status move(synced_mem *mem, bool pull)
{
    return pull ? synced_mem_async_cpu_pull(mem, busy) : synced_mem_async_gpu_push(mem, busy);
}

static synced_mem_status move_urgently(synced_mem *mem, bool pull)
{
    return pull ? synced_mem_async_cpu_pull_urgent(mem, stream) : synced_mem_async_gpu_push_urgent(mem, stream);
}

/* Returns whether the device's kernels copy at all. */
static bool begin(size_t size)
{
    OK(sm_device_resolve(0, &(int){0}));
    use_kernels(1);
    busy = open_stream(NON_BLOCKING);
    stream = open_stream(NON_BLOCKING);
    bulk = make_on(size, 0);
    return sm_device_list_processors(0) > 0;
}

static void end(void)
{
    OK(synced_mem_release(bulk));
    close_stream(busy);
    close_stream(stream);
}

/* Queues a transfer of the bulk object that does not begin before the hold ends. */
static void begin_bulk(bool pull)
{
    write_on(bulk, pull, 1);
    gpu_hold(busy);
    OK(move(bulk, pull));
}

static void end_bulk(bool pull)
{
    gpu_unhold();
    gpu_stream_sync(busy);
    ck_assert(has(bulk, pull, 1));
}

/* The urgent transfer ends while the bulk one of its direction waits. Without one, an engine makes it. */
START_TEST(ahead_of_bulk)
{
    const bool pull = _i % 2;
    static const size_t sizes[] = {1, 3, 4096, 5001, 300001, SM_URGENT_MOST_BYTES};
    const bool kernels = begin(SM_BULK_BYTES);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        synced_mem *const mem = make_on(sizes[i], 0);
        uint64_t before = by_kernel();
        for (unsigned round = 0; round < 2; round++) { /* the first one obtains memory */
            write_on(mem, pull, 2 + round);
            OK(move_urgently(mem, pull));
            gpu_stream_sync(stream);
            ck_assert(has(mem, pull, 2 + round));
        }
        ck_assert_uint_eq(by_kernel(), before);
        write_on(mem, pull, 4);
        begin_bulk(pull);
        OK(move_urgently(mem, pull));
        gpu_stream_sync(stream);
        ck_assert(!gpu_stream_is_idle(busy));
        ck_assert_uint_eq(by_kernel() - before, kernels);
        end_bulk(pull);
        ck_assert(has(mem, pull, 4));
        before = by_kernel();
        write_on(mem, pull, 5);
        OK(move_urgently(mem, pull));
        gpu_stream_sync(stream);
        ck_assert(has(mem, pull, 5));
        ck_assert_uint_eq(by_kernel(), before);
        OK(synced_mem_release(mem));
    }
    end();
}
END_TEST

/* Engines make these although bulk transfers are in flight. */
START_TEST(by_engine)
{
    enum { OTHER_DIRECTION, SMALLER_THAN_BULK, TOO_LARGE, OF_USER, SWITCHED_OFF, CASES };
    const bool pull = _i >= CASES;
    const int row = _i % CASES;
    unsigned char *const user = gpu_pinned_alloc(4096);
    begin(row == SMALLER_THAN_BULK ? SM_BULK_BYTES - 1 : SM_BULK_BYTES);
    synced_mem *const mem = make_on(row == TOO_LARGE ? SM_URGENT_MOST_BYTES + 1 : 4096, 0);
    if (row == OF_USER)
        OK(synced_mem_set_cpu_data(mem, user));
    write_on(mem, pull, 2);
    begin_bulk(row == OTHER_DIRECTION ? !pull : pull);
    const uint64_t before = by_kernel();
    if (row == SWITCHED_OFF)
        OK(synced_mem_set_kernel_blocks(0));
    OK(move_urgently(mem, pull));
    ck_assert_uint_eq(by_kernel(), before);
    end_bulk(row == OTHER_DIRECTION ? !pull : pull);
    gpu_stream_sync(stream);
    ck_assert(has(mem, pull, 2));
    OK(synced_mem_release(mem));
    gpu_pinned_free(user);
    end();
}
END_TEST

/* Many small transfers of one call are bulk together. */
START_TEST(many_are_bulk)
{
    enum { COUNT = 20, SIZE = 64 << 10 };
    synced_mem *mems[COUNT];
    const bool kernels = begin(1);
    for (int i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        write_on(mems[i], false, (unsigned)i);
    }
    synced_mem *const mem = make_on(777, 0);
    write_on(mem, false, 3);
    gpu_hold(busy);
    OK(synced_mem_async_gpu_push_n(mems, COUNT, busy));
    const uint64_t before = by_kernel();
    OK(synced_mem_async_gpu_push_urgent(mem, stream));
    ck_assert_uint_eq(by_kernel() - before, kernels);
    gpu_stream_sync(stream);
    ck_assert(!gpu_stream_is_idle(busy));
    gpu_unhold();
    gpu_stream_sync(busy);
    ck_assert(has(mem, false, 3));
    for (int i = 0; i < COUNT; i++)
        ck_assert(has(mems[i], false, (unsigned)i));
    release_all(mems, COUNT);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* A bulk transfer that threads of the library stage. Behind a bulk transfer on the same stream nothing is gained. */
START_TEST(staged_and_same_stream)
{
    enum { SIZE = 8 << 20 };
    const bool is_staged = _i / 2 == 0;
    const bool pull = _i % 2;
    unsigned char *const user = calloc(1, SIZE);
    const bool kernels = begin(SIZE);
    synced_mem *const mem = make_on(4096, 0);
    if (is_staged)
        OK(synced_mem_set_cpu_data(bulk, user));
    write_on(mem, pull, 2);
    write_on(bulk, pull, 1);
    const uint64_t before = by_kernel();
    gpu_hold(busy);
    if (is_staged && pull) {
        gpu_fill(synced_mem_overwrite_gpu_data_on(bulk, busy), SIZE, 1, busy); /* the pull waits for it */
        OK(move(bulk, pull));
    } else if (is_staged) {
        gpu_unhold();
        sm_bulk_begin(0, SM_H2D); /* a push has been read when it returns, and may have ended */
    } else {
        OK(move(bulk, pull));
    }
    OK(pull ? synced_mem_async_cpu_pull_urgent(mem, is_staged ? stream : busy)
            : synced_mem_async_gpu_push_urgent(mem, is_staged ? stream : busy));
    ck_assert_uint_eq(by_kernel() - before, kernels && is_staged);
    if (is_staged && !pull)
        sm_bulk_end(0, SM_H2D);
    else
        gpu_unhold();
    gpu_stream_sync(busy);
    gpu_stream_sync(stream);
    ck_assert(has(mem, pull, 2));
    OK(synced_mem_wait(bulk));
    bool has_ended = false; /* once the staged transfer has ended, and the threads have left it */
    for (unsigned i = 0; i < 1000 && !has_ended; i++) {
        const uint64_t behind = by_kernel();
        write_on(mem, pull, 3 + i);
        OK(move_urgently(mem, pull));
        has_ended = by_kernel() == behind;
        gpu_stream_sync(stream);
        ck_assert(has(mem, pull, 3 + i));
    }
    ck_assert(has_ended);
    OK(synced_mem_release(mem));
    end();
    free(user);
}
END_TEST

/* Parts of an object, some of them askew, each by a kernel. */
START_TEST(parts)
{
    enum { PARTS = 5, PART = 1001 };
    const bool kernels = begin(SM_BULK_BYTES);
    synced_mem *views[PARTS];
    synced_mem *const root = make_on(PARTS * PART, 0);
    write_on(root, false, 0);
    given(synced_mem_gpu_data(root));
    for (size_t i = 0; i < PARTS; i++)
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
    for (size_t i = 0; i < PARTS; i += 2)
        write_on(views[i], false, (unsigned)i + 1);
    begin_bulk(false);
    const uint64_t before = by_kernel();
    OK(synced_mem_async_gpu_push_urgent(root, stream));
    ck_assert_uint_eq(by_kernel() - before, kernels ? 3 : 0);
    gpu_stream_sync(stream);
    end_bulk(false);
    for (size_t i = 0; i < PARTS; i += 2)
        ck_assert(has(views[i], false, (unsigned)i + 1));
    release_all(views, PARTS);
    OK(synced_mem_release(root));
    end();
}
END_TEST

START_TEST(bad_input)
{
    begin(1);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_push_urgent(NULL, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_cpu_pull_urgent(NULL, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push_urgent(bulk, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull_urgent(bulk, stream));
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("urgent");
    TCase *const urgent = add_case(all, "urgent");
    add_gpu_loop_test(urgent, ahead_of_bulk, 0, 2);
    add_gpu_loop_test(urgent, by_engine, 0, 10);
    add_gpu_loop_test(urgent, many_are_bulk, 0, 1);
    add_gpu_loop_test(urgent, staged_and_same_stream, 0, 4);
    add_gpu_loop_test(urgent, parts, 0, 1);
    add_gpu_loop_test(urgent, bad_input, 0, 1);
    return all;
}
