/* Checks devices of other kinds: without pools, with old drivers, or without access to one another. Also lets calls of
 * the runtime fail. */
#include "failing_calls.h"

#include "device/device.h"

#include <string.h>

enum { SIZE = 5000 };

static synced_mem_device_info info_of(int device)
{
    synced_mem_device_info info = {.struct_size = sizeof info};
    OK(synced_mem_get_device_info(device, &info));
    return info;
}

static synced_mem_gpu_pool_stats pool_now(int device)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_gpu_pool_get_stats(device, &stats));
    return stats;
}

/* ---- Properties of a device ---- */

START_TEST(each_attribute)
{
    static const struct {
        enum cudaDeviceAttr attribute;
        size_t where;
    } attributes[] = {
        {cudaDevAttrMemoryPoolSupportedHandleTypes, offsetof(synced_mem_device_info, pool_handles)},
        {cudaDevAttrManagedMemory, offsetof(synced_mem_device_info, managed_memory)},
        {cudaDevAttrConcurrentManagedAccess, offsetof(synced_mem_device_info, concurrent_managed_access)},
        {cudaDevAttrPageableMemoryAccess, offsetof(synced_mem_device_info, pageable_memory_access)},
        {cudaDevAttrIntegrated, offsetof(synced_mem_device_info, integrated)},
        {cudaDevAttrCanMapHostMemory, offsetof(synced_mem_device_info, can_map_host_memory)},
        {cudaDevAttrHostRegisterSupported, offsetof(synced_mem_device_info, host_register)},
        {cudaDevAttrUnifiedAddressing, offsetof(synced_mem_device_info, unified_addressing)},
        {cudaDevAttrAsyncEngineCount, offsetof(synced_mem_device_info, async_engines)},
        {cudaDevAttrHostNumaId, offsetof(synced_mem_device_info, numa_node)},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        for (int value = 3; value >= 0; value--) {
            const synced_mem_device_info before = info_of(2);
            int found;
            emu_set_attribute(2, attributes[i].attribute, value);
            synced_mem_device_info info = info_of(2);
            memcpy(&found, (const char *)&info + attributes[i].where, sizeof found);
            ck_assert_int_eq(found, value);
            memcpy((char *)&info + attributes[i].where, (const char *)&before + attributes[i].where, sizeof found);
            ck_assert_int_eq(memcmp(&info, &before, sizeof info), 0);
        }
    }
    emu_set_pools_supported(2, false);
    ck_assert_int_eq(info_of(2).memory_pools, 0);
    ck_assert_int_eq(info_of(1).memory_pools, 1);
}
END_TEST

START_TEST(the_rest)
{
    emu_set_device_memory(1, 123 << 20);
    gpu_make_current(1);
    const synced_mem_device_info info = info_of(SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_int_eq(info.device, 1);
    ck_assert_int_eq(info.driver_version, 13000);
    ck_assert_int_eq(info.runtime_version, CUDART_VERSION);
    ck_assert_uint_eq(info.total_memory, 123 << 20);
    ck_assert_str_eq(info.pci_bus_id, "0000:11:00.0");
    ck_assert_int_eq(gpu_current_device(), 1);
}
END_TEST

/* A driver is not queried for attributes that it does not know. */
START_TEST(old_drivers)
{
    static const struct {
        int version, pools, handles, numa;
    } drivers[] = {{11010, 0, 0, -1}, {11020, 1, 0, -1}, {11030, 1, 1, -1}, {12020, 1, 1, -1}, {12030, 1, 1, 2}};
    emu_set_attribute(0, cudaDevAttrMemoryPoolSupportedHandleTypes, SYNCED_MEM_GPU_POOL_HANDLE_POSIX_FD);
    emu_set_attribute(0, cudaDevAttrHostNumaId, 2);
    emu_set_driver_version(drivers[_i].version);
    const synced_mem_device_info info = info_of(0);
    ck_assert_int_eq(info.driver_version, drivers[_i].version);
    ck_assert_int_eq(info.memory_pools, drivers[_i].pools);
    ck_assert_int_eq(info.pool_handles, drivers[_i].handles);
    ck_assert_int_eq(info.numa_node, drivers[_i].numa);
}
END_TEST

/* ---- Without pools ---- */

START_TEST(no_pools)
{
    emu_set_pools_supported(0, false);
    OK(synced_mem_gpu_pool_set_threshold(0, 0));
    OK(synced_mem_gpu_pool_set_reuse(0, 0));
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    synced_mem *const more = make_at_gpu(SIZE, 2);
    OK(synced_mem_release(more));
    OK(synced_mem_gpu_pool_trim(0, 0));
    ck_assert_uint_eq(pool_now(0).used, SIZE);
    ck_assert_uint_eq(pool_now(0).reserved, SIZE);
    ck_assert_uint_eq(pool_now(0).used_high, 2 * SIZE);
    ck_assert_uint_eq(pool_now(0).reserved_high, 2 * SIZE);
    ck_assert_uint_eq(pool_now(1).used_high, 0);
    OK(synced_mem_gpu_pool_reset_peaks(0));
    ck_assert_uint_eq(pool_now(0).used_high, SIZE);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(pool_now(0).used, 0);
    ck_assert_uint_eq(emu_calls("cudaMemPoolCreate"), 0);
}
END_TEST

/* ---- Peers ---- */

/* The device has pools, or has none. */
static void set_kind(int i)
{
    if (i == 1)
        emu_set_pools_supported(0, false);
}

/* Returns whether a kernel of device 1 can read memory of device 0. A copy between the devices would work either
 * way. */
static bool is_let_in(void)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    const void *const data = synced_mem_gpu_data(mem);
    gpu_sync_device(0);
    gpu_make_current(1);
    synced_mem_stream stream = gpu_stream_create(1, false);
    void *const seen = gpu_alloc(1, SIZE);
    gpu_copy(seen, data, SIZE, stream);
    const cudaError_t status = cudaStreamSynchronize(stream);
    (void)cudaGetLastError();
    if (status == cudaSuccess) {
        gpu_stream_destroy(stream);
        gpu_free(seen);
        gpu_make_current(0);
        OK(synced_mem_release(mem));
    }
    return status == cudaSuccess;
}

START_TEST(let_in)
{
    set_kind(_i);
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    ck_assert(is_let_in());
    ck_assert_int_eq(gpu_current_device(), 0);
}
END_TEST

/* Access is refused at first, once it is forbidden again, and after a shutdown. The device breaks, so the test ends
 * there. */
START_TEST(not_let_in)
{
    set_kind(_i % 2);
    if (_i / 2 > 0)
        OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    if (_i / 2 == 1)
        OK(synced_mem_gpu_pool_allow_peer(0, 1, 0));
    if (_i / 2 == 2)
        OK(synced_mem_shutdown());
    ck_assert(!is_let_in());
    emu_reset(0);
}
END_TEST

START_TEST(out_of_reach)
{
    set_kind(_i);
    emu_set_peer_access(1, 0, false);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_pool_allow_peer(0, 1, 1));
    SAYS("device 1 can't access the memory of device 0");
    OK(synced_mem_gpu_pool_allow_peer(0, 2, 1));
}
END_TEST

/* The library does not end access that the caller has enabled itself. Access that has ended already need not be
 * ended. */
START_TEST(peers_of_the_callers)
{
    set_kind(1);
    gpu_make_current(1);
    ck_assert_int_eq(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
    gpu_make_current(0);
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 0));
    ck_assert(is_let_in());
    OK(synced_mem_gpu_pool_allow_peer(0, 2, 1));
    gpu_make_current(2);
    ck_assert_int_eq(cudaDeviceDisablePeerAccess(0), cudaSuccess);
    gpu_make_current(0);
    OK(synced_mem_gpu_pool_allow_peer(0, 2, 0));
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}
END_TEST

/* Simulates a runtime that accepts the call without any effect. */
static bool deaf;

cudaError_t __real_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count);
cudaError_t __wrap_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count);
cudaError_t __wrap_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
    return deaf ? cudaSuccess : __real_cudaMemPoolSetAccess(pool, list, count);
}

START_TEST(without_effect)
{
    deaf = true;
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_pool_allow_peer(0, 1, 1));
    SAYS("device 1 has access 0 to the pool of device 0, although 3 was set");
    deaf = false;
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
}
END_TEST

/* ---- Failures ---- */

static synced_mem_status ask_info(void)
{
    synced_mem_device_info info = {.struct_size = sizeof info, .device = 77};
    const synced_mem_status status = synced_mem_get_device_info(1, &info);
    ck_assert(status == SYNCED_MEM_OK || info.device == 77);
    return status;
}

static synced_mem_status ask_stats(void)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats, .used = 77};
    const synced_mem_status status = synced_mem_gpu_pool_get_stats(1, &stats);
    ck_assert(status == SYNCED_MEM_OK || stats.used == 77);
    return status;
}

static synced_mem_status set_threshold(void)
{
    return synced_mem_gpu_pool_set_threshold(1, 0);
}

static synced_mem_status set_reuse(void)
{
    return synced_mem_gpu_pool_set_reuse(1, 0);
}

static synced_mem_status trim(void)
{
    return synced_mem_gpu_pool_trim(1, 0);
}

static synced_mem_status reset_peaks(void)
{
    return synced_mem_gpu_pool_reset_peaks(1);
}

static synced_mem_status allow(void)
{
    return synced_mem_gpu_pool_allow_peer(1, 2, 1);
}

static synced_mem_status forbid(void)
{
    return synced_mem_gpu_pool_allow_peer(1, 2, 0);
}

/* With a pool, before there is a pool, and on a device without pools. */
enum { POOL, NO_POOL_YET, NO_POOLS, KINDS };

static synced_mem_status (*const calls[])(void) = {
    ask_info, ask_stats, set_threshold, set_reuse, trim, reset_peaks, allow, forbid,
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static void start_over(int kind)
{
    OK(synced_mem_shutdown());
    gpu_make_current(0);
    emu_reset(fixture_schedule());
    if (kind == NO_POOLS)
        emu_set_pools_supported(1, false);
    if (kind != NO_POOL_YET)
        OK(allow());
}

/* Each call of the runtime fails once. The function fails too, unless it can do without that call, and its next call
 * succeeds. */
START_TEST(each_call_fails)
{
    synced_mem_status (*const call)(void) = calls[_i / KINDS];
    const int kind = _i % KINDS;
    unsigned failed = 0;
    for (struct failing it = each_call("*", cudaErrorUnknown); next_failure(&it);) {
        start_over(kind);
        begin_failing(&it);
        const synced_mem_status status = call();
        ck_assert(end_failing(&it) || status == SYNCED_MEM_OK);
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_CUDA || status == SYNCED_MEM_ERR_NO_GPU);
        failed += status != SYNCED_MEM_OK;
        OK(call());
        ck_assert_int_eq(gpu_current_device(), 0);
        ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    }
    ck_assert_uint_gt(failed, 0);
}
END_TEST

/* The shutdown ends the access that was allowed, or the next shutdown does if that fails. */
START_TEST(peers_at_the_end)
{
    emu_set_pools_supported(0, false);
    OK(synced_mem_gpu_pool_allow_peer(0, 1, 1));
    emu_fail("cudaDeviceDisablePeerAccess", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_shutdown());
    OK(synced_mem_shutdown());
    gpu_make_current(1);
    ck_assert_int_eq(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
    (void)cudaGetLastError();
    gpu_make_current(0);
}
END_TEST

/* Calls the seam directly: the public functions make this query only after a failure. */
START_TEST(no_memory_info)
{
    size_t free_bytes = 7;
    size_t total = 7;
    OK(sm_device_memory_info(1, &free_bytes, &total));
    ck_assert_uint_eq(total, 1 << 30);
    emu_fail("cudaGetDevice", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_device_memory_info(1, &free_bytes, &total), SYNCED_MEM_ERR_CUDA);
}
END_TEST

/* A free that fails is tried again in the same call, when it polls retired memory. */
START_TEST(a_free_that_fails)
{
    static const char *const failing[] = {"cudaStreamIsCapturing", "cudaFreeAsync", "cudaStreamQuery"};
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    keep_no_spares();
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    gpu_hold(stream);
    if (_i == 2)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, other));
    emu_fail(failing[_i], 1, cudaErrorUnknown, false);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(emu_failures(), 1);
    ck_assert_uint_eq(stats_now().retired, 0);
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    gpu_unhold();
    CLOSE_EACH(stream, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("other_machines");
    TCase *const tests = add_case(made, "other_machines");
    TCase *const broken = add_case_without_end(made, "broken");
    add_tests(tests, each_attribute, the_rest, no_pools, peers_of_the_callers, without_effect, peers_at_the_end,
              no_memory_info);
    tcase_add_loop_test(tests, old_drivers, 0, 5);
    tcase_add_loop_test(tests, let_in, 0, 2);
    tcase_add_loop_test(tests, out_of_reach, 0, 2);
    tcase_add_loop_test(tests, each_call_fails, 0, CALLS * KINDS);
    tcase_add_loop_test(tests, a_free_that_fails, 0, 3);
    tcase_add_loop_test(broken, not_let_in, 0, 6);
    return made;
}
