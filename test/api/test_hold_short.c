/* Tests holds where the runtime refuses memory: on small devices of the emulated runtime, with and without a budget.
 * Also objects in files, captures and a lost device. */
#include "files_kit.h"
#include "hold_kit.h"

#include "cudart_emu.h"

#include <string.h>

enum { MANY = 8 };

static void use_each(synced_mem **mems, unsigned count, unsigned first, synced_mem_stream stream)
{
    static unsigned char expected[HOLD_BYTES];
    for (unsigned i = 0; i < count; i++) {
        host_fill(expected, HOLD_BYTES, first + i);
        OK(hold_one(mems[i], SYNCED_MEM_MUTABLE, stream));
        void *const data = given(synced_mem_mutable_gpu_data_on(mems[i], stream));
        gpu_expect(data, HOLD_BYTES, expected, stream);
        gpu_fill(data, HOLD_BYTES, first + i + 1, stream);
        OK(unhold_one(mems[i]));
    }
}

/* ---- The device is too small ---- */

START_TEST(a_small_device_is_a_budget)
{
    synced_mem *mems[MANY];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_many(mems, MANY, 0);
    emu_set_device_memory(0, (size_t)(_i + 1) * HOLD_BYTES);
    for (unsigned round = 0; round < 3; round++)
        use_each(mems, MANY, round, stream);
    ck_assert_uint_ge(stats_now().dirty_evictions, MANY - (unsigned)_i - 1);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(mems[i])), HOLD_BYTES, i + 3));
    release_all(mems, MANY);
    CLOSE_EACH(stream);
}
END_TEST

START_TEST(without_memory_pools)
{
    synced_mem *mems[MANY];
    emu_set_pools_supported(0, false);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_many(mems, MANY, 0);
    if (_i == 0)
        emu_set_device_memory(0, 3 * HOLD_BYTES);
    else
        set_budget(3 * HOLD_BYTES);
    for (unsigned round = 0; round < 2; round++)
        use_each(mems, MANY, round, stream);
    ck_assert_uint_le(stats_now().gpu_bytes + stats_now().gpu_spare_bytes, 3 * HOLD_BYTES);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    release_all(mems, MANY);
    CLOSE_EACH(stream);
}
END_TEST

/* Nothing is evicted, and each of the set that came before the refusal is still there. */
START_TEST(a_set_larger_than_the_device)
{
    synced_mem *mems[MANY];
    make_many(mems, MANY, 0);
    emu_set_device_memory(0, 4 * HOLD_BYTES);
    OK(synced_mem_hold_n(mems, 3, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(mems, 3, SYNCED_MEM_SIDE_GPU));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
          synced_mem_hold_n(mems + 2, 6, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    SAYS("the largest are 'many' of 1.0 MiB");
    ck_assert_uint_eq(stats_now().clean_evictions, 0);
    ck_assert(is_on_device(mems[0]) && is_on_device(mems[1]) && is_on_device(mems[2]));
    OK(synced_mem_hold_n(mems + 4, 4, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(mems + 4, 4, SYNCED_MEM_SIDE_GPU));
    emu_set_device_memory(0, 64 * HOLD_BYTES); /* there is more memory now */
    OK(synced_mem_hold_n(mems, MANY, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(mems, MANY, SYNCED_MEM_SIDE_GPU));
    release_all(mems, MANY);
}
END_TEST

static unsigned handler_calls;

static int count_call(const synced_mem_out_of_memory *request, void *unused)
{
    (void)request, (void)unused;
    handler_calls++;
    return 0;
}

START_TEST(others_evict_before_the_handler)
{
    synced_mem *mems[MANY];
    synced_mem *const fixed = make_on(3 * HOLD_BYTES, 0);
    make_many(mems, 4, 0);
    synced_mem_set_out_of_memory_handler(count_call, NULL);
    emu_set_device_memory(0, 4 * HOLD_BYTES);
    OK(synced_mem_hold_n(mems, 4, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(fixed));
    ck_assert_uint_eq(handler_calls, 1);
    OK(synced_mem_unhold_n(mems, 4, SYNCED_MEM_SIDE_GPU));
    given(synced_mem_overwrite_gpu_data(fixed));
    ck_assert_uint_eq(handler_calls, 1);
    ck_assert_uint_ge(stats_now().clean_evictions, 3);
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    release_all(mems, 4);
    RELEASE_EACH(fixed);
}
END_TEST

/* ---- The host has no memory for what is to be pulled ---- */

START_TEST(no_host_memory_to_pull)
{
    synced_mem *const written = make_evictable("written", HOLD_BYTES);
    synced_mem *const other = make_evictable("other", HOLD_BYTES);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(hold_one(written, SYNCED_MEM_OVERWRITE, stream));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(written, stream)), HOLD_BYTES, 9, stream);
    OK(unhold_one(written));
    set_budget(HOLD_BYTES);
    emu_fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation, false);
    emu_fail("cudaHostRegister", 1, cudaErrorMemoryAllocation, false);
    emu_set_pinned_memory(1);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, hold_one(other, SYNCED_MEM_OVERWRITE, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_one(other));
    emu_fail_clear();
    ck_assert_int_eq(synced_mem_head(written), SYNCED_MEM_AT_GPU);
    emu_set_pinned_memory((size_t)1 << 30);
    OK(hold_one(other, SYNCED_MEM_OVERWRITE, stream));
    ck_assert_int_eq(synced_mem_head(written), SYNCED_MEM_AT_CPU);
    OK(unhold_one(other));
    ck_assert(host_is(given(synced_mem_cpu_data(written)), HOLD_BYTES, 9));
    RELEASE_EACH(written, other);
    CLOSE_EACH(stream);
}
END_TEST

/* ---- Files ---- */

/* An object whose file still has its bytes goes without a byte moved, and has no host copy. */
START_TEST(objects_in_files_are_clean)
{
    enum { EACH = 100000 };
    synced_mem *mems[MANY];
    static unsigned char whole[MANY * EACH];
    synced_mem_file *const file = make_file(MANY * EACH, 5);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    memcpy(whole, in_file, sizeof whole);
    for (unsigned i = 0; i < MANY; i++) {
        mems[i] = make_evictable("tensor", EACH);
        OK(synced_mem_use_file(mems[i], file, (uint64_t)i * EACH));
    }
    set_budget(3 * EACH);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < MANY; i++) {
            OK(hold_one(mems[i], SYNCED_MEM_READ, stream));
            gpu_expect(given(synced_mem_gpu_data_on(mems[i], stream)), EACH, whole + (size_t)i * EACH, stream);
            OK(unhold_one(mems[i]));
        }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    ck_assert_uint_eq(stats_now().d2h_transfers, 0);
    ck_assert_uint_eq(stats_now().dirty_evictions, 0);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_int_eq(synced_mem_cpu_source(mems[i]), SYNCED_MEM_SOURCE_NONE);
    release_all(mems, MANY);
    CLOSE_EACH(stream);
    end_file(file);
}
END_TEST

/* ---- Callbacks ---- */

static synced_mem *inner;
static unsigned inner_calls;

/* Pushes another evictable object, inside a push. */
static void *alloc_and_push(size_t size, size_t alignment, int device, synced_mem_stream on, void *unused)
{
    (void)alignment, (void)on, (void)unused;
    inner_calls++;
    OK(synced_mem_async_gpu_push(inner, SYNCED_MEM_STREAM_LIBRARY));
    return gpu_alloc(device, size);
}

static void free_again(void *data, size_t size, size_t alignment, int device, synced_mem_stream on, void *unused)
{
    (void)size, (void)alignment, (void)device, (void)on, (void)unused;
    gpu_free(data);
}

START_TEST(a_push_inside_a_push)
{
    const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = alloc_and_push, .free = free_again};
    synced_mem_options options = default_options();
    synced_mem *mems[2];
    options.device = 0;
    options.gpu_allocator = &allocator;
    OK(synced_mem_create(&mems[0], HOLD_BYTES, &options));
    host_fill(given(synced_mem_overwrite_cpu_data(mems[0])), HOLD_BYTES, 1);
    make_many(&mems[1], 1, 2);
    make_many(&inner, 1, 3);
    set_budget(2 * HOLD_BYTES);
    OK(synced_mem_async_gpu_push_n(mems, 2, NULL));
    ck_assert_uint_eq(inner_calls, 1);
    ck_assert(is_on_device(mems[0]) && is_on_device(mems[1]) && is_on_device(inner));
    set_budget(HOLD_BYTES);
    ck_assert_uint_eq(stats_now().gpu_bytes, HOLD_BYTES);
    RELEASE_EACH(mems[0], mems[1], inner);
}
END_TEST

/* ---- Captures ---- */

START_TEST(a_capture_holds_only_what_is_there)
{
    synced_mem *mems[2];
    cudaGraph_t graph;
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_many(mems, 2, 0);
    OK(hold_one(mems[0], SYNCED_MEM_READ, stream));
    given(synced_mem_gpu_data_on(mems[0], stream));
    OK(unhold_one(mems[0]));
    ck_assert_int_eq(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    FAILS(SYNCED_MEM_ERR_CAPTURING, hold_one(mems[1], SYNCED_MEM_READ, stream));
    OK(hold_one(mems[0], SYNCED_MEM_READ, stream));
    given(synced_mem_gpu_data_on(mems[0], stream));
    ck_assert_int_eq(cudaStreamEndCapture((cudaStream_t)stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    OK(unhold_one(mems[0]));
    release_all(mems, 2);
    CLOSE_EACH(stream);
}
END_TEST

/* ---- Staged pulls ---- */

START_TEST(pageable_memory_is_pulled_in_parts)
{
    synced_mem *mems[MANY];
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging((unsigned)_i, 1);
    make_many(mems, MANY, 0);
    set_budget(2 * HOLD_BYTES);
    emu_set_pinned_memory(1 << 19); /* for buffers */
    use_each(mems, MANY, 0, stream);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(mems[i])), HOLD_BYTES, i + 1));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    release_all(mems, MANY);
    CLOSE_EACH(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_short");
    TCase *const devices_of = add_case(made, "small devices");
    add_gpu_loop_test(devices_of, a_small_device_is_a_budget, 0, 4);
    add_gpu_loop_test(devices_of, without_memory_pools, 0, 2);
    add_gpu_tests(devices_of, a_set_larger_than_the_device, others_evict_before_the_handler, no_host_memory_to_pull);
    TCase *const others = add_case(made, "others");
    add_gpu_tests(others, objects_in_files_are_clean, a_push_inside_a_push, a_capture_holds_only_what_is_there);
    add_gpu_loop_test(others, pageable_memory_is_pulled_in_parts, 0, 3);
    return made;
}
