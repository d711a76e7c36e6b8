/* Checks that a failed call takes nothing away. Earlier pointers stay valid, and their kernels are waited for. Memory
 * of the caller's stays in place, and the error's detail is that of the failure. */
#include "calls.h"

#include "cudart_emu.h"
#include "stream/stream.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000 };

static const char *const of_a_read[] = {"cudaMemcpyAsync", "cudaEventSynchronize"};
enum { OF_A_READ = sizeof of_a_read / sizeof of_a_read[0] };

/* Makes an object whose contents a kernel writes through data. The host's next read of them fails. */
static synced_mem *make_before_a_failure(const char *call, void **data)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    *data = synced_mem_mutable_gpu_data(mem);
    gpu_fill(*data, SIZE, 2, NULL);
    emu_fail(call, 1, cudaErrorUnknown, false);
    return mem;
}

/* Launches another kernel: the pointer stays valid until a conflicting call succeeds. */
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

/* The contents have reached the host when the wait for borrowed device memory fails. The head is restored even so. */
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

/* Makes a read fail whose transfer is queued and still in flight to the device. The earlier device pointer, for
 * writing, has expired. */
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

/* The stream of the open write was destroyed before the failure. It cannot be put behind the transfer. */
START_TEST(memory_is_not_freed_under_a_transfer_that_no_turn_follows)
{
    keep_no_spares();
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    synced_mem *const mems[] = {make_on(SIZE, 0), make_on(SIZE, 0)};
    for (unsigned i = 0; i < 2; i++)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], stream), SIZE, i + 1, stream);
    close_stream(stream);
    emu_fail("cudaMemcpyBatchAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull_n(mems, 2, other));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(synced_mem_head(mems[i]), SYNCED_MEM_AT_GPU);
        OK(synced_mem_release(mems[i]));
    }
    close_stream(other);
}
END_TEST

START_TEST(borrowed_memory_is_not_handed_back_under_a_late_transfer)
{
    void *const borrowed = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(synced_mem_set_gpu_data(mem, borrowed));
    OK(synced_mem_release_data(make_with_a_late_transfer(mem)));
    gpu_fill(borrowed, SIZE, 3, NULL); /* the memory is the caller's again */
    emu_run_all();
    ck_assert(device_is(borrowed, SIZE, 3));
    OK(synced_mem_release(mem));
    gpu_free(borrowed);
}
END_TEST

/* Lets both fail: the event behind the transfer and the synchronization. */
static void fail_to_follow(void)
{
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
}

/* Makes an object with host memory of the caller's, and an untracked transfer to it. */
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
    pattern_write(borrowed, SIZE, 3); /* the memory is the caller's again: nothing may write it any more */
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
    if (*mem) /* would hang if the object were locked */
        ck_assert_int_ne(synced_mem_cpu_source(*mem), SYNCED_MEM_SOURCE_ADOPTED);
    gpu_pinned_free(data);
}

START_TEST(callbacks_find_the_object_unlocked)
{
    synced_mem *mem = make(SIZE);
    void *const adopted = gpu_pinned_alloc(SIZE);
    pattern_write(adopted, SIZE, 1);
    OK(USE(mem, .cpu_data = adopted, .callback = ask_the_object, .user = &mem));
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

/* A poll of retired memory fails beside the allocation. The detail is the allocation's. */
START_TEST(the_detail_is_of_the_failure)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const first = make_at_cpu(SIZE, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(first, stream));
    OK(synced_mem_release(first));
    synced_mem *const mem = make(9 * SIZE);
    emu_set_device_memory(0, 1);
    emu_fail("cudaEventQuery", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    SAYS("cudaMallocFromPoolAsync");
    emu_fail_clear();
    OK(synced_mem_release(mem));
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

/* An error of the device does not prevent host memory. The host copy becomes pageable. */
START_TEST(host_memory_without_the_runtime)
{
    synced_mem *const first = make(SIZE); /* without a host copy */
    ck_assert_ptr_nonnull(synced_mem_gpu_data(first));
    synced_mem *const mem = make(SIZE);
    emu_fail(_i ? "cudaHostRegister" : "cudaGetDevice", 1, cudaErrorUnknown, false);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    RELEASE_EACH(mem, first);
}
END_TEST

/* ---- Sizes ---- */

/* A growth cannot allocate memory or move the contents. The object stays as it was, and the next try succeeds. */
START_TEST(a_failed_growth)
{
    static const char *const calls[] = {"cudaMallocFromPoolAsync", "cudaMemcpyAsync", "cudaMemsetAsync",
                                        "cudaStreamWaitEvent", "cudaStreamIsCapturing"};
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    synced_mem_stream stream = gpu_stream_create(0, false);
    const struct facts before = facts_of(mem);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    emu_fail(calls[_i], 1, cudaErrorUnknown, false);
    if (synced_mem_resize(mem, 3 * SIZE) != SYNCED_MEM_OK) {
        check_unchanged(mem, &before);
        OK(synced_mem_resize(mem, 3 * SIZE));
    }
    emu_fail_clear();
    ck_assert_uint_eq(synced_mem_size(mem), 3 * SIZE);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert(pattern_is((const char *)synced_mem_cpu_data(mem) + SIZE, 2 * SIZE, 0));
    OK(synced_mem_release(mem));
    OK(synced_mem_forget_stream(stream));
    gpu_stream_destroy(stream);
}
END_TEST

/* The same for contents on the host, in page-locked memory. */
START_TEST(a_failed_growth_of_host_memory)
{
    synced_mem *const mem = make_on(SIZE, 0);
    emu_set_pinned_memory(8192);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_resize(mem, 9 * SIZE));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    emu_set_pinned_memory(1 << 20);
    OK(synced_mem_resize(mem, 9 * SIZE));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Memory that can be freed meanwhile ---- */

enum { LARGE = 700000, ROOM = 1 << 20 }; /* room for one object */

/* The calls that need the memory of another object, which is retired. GROW is the fifth of both. */
enum { GROW = CALLS };
static const int wants[] = {GPU_READ, ON_OVERWRITE, PUSH, PUSH_TWICE, GROW, FREE_CPU};
static const int wants_of_host[] = {CPU_READ, CPU_OVERWRITE, PULL, FREE_GPU, GROW};
enum { WANTS = sizeof wants / sizeof wants[0], WANTS_OF_HOST = sizeof wants_of_host / sizeof wants_of_host[0] };

static synced_mem_status want(synced_mem *mem, int call, synced_mem_stream stream)
{
    return call == GROW ? synced_mem_resize(mem, LARGE) : make_call(mem, call, stream);
}

/* The memory could not be freed while a stream captured. After the capture, the call that needs memory frees it. */
START_TEST(device_memory_that_became_free)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem_stream capturing = gpu_stream_create(0, true);
    cudaGraph_t graph = NULL;
    keep_no_spares();
    emu_set_device_memory(0, ROOM);
    synced_mem *const first = make_on(LARGE, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(first, capturing), LARGE, 1, capturing);
    synced_mem *const mem = _i == 4 ? make_on(SIZE, 0) : make_on(LARGE, 0);
    if (_i == 4)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 2, NULL);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), LARGE, 2);
    ck_assert_int_eq(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    OK(synced_mem_release(first));
    ck_assert_int_eq(cudaStreamEndCapture(capturing, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    ck_assert_uint_eq(stats_now().retired, 1);
    OK(want(mem, wants[_i], stream));
    ck_assert_uint_eq(stats_now().retired, 0);
    if (_i == 1)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), LARGE, 2, stream);
    OK(synced_mem_release_cpu_data(mem));
    ck_assert(device_is(synced_mem_gpu_data(mem), _i == 4 ? SIZE : LARGE, 2));
    OK(synced_mem_release(mem));
    CLOSE_EACH(stream, capturing);
}
END_TEST

/* The same for page-locked memory that was released before a transfer had read it. */
START_TEST(host_memory_that_became_free)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const first = make_on(LARGE, 0);
    synced_mem *const mem = _i == 4 ? make_on(SIZE, 0) : make_on(LARGE, 0);
    emu_set_pinned_memory(ROOM);
    if (_i == 4)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
    else
        gpu_fill(synced_mem_overwrite_gpu_data(mem), LARGE, 2, NULL);
    host_fill(synced_mem_overwrite_cpu_data(first), LARGE, 1);
    OK(synced_mem_async_gpu_push(first, stream));
    OK(synced_mem_release(first));
    gpu_stream_sync(stream);
    OK(want(mem, wants_of_host[_i], stream));
    if (_i != 1)
        ck_assert(host_is(synced_mem_cpu_data(mem), _i == 4 ? SIZE : LARGE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- Other failures ---- */

static int handed_over;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user;
    ck_assert_ptr_null(stream);
    handed_over++;
}

/* Adopted memory was read by a transfer, and written by a later open write on another stream. Both have ended, but some
 * queries of the transfer's event fail. */
START_TEST(a_transfer_before_a_turn_that_is_over)
{
    void *const adopted = gpu_alloc(0, SIZE);
    synced_mem_stream pulling = gpu_stream_create(0, false);
    synced_mem_stream writing = gpu_stream_create(0, false);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .gpu_data = adopted, .callback = count));
    OK(synced_mem_async_cpu_pull(mem, pulling));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, writing), SIZE, 2, writing);
    gpu_stream_sync(writing);
    for (unsigned nth = 1; nth < 24; nth++)
        if ((unsigned)_i >> nth % 4 & 1)
            emu_fail("cudaEventQuery", nth, cudaErrorUnknown, false);
    OK(synced_mem_release(mem));
    for (int i = 0; i < 8; i++)
        OK(synced_mem_reap());
    emu_fail_clear();
    OK(synced_mem_shutdown());
    ck_assert_int_eq(handed_over, 1);
    gpu_stream_destroy(pulling);
    gpu_stream_destroy(writing);
    gpu_free(adopted);
}
END_TEST

/* The first of several transfers is in flight when the second cannot be queued. */
START_TEST(a_failed_transfer_of_many)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const all[] = {make_at_cpu(SIZE, 1), make_at_cpu(SIZE, 2), make_at_cpu(SIZE, 3)};
    emu_fail("cudaMemcpyAsync", 2, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push_n(all, 3, stream));
    SAYS("cudaMemcpyAsync");
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(synced_mem_head(all[i]), SYNCED_MEM_AT_CPU);
        host_fill(synced_mem_mutable_cpu_data(all[i]), SIZE, i + 4);
    }
    OK(synced_mem_async_gpu_push_n(all, 3, stream));
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(device_is(synced_mem_gpu_data(all[i]), SIZE, i + 4));
        OK(synced_mem_release(all[i]));
    }
    gpu_stream_destroy(stream);
}
END_TEST

/* A push waits on the host for contents that a stream fills, and the wait fails. */
START_TEST(a_failed_wait_before_a_push)
{
    void *const host = malloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make(SIZE);
    gpu_fill(device, SIZE, 1, stream);
    gpu_copy_to_host(host, device, SIZE, stream);
    OK(USE(mem, .cpu_data = host, .stream = stream));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    OK(synced_mem_async_gpu_push(mem, stream));
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    OK(synced_mem_forget_stream(stream));
    gpu_stream_destroy(stream);
    free(host);
    gpu_free(device);
}
END_TEST

/* The runtime is too old to report a stream's device. The library tries each device, the object's first. */
START_TEST(streams_of_an_old_runtime)
{
    const int device = _i % 3;
    synced_mem_stream stream = gpu_stream_create(device, false);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem *const there = make_on(SIZE, 3);
    emu_fail("cudaStreamGetDevice", 1, _i < 3 ? cudaErrorCallRequiresNewerDriver : cudaErrorNotSupported, false);
    emu_fail("cudaStreamGetDevice", 2, cudaErrorNotSupported, false);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    ck_assert_int_eq(synced_mem_device(mem), device);
    ck_assert_int_eq(gpu_current_device(), 0);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data_on(there, stream));
    emu_fail_clear();
    RELEASE_EACH(mem, there);
    OK(synced_mem_forget_stream(stream));
    gpu_stream_destroy(stream);
}
END_TEST

/* No device accepts the stream. */
START_TEST(a_stream_of_no_device)
{
    static const char *const calls[] = {"cudaEventRecord", "cudaEventCreateWithFlags", "cudaSetDevice"};
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    emu_fail("cudaStreamGetDevice", 1, cudaErrorNotSupported, false);
    for (unsigned nth = 1; nth < 10; nth++)
        emu_fail(calls[_i], nth, cudaErrorInvalidResourceHandle, false);
    if (_i == 2) /* the current device needs no cudaSetDevice */
        emu_fail("cudaEventRecord", 1, cudaErrorInvalidResourceHandle, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data_on(mem, stream));
    SAYS("no device accepts");
    emu_fail_clear();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_stream_destroy(stream);
}
END_TEST

/* A second try restores the caller's device or capture mode. */
START_TEST(a_second_try_to_put_back)
{
    synced_mem *const mem = make_on(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    for (unsigned nth = 1; nth < 12; nth++) {
        emu_fail(_i ? "cudaThreadExchangeStreamCaptureMode" : "cudaSetDevice", nth, cudaErrorUnknown, false);
        (void)synced_mem_mutable_gpu_data(mem);
        (void)synced_mem_cpu_data(mem);
        emu_fail_clear();
        ck_assert_int_eq(gpu_current_device(), 0);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* Calls the seam directly: the public functions get there only after two failures at once. */
START_TEST(a_stream_that_can_not_be_waited_for)
{
    int device;
    struct sm_stream *internal;
    OK(sm_device_resolve(0, &device));
    OK(sm_internal_stream(device, SM_INTERNAL_D2H, &internal));
    emu_fail("cudaGetDevice", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_device_stream_sync(device, internal->handle), SYNCED_MEM_ERR_CUDA);
    OK(sm_device_stream_sync(device, internal->handle));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("failures");
    TCase *const tests = add_case(made, "failures");
    add_tests(tests, a_late_transfer_does_not_land_on_later_work, memory_is_not_freed_under_a_late_transfer,
              memory_is_not_freed_under_a_transfer_that_no_turn_follows,
              borrowed_memory_is_not_handed_back_under_a_late_transfer, borrowed_memory_is_not_forgotten,
              borrowed_memory_stays_while_it_is_untracked, a_stream_that_can_not_be_waited_for,
              callbacks_find_the_object_unlocked, the_detail_is_of_the_failure, a_failed_growth_of_host_memory,
              a_failed_transfer_of_many, a_failed_wait_before_a_push);
    tcase_add_loop_test(tests, a_pointer_outlives_a_failed_read, 0, OF_A_READ);
    tcase_add_loop_test(tests, a_pointer_outlives_a_failed_release, 0, OF_A_READ);
    tcase_add_loop_test(tests, a_failed_release_leaves_the_head, 0, 3);
    tcase_add_loop_test(tests, host_memory_without_the_runtime, 0, 2);
    tcase_add_loop_test(tests, a_failed_growth, 0, 5);
    tcase_add_loop_test(tests, device_memory_that_became_free, 0, WANTS);
    tcase_add_loop_test(tests, host_memory_that_became_free, 0, WANTS_OF_HOST);
    tcase_add_loop_test(tests, a_transfer_before_a_turn_that_is_over, 0, 15);
    tcase_add_loop_test(tests, streams_of_an_old_runtime, 0, 6);
    tcase_add_loop_test(tests, a_stream_of_no_device, 0, 3);
    tcase_add_loop_test(tests, a_second_try_to_put_back, 0, 2);
    return made;
}
