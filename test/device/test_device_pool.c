/* Checks devices: their properties, the library's pools on them, and the order in which memory is freed there. */
#include "fixture.h"

#include <string.h>
#include <unistd.h>

enum { SIZE = 5000, LARGE = 4 << 20 };

static synced_mem_gpu_pool_stats pool_now(int device)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_gpu_pool_get_stats(device, &stats));
    return stats;
}

/* ---- Arguments ---- */

static synced_mem_status info_of(int device)
{
    synced_mem_device_info info = {.struct_size = sizeof info};
    return synced_mem_get_device_info(device, &info);
}

static synced_mem_status set_threshold(int device)
{
    return synced_mem_gpu_pool_set_threshold(device, UINT64_MAX);
}

static synced_mem_status trim(int device)
{
    return synced_mem_gpu_pool_trim(device, 0);
}

static synced_mem_status get_stats(int device)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    return synced_mem_gpu_pool_get_stats(device, &stats);
}

static synced_mem_status set_reuse(int device)
{
    return synced_mem_gpu_pool_set_reuse(device, SYNCED_MEM_GPU_POOL_REUSE_ALL);
}

static synced_mem_status (*const of_a_device[])(int device) = {
    info_of, set_threshold, trim, get_stats, set_reuse, synced_mem_gpu_pool_reset_peaks,
};
enum { OF_A_DEVICE = sizeof of_a_device / sizeof of_a_device[0] };

START_TEST(device_numbers)
{
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, of_a_device[_i](-2));
    if (gpu_expected()) {
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, of_a_device[_i](devices()));
        SAYS("does not exist");
    } else {
        FAILS(SYNCED_MEM_ERR_NO_GPU, of_a_device[_i](0));
    }
    FAILS_WITHOUT_GPU(of_a_device[_i](SYNCED_MEM_DEVICE_CURRENT));
    ck_assert_int_eq(gpu_current_device(), 0);
}
END_TEST

START_TEST(wrong_structs)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats - 1, .used = 7};
    synced_mem_device_info info = {.struct_size = sizeof info + 1, .device = 7};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_pool_get_stats(0, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_pool_get_stats(0, &stats));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_get_device_info(0, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_get_device_info(0, &info));
    ck_assert_uint_eq(stats.used, 7);
    ck_assert_int_eq(info.device, 7);
}
END_TEST

START_TEST(unknown_policies)
{
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_pool_set_reuse(0, 8));
    SAYS("0x8");
    OK(synced_mem_gpu_pool_set_reuse(0, 0));
    OK(synced_mem_gpu_pool_set_reuse(0, SYNCED_MEM_GPU_POOL_REUSE_EVENTS));
}
END_TEST

START_TEST(peers_that_are_none)
{
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_pool_allow_peer(-2, 0, 1));
    if (!gpu_expected()) {
        FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_pool_allow_peer(0, 1, 1));
        return;
    }
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_pool_allow_peer(0, -2, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_pool_allow_peer(0, devices(), 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_pool_allow_peer(0, 0, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_pool_allow_peer(0, SYNCED_MEM_DEVICE_CURRENT, 0));
}
END_TEST

/* ---- Properties of a device ---- */

/* A query of a device's properties is not a use of the device. */
START_TEST(asking_uses_no_device)
{
    synced_mem *const mem = make(SIZE);
    FAILS_WITHOUT_GPU(info_of(SYNCED_MEM_DEVICE_CURRENT));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(facts_of_devices)
{
    for (int device = 0; device < devices(); device++) {
        synced_mem_device_info info = {.struct_size = sizeof info};
        OK(synced_mem_get_device_info(device, &info));
        ck_assert_uint_eq(info.struct_size, sizeof info);
        ck_assert_int_eq(info.device, device);
        ck_assert_int_ge(info.driver_version, 11000);
        ck_assert_int_ge(info.runtime_version, 11080);
        ck_assert_uint_gt(info.total_memory, 1 << 20);
        ck_assert_int_ge(info.numa_node, -1);
        ck_assert_int_ge(info.async_engines, 1);
        ck_assert_int_eq(info.unified_addressing, 1);
        ck_assert_int_eq(info.pool_handles & ~15, 0);
        ck_assert_ptr_nonnull(strchr(info.pci_bus_id, ':'));
        ck_assert_int_eq(gpu_current_device(), 0);
    }
}
END_TEST

/* ---- Numbers of a pool ---- */

/* Allocates and frees an object's device memory. */
static void use_memory(int device, size_t size)
{
    synced_mem *const mem = make_on(size, device);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    OK(synced_mem_release(mem));
}

START_TEST(numbers)
{
    keep_no_spares();
    ck_assert_uint_eq(pool_now(0).used + pool_now(0).reserved + pool_now(0).used_high, 0);
    synced_mem *const mem = make_on(LARGE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    const synced_mem_gpu_pool_stats one = pool_now(0);
    ck_assert_uint_ge(one.used, LARGE);
    ck_assert_uint_ge(one.reserved, one.used);
    ck_assert_uint_ge(one.used_high, one.used);
    ck_assert_uint_ge(one.reserved_high, one.reserved);
    use_memory(0, LARGE);
    gpu_sync_device(0);
    ck_assert_uint_ge(pool_now(0).used_high, 2 * LARGE);
    ck_assert_uint_ge(pool_now(0).reserved, 2 * LARGE);
    ck_assert_uint_eq(pool_now(0).used, one.used);
    OK(synced_mem_gpu_pool_reset_peaks(0));
    ck_assert_uint_eq(pool_now(0).used_high, one.used);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(trimming)
{
    keep_no_spares();
    synced_mem *const mem = make_at_gpu(LARGE, 1);
    OK(synced_mem_gpu_pool_trim(0, 0));
    ck_assert(device_is(synced_mem_gpu_data(mem), LARGE, 1));
    OK(synced_mem_release(mem));
    gpu_sync_device(0);
    OK(synced_mem_gpu_pool_trim(0, SIZE_MAX));
    ck_assert_uint_ge(pool_now(0).reserved, LARGE);
    OK(synced_mem_gpu_pool_trim(0, 0));
    ck_assert_uint_eq(pool_now(0).reserved, 0);
    OK(synced_mem_shutdown()); /* the pool is gone, and its peaks with it */
    ck_assert_uint_eq(pool_now(0).reserved_high + pool_now(0).used_high, 0);
    OK(synced_mem_gpu_pool_trim(0, 0));
    OK(synced_mem_gpu_pool_reset_peaks(0));
    ck_assert_uint_eq(pool_now(0).reserved_high, 0);
}
END_TEST

/* A pool with threshold 0 returns all its memory at the next synchronization. The shutdown resets the threshold. */
START_TEST(threshold)
{
    if (_i == 1)
        use_memory(0, SIZE);
    OK(synced_mem_gpu_pool_set_threshold(0, 0));
    use_memory(0, LARGE);
    gpu_sync_device(0);
    ck_assert_uint_eq(pool_now(0).reserved, 0);
    OK(synced_mem_shutdown());
    use_memory(0, LARGE);
    gpu_sync_device(0);
    ck_assert_uint_ge(pool_now(0).reserved, LARGE);
}
END_TEST

/* The pool is trimmed while transfers and kernels are in flight. */
START_TEST(trimming_during_work)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_at_cpu(LARGE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_gpu_pool_trim(0, 0));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), LARGE, 2, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    OK(synced_mem_gpu_pool_trim(0, 0));
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- Peers ---- */

/* A kernel of one device reads the other's memory. The permission also holds for memory that is allocated later. */
START_TEST(peers)
{
    if (devices() < 2)
        return;
    if (_i == 1)
        use_memory(0, SIZE);
    if (synced_mem_gpu_pool_allow_peer(0, 1, 1) != SYNCED_MEM_OK) {
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_DEVICE);
        return;
    }
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    gpu_sync_device(0);
    synced_mem_stream stream = gpu_stream_create(1, false);
    void *const seen = gpu_alloc(1, SIZE);
    gpu_make_current(1);
    gpu_copy(seen, synced_mem_gpu_data(mem), SIZE, stream);
    gpu_stream_sync(stream);
    gpu_make_current(0);
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 0));
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 0));
    OK(synced_mem_release(mem));
    gpu_stream_destroy(stream);
    gpu_free(seen);
    ck_assert_int_eq(gpu_current_device(), 0);
}
END_TEST

/* ---- The order of frees ---- */

/* Trims until the pool holds at most keep bytes. The pool returns memory only once it notices that the work is done. */
static void give_back_all_but(size_t keep)
{
    for (int i = 0; i < 100000 && pool_now(0).reserved > keep; i++) {
        OK(synced_mem_gpu_pool_trim(0, 0));
        (void)usleep(1000);
    }
    ck_assert_uint_le(pool_now(0).reserved, keep);
}

/* Memory is freed on the stream that used it, without an event or a wait. The next allocation on the stream gets it.
 * The library forgets a created stream without an id, and could not poll that free. */
START_TEST(on_the_stream_that_used_it)
{
    if (_i != LEGACY && !gpu_has_stream_ids())
        return;
    keep_no_spares();
    synced_mem_stream stream = open_stream(_i);
    OK(synced_mem_gpu_pool_set_reuse(0, 0));
    use_memory(0, LARGE); /* creates the pool and the internal streams */
    gpu_sync_device(0);
    OK(synced_mem_gpu_pool_trim(0, 0));
    gpu_hold(stream);
    const void *last = NULL;
    for (unsigned i = 0; i < 3; i++) {
        const synced_mem_stats before = stats_now();
        synced_mem *const mem = make_on(LARGE, 0);
        void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
        ck_assert_ptr_nonnull(data);
        ck_assert(!last || last == data);
        last = data;
        gpu_fill(data, LARGE, i, stream);
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
        OK(synced_mem_release(mem));
        ck_assert_uint_eq(stats_now().event_records, before.event_records);
        ck_assert_uint_eq(stats_now().stream_waits, before.stream_waits);
        ck_assert_uint_eq(stats_now().retired, 0);
    }
    gpu_unhold();
    close_stream(stream);
}
END_TEST

/* Larger than the pieces that a pool takes from the system for several allocations. */
enum { ENORMOUS = 36 << 20 };

static synced_mem *used_on(size_t size, synced_mem_stream one, synced_mem_stream two)
{
    synced_mem *const mem = make_on(size, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(mem, one);
    ck_assert_ptr_nonnull(data);
    gpu_fill(data, SIZE, 1, one);
    if (two)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, two));
    return mem;
}

/* A kernel that does not end holds back only the memory that it may use. */
START_TEST(behind_a_kernel_that_never_ends)
{
    keep_no_spares();
    synced_mem_stream held = open_stream(NON_BLOCKING);
    synced_mem_stream one = open_stream(NON_BLOCKING);
    synced_mem_stream two = open_stream(NON_BLOCKING);
    synced_mem *const stuck[] = {used_on(ENORMOUS, held, NULL), used_on(ENORMOUS, one, held),
                                 used_on(ENORMOUS, held, two)};
    const size_t keep = pool_now(0).reserved;
    gpu_hold(held);
    release_all(stuck, 3);
    OK(synced_mem_release(used_on(ENORMOUS, one, NULL)));
    OK(synced_mem_release(used_on(ENORMOUS, one, two)));
    OK(synced_mem_release(used_on(ENORMOUS, two, one)));
    use_memory(0, LARGE);
    gpu_stream_sync(one);
    gpu_stream_sync(two);
    give_back_all_but(keep);
    gpu_unhold();
    CLOSE_EACH(held, one, two);
    gpu_sync_device(0);
    give_back_all_but(0);
}
END_TEST

/* More frees wait than there are internal streams. A free behind another one waits with it, and is done in the end. A
 * free with no work before it does not wait. */
START_TEST(behind_more_than_there_are_lanes)
{
    enum { OBJECTS = 9 };
    keep_no_spares();
    synced_mem_stream held = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    synced_mem *mems[OBJECTS];
    for (int i = 0; i < OBJECTS; i++)
        mems[i] = used_on(LARGE, held, other);
    gpu_hold(held);
    for (int i = 0; i < OBJECTS; i++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mems[i], held));
        OK(synced_mem_end_use_on(mems[i], held));
        OK(synced_mem_release(mems[i]));
    }
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    const size_t keep = pool_now(0).reserved;
    synced_mem *const idle = used_on(ENORMOUS, other, NULL);
    OK(synced_mem_end_use_on(idle, other));
    gpu_stream_sync(other);
    OK(synced_mem_release(idle));
    give_back_all_but(keep);
    gpu_unhold();
    CLOSE_EACH(held, other);
    gpu_sync_device(0);
    give_back_all_but(0);
}
END_TEST

/* The stream, or its use of the object, has ended when the memory is released. An internal stream waits for the
 * recorded event. */
START_TEST(after_the_stream_is_done)
{
    keep_no_spares();
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = used_on(LARGE, stream, NULL);
    gpu_delay(stream);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), LARGE, 2, stream);
    OK(_i == 0 ? synced_mem_end_use_on(mem, stream) : synced_mem_forget_stream(stream));
    if (_i == 2)
        gpu_stream_destroy(stream);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    if (_i < 2)
        close_stream(stream);
    gpu_sync_device(0);
    give_back_all_but(0);
}
END_TEST

/* A pull or a kernel on another stream still reads when the object is released. */
START_TEST(beside_a_reader)
{
    keep_no_spares();
    synced_mem_stream one = open_stream(NON_BLOCKING);
    synced_mem_stream two = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = used_on(LARGE, one, NULL);
    gpu_delay(two);
    if (_i == 0)
        OK(synced_mem_async_cpu_pull(mem, two));
    else
        gpu_copy(seen, synced_mem_gpu_data_on(mem, two), SIZE, two);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, one));
    OK(synced_mem_release(mem));
    synced_mem *const next = make_on(LARGE, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(next, one), LARGE, 2, one);
    OK(synced_mem_release(next));
    CLOSE_EACH(one, two);
    ck_assert(_i == 0 || device_is(seen, SIZE, 1));
    gpu_free(seen);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("device_pool");
    TCase *const tests = add_case(made, "device_pool");
    add_tests(tests, wrong_structs, peers_that_are_none, asking_uses_no_device, facts_of_devices);
    add_gpu_tests(tests, unknown_policies, numbers, trimming, trimming_during_work);
    tcase_add_loop_test(tests, device_numbers, 0, OF_A_DEVICE);
    add_gpu_loop_test(tests, threshold, 0, 2);
    tcase_add_loop_test(tests, peers, 0, 2);
    add_gpu_loop_test(tests, on_the_stream_that_used_it, BLOCKING, STREAM_KINDS);
    add_gpu_tests(tests, behind_a_kernel_that_never_ends, behind_more_than_there_are_lanes);
    add_gpu_loop_test(tests, after_the_stream_is_done, 0, 3);
    add_gpu_loop_test(tests, beside_a_reader, 0, 2);
    return made;
}
