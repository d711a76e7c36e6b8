/* Tests copies between two devices, with and without access to one another's memory. */
#include "copies_kit.h"
#include "fixture.h"

#include "cudart_emu.h"

#include <cuda_runtime_api.h>

enum { SIZE = 5000 };

/* Replaces the runtime's function (--wrap). */
static bool forbids; /* while the library allows the access, the caller forbids it */

cudaError_t __real_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count);
cudaError_t __wrap_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count);
cudaError_t __wrap_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
    if (forbids) {
        forbids = false;
        OK(synced_mem_gpu_pool_allow_peer(0, 1, 0));
        OK(synced_mem_gpu_pool_allow_peer(1, 0, 0));
    }
    return __real_cudaMemPoolSetAccess(pool, list, count);
}

/* ---- Devices that reach one another ---- */

static unsigned copy_between(synced_mem *to, synced_mem *from)
{
    const unsigned before = gpu_calls("cudaMemPoolSetAccess");
    OK(synced_mem_async_gpu_copy(to, from, NULL));
    return gpu_calls("cudaMemPoolSetAccess") - before;
}

START_TEST(peers_are_let_in)
{
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    ck_assert_uint_eq(copy_between(to, from), 2); /* both ways */
    ck_assert_uint_eq(copy_between(to, from), 0);
    ck_assert_uint_eq(copy_between(from, to), 0);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    OK(synced_mem_shutdown());
    synced_mem *const later = make_on_device(SIZE, 9, NULL), *const other = make_there(SIZE, 2);
    ck_assert_uint_eq(copy_between(later, other), 2); /* the pools are new */
    release_both(later, other);
}
END_TEST

START_TEST(what_the_caller_has_set_stays)
{
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    OK(synced_mem_gpu_pool_allow_peer(0, 1, _i));
    ck_assert_uint_eq(copy_between(to, from), 1); /* the other way is unset */
    OK(synced_mem_gpu_pool_allow_peer(1, 0, 0));
    ck_assert_uint_eq(copy_between(to, from), 0);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    OK(synced_mem_gpu_pool_allow_peer(1, 0, 1));
    ck_assert_uint_eq(copy_between(to, from), 0);
    release_both(to, from);
}
END_TEST

START_TEST(a_refused_setting_is_none)
{
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    emu_fail("cudaMemPoolSetAccess", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_pool_allow_peer(0, 1, 0));
    ck_assert_uint_eq(copy_between(to, from), 2);
    release_both(to, from);
}
END_TEST

START_TEST(out_of_reach)
{
    emu_set_peer_access(0, 1, false);
    emu_set_peer_access(1, 0, false);
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    ck_assert_uint_eq(copy_between(to, from), 0);
    const unsigned asked = gpu_calls("cudaDeviceCanAccessPeer");
    ck_assert_uint_eq(copy_between(to, from), 0);
    ck_assert_uint_eq(gpu_calls("cudaDeviceCanAccessPeer"), asked);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
}
END_TEST

START_TEST(refused_access)
{
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    emu_fail("cudaMemPoolSetAccess", 1, cudaErrorUnknown, false);
    ck_assert_uint_eq(copy_between(to, from), 2);
    ck_assert_uint_eq(copy_between(to, from), 1); /* the refused one again */
    ck_assert_uint_eq(copy_between(to, from), 0);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
}
END_TEST

START_TEST(forbidden_meanwhile)
{
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    forbids = true;
    (void)copy_between(to, from);
    ck_assert_uint_eq(copy_between(to, from), 0);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
}
END_TEST

START_TEST(without_pools)
{
    emu_set_pools_supported(0, false);
    emu_set_pools_supported(1, _i);
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_there(SIZE, 1);
    ck_assert_uint_eq(copy_between(to, from), (unsigned)_i);
    ck_assert_uint_eq(gpu_calls("cudaDeviceEnablePeerAccess"), 0);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
}
END_TEST

/* The library does not allow access to user memory. */
START_TEST(memory_of_the_callers)
{
    void *const data = gpu_alloc(1, SIZE);
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_on(SIZE, 1);
    gpu_make_current(1);
    gpu_fill(data, SIZE, 1, NULL);
    gpu_make_current(0);
    OK(synced_mem_set_gpu_data(from, data));
    ck_assert_uint_eq(copy_between(to, from), 1);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    OK(synced_mem_async_gpu_copy(from, to, NULL));
    release_both(to, from);
    gpu_free(data);
}
END_TEST

/* Earlier and later work on a stream of the other device is ordered with the transfer. */
START_TEST(refused_order_between_devices)
{
    static const char *const calls[] = {"cudaStreamWaitEvent", "cudaEventRecord", "cudaMemcpyAsync"};
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const to = make_there(SIZE, 9), *const from = make_pinned(SIZE, 1);
    gpu_fill(synced_mem_mutable_gpu_data_on(from, stream), SIZE, 1, stream);
    host_fill(synced_mem_mutable_cpu_data(from), SIZE, 1);
    gpu_pause(stream);
    emu_fail(calls[_i / 4], 1 + (unsigned)_i % 4, cudaErrorUnknown, false);
    const synced_mem_status status = synced_mem_async_gpu_copy(to, from, stream);
    emu_fail_clear();
    const bool copied = host_is(synced_mem_cpu_data(to), SIZE, 1);
    ck_assert(copied || (status != SYNCED_MEM_OK && host_is(synced_mem_cpu_data(to), SIZE, 9)));
    OK(synced_mem_async_gpu_copy(to, from, stream));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    OK(synced_mem_forget_stream(stream));
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copies between devices");
    TCase *const peers = add_case(made, "peers");
    add_tests(peers, peers_are_let_in, a_refused_setting_is_none, out_of_reach, refused_access, forbidden_meanwhile,
              memory_of_the_callers);
    tcase_add_loop_test(peers, what_the_caller_has_set_stays, 0, 2);
    tcase_add_loop_test(peers, without_pools, 0, 2);
    tcase_add_loop_test(peers, refused_order_between_devices, 0, 12);
    return made;
}
