/* What a failed call must not take away: pointers that were handed out before stay good, and are waited for; memory of
 * the caller's stays where it is; the detail is that of the failure. */
#include "fixture.h"

#include "cudart_emu.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000 };

static const char *const of_a_read[] = {"cudaMemcpyAsync", "cudaEventSynchronize"};
enum { OF_A_READ = sizeof of_a_read / sizeof of_a_read[0] };

/* An object whose contents a kernel writes through data, and a read of them by the host that is going to fail. */
static synced_mem *make_before_a_failure(const char *call, void **data)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    *data = synced_mem_mutable_gpu_data(mem);
    gpu_fill(*data, SIZE, 2, NULL);
    emu_fail(call, 1, cudaErrorUnknown, false);
    return mem;
}

/* The pointer is good until a conflicting call succeeds, so a kernel may still be launched with it. */
static void launch_again(const synced_mem *mem, void *data)
{
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    gpu_delay(NULL);
    gpu_fill(data, SIZE, 3, NULL);
}

START_TEST(a_pointer_outlives_a_failed_read)
{
    void *data;
    synced_mem *const mem = make_before_a_failure(of_a_read[_i], &data);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    launch_again(mem, data);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(a_pointer_outlives_a_failed_release)
{
    void *data;
    synced_mem *const mem = make_before_a_failure(of_a_read[_i], &data);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_release_gpu_data(mem));
    launch_again(mem, data);
    OK(synced_mem_release_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
}
END_TEST

/* The contents reached the host, and then the wait for borrowed device memory failed: the head is as before even so. */
START_TEST(a_failed_release_leaves_the_head)
{
    void *const borrowed = gpu_alloc(0, SIZE);
    gpu_fill(borrowed, SIZE, 2, NULL);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_gpu_data(mem, borrowed));
    emu_fail("cudaEventSynchronize", 1 + (unsigned)_i, cudaErrorUnknown, false);
    const synced_mem_status status = synced_mem_release_gpu_data(mem);
    if (status != SYNCED_MEM_OK) {
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    }
    emu_fail_clear();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(borrowed);
}
END_TEST

/* The device pointer was handed out to be written, and is no longer good. What the read that fails has queued is still
 * on its way to the device. */
static synced_mem *make_with_a_late_transfer(synced_mem *mem)
{
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    return mem;
}

START_TEST(a_late_transfer_does_not_land_on_later_work)
{
    synced_mem *const mem = make_with_a_late_transfer(make_on(SIZE, 0));
    OK(synced_mem_async_gpu_push(mem, NULL));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    emu_run_all();
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(memory_is_not_freed_under_a_late_transfer)
{
    synced_mem *const mem = make_with_a_late_transfer(make_on(SIZE, 0));
    OK(synced_mem_release_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(borrowed_memory_is_not_handed_back_under_a_late_transfer)
{
    void *const borrowed = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(synced_mem_set_gpu_data(mem, borrowed));
    OK(synced_mem_release_data(make_with_a_late_transfer(mem)));
    gpu_fill(borrowed, SIZE, 3, NULL); /* it is the caller's again */
    emu_run_all();
    ck_assert(device_is(borrowed, SIZE, 3));
    OK(synced_mem_release(mem));
    gpu_free(borrowed);
}
END_TEST

/* Neither an event behind the transfer nor a synchronization: the second record is the transfer's, the first covers the
 * caller's kernels. */
static void fail_to_follow(void)
{
    emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
}

/* The host's memory is the caller's, and a transfer to it got out of sight. */
static synced_mem *make_untracked(void *borrowed)
{
    synced_mem *const mem = make(SIZE);
    pattern_write(borrowed, SIZE, 1);
    OK(synced_mem_set_cpu_data(mem, borrowed));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    fail_to_follow();
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    return mem;
}

START_TEST(borrowed_memory_is_not_forgotten)
{
    void *const borrowed = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_untracked(borrowed);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    OK(synced_mem_release(mem));
    pattern_write(borrowed, SIZE, 3); /* it is the caller's again: nothing may write it any more */
    emu_run_all();
    ck_assert(host_is(borrowed, SIZE, 3));
    gpu_pinned_free(borrowed);
}
END_TEST

START_TEST(borrowed_memory_stays_while_it_is_untracked)
{
    void *const borrowed = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make_untracked(borrowed);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_release(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), borrowed);
    OK(synced_mem_release(mem));
    gpu_pinned_free(borrowed);
}
END_TEST

static void ask_the_object(void *data, void *user, synced_mem_stream stream)
{
    ck_assert_ptr_null(stream);
    synced_mem *const *const mem = user;
    if (*mem) /* would wait for ever if the object were locked */
        ck_assert_int_ne(synced_mem_cpu_source(*mem), SYNCED_MEM_SOURCE_ADOPTED);
    gpu_pinned_free(data);
}

START_TEST(callbacks_find_the_object_unlocked)
{
    synced_mem *mem = make(SIZE);
    void *const adopted = gpu_pinned_alloc(SIZE);
    pattern_write(adopted, SIZE, 1);
    OK(synced_mem_adopt_cpu_data(mem, adopted, ask_the_object, &mem));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    fail_to_follow();
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release_cpu_data(mem));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    mem = NULL;
    OK(synced_mem_shutdown());
}
END_TEST

/* Something is waiting to be let go of, and asking for it fails too. */
START_TEST(the_detail_is_of_the_failure)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const first = make_at_cpu(SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(first, stream));
    OK(synced_mem_release(first));
    synced_mem *const mem = make(SIZE);
    emu_fail("cudaMallocFromPoolAsync", 1, cudaErrorMemoryAllocation, false);
    emu_fail("cudaEventQuery", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    ck_assert_ptr_nonnull(strstr(synced_mem_last_error_message(), "cudaMallocFromPoolAsync"));
    emu_fail_clear();
    OK(synced_mem_release(mem));
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

/* Page-locking is the device's business; that the device has an error is no reason to have no host memory. */
START_TEST(host_memory_without_the_runtime)
{
    synced_mem *const first = make_at_cpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(first));
    synced_mem *const mem = make(SIZE);
    emu_fail(_i ? "cudaMallocHost" : "cudaGetDevice", 1, cudaErrorUnknown, false);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_release(mem));
    OK(synced_mem_release(first));
}
END_TEST

/* Below the interface it takes two failures at once to get there. */
START_TEST(a_stream_that_can_not_be_waited_for)
{
    int device;
    struct sm_stream *lane;
    OK(sm_device_resolve(0, &device));
    OK(sm_stream_lane(device, SM_LANE_D2H, &lane));
    emu_fail("cudaGetDevice", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_device_stream_sync(device, lane->handle), SYNCED_MEM_ERR_CUDA);
    OK(sm_device_stream_sync(device, lane->handle));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("failures");
    TCase *const tests = add_case(made, "failures");
    tcase_add_loop_test(tests, a_pointer_outlives_a_failed_read, 0, OF_A_READ);
    tcase_add_loop_test(tests, a_pointer_outlives_a_failed_release, 0, OF_A_READ);
    tcase_add_loop_test(tests, a_failed_release_leaves_the_head, 0, 3);
    tcase_add_test(tests, a_late_transfer_does_not_land_on_later_work);
    tcase_add_test(tests, memory_is_not_freed_under_a_late_transfer);
    tcase_add_test(tests, borrowed_memory_is_not_handed_back_under_a_late_transfer);
    tcase_add_test(tests, borrowed_memory_is_not_forgotten);
    tcase_add_test(tests, borrowed_memory_stays_while_it_is_untracked);
    tcase_add_test(tests, a_stream_that_can_not_be_waited_for);
    tcase_add_test(tests, callbacks_find_the_object_unlocked);
    tcase_add_test(tests, the_detail_is_of_the_failure);
    tcase_add_loop_test(tests, host_memory_without_the_runtime, 0, 2);
    return made;
}
